//! A topic's columns, as the package describes them: a tree of tuples.

use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};

use crate::values::decimal::Decimals;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    Second,
    Milli,
    Micro,
    Nano,
}

impl Unit {
    fn named(name: &str) -> PyResult<Self> {
        match name {
            "s" => Ok(Self::Second),
            "ms" => Ok(Self::Milli),
            "us" => Ok(Self::Micro),
            "ns" => Ok(Self::Nano),
            _ => Err(PyValueError::new_err(format!("no unit {name:?}"))),
        }
    }

    pub fn per_second(self) -> i64 {
        match self {
            Self::Second => 1,
            Self::Milli => 1_000,
            Self::Micro => 1_000_000,
            Self::Nano => 1_000_000_000,
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Type {
    Bool,
    /// A signed integer of at most 32 bits, from its least to its greatest value.
    Int {
        least: i32,
        most: i32,
    },
    Long,
    /// An unsigned integer of 8 or 16 bits is an `Int`.
    UnsignedInt,
    UnsignedLong,
    Float,
    Double,
    /// Text; with symbols, one of them, which are sorted.
    Text {
        symbols: Option<Vec<Box<str>>>,
    },
    Binary,
    Fixed {
        width: usize,
    },
    Date,
    Timestamp {
        unit: Unit,
        has_zone: bool,
    },
    /// A timestamp of another zone than UTC.
    ZonedTimestamp {
        unit: Unit,
        zone: Zone,
    },
    /// A time of day; an `i32` in milliseconds, else an `i64`.
    Time {
        unit: Unit,
    },
    Duration {
        unit: Unit,
    },
    Decimal(Decimals),
    /// A float of 16 bits.
    Half,
    List(Box<Field>),
    /// Lists of one length.
    FixedList(Box<Field>, usize),
    Map(Box<Field>, Box<Field>),
    Struct(Vec<Field>),
}

impl Type {
    /// Whether its values are no lists, maps or records.
    pub fn is_leaf(&self) -> bool {
        !matches!(self, Self::List(_) | Self::FixedList(..) | Self::Map(..) | Self::Struct(_))
    }
}

/// An object of Python's for a zone.
#[derive(Clone, Debug)]
pub struct Zone(pub Arc<Py<PyAny>>);

impl PartialEq for Zone {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_ptr() == other.0.as_ptr()
    }
}

impl Eq for Zone {}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Field {
    pub name: Box<str>,
    pub nullable: bool,
    pub data_type: Type,
    /// The name of the branch that it is in a union.
    pub branch: Option<Box<str>>,
}

/// Whether fields are the branches of a union, of which one is not null.
pub fn is_union(fields: &[Field]) -> bool {
    !fields.is_empty() && fields.iter().all(|field| field.nullable && field.branch.is_some())
}

/// Whether rows of these columns are records of several types.
pub fn is_union_of_rows(fields: &[Field]) -> bool {
    is_union(fields) && fields.iter().all(|field| matches!(field.data_type, Type::Struct(_)))
}

/// Name, whether it may be null, type, details, children, and the branch of a union.
type Described<'py> = (
    Bound<'py, PyString>,
    bool,
    Bound<'py, PyString>,
    Bound<'py, PyAny>,
    Bound<'py, PyTuple>,
    Option<String>,
);

/// The bytes of a text's index or end, and of the place of a null.
const PLACE: usize = 4;

impl Field {
    /// Read `(name, nullable, type name, details, children, branch)`.
    pub fn read(described: &Bound<'_, PyAny>) -> PyResult<Self> {
        let (name, nullable, type_name, details, children, branch): Described<'_> =
            described.extract()?;
        let name = name.to_str()?.into();
        let type_name = type_name.to_str()?;
        let mut children =
            children.iter().map(|child| Self::read(&child)).collect::<PyResult<Vec<_>>>()?;
        let int = |least, most| Type::Int { least, most };
        let mut child = || {
            let none = || PyValueError::new_err(format!("{type_name} {name:?} lacks a child"));
            if children.is_empty() { Err(none()) } else { Ok(Box::new(children.remove(0))) }
        };
        let data_type = match type_name {
            "bool" => Type::Bool,
            "int8" => int(i32::from(i8::MIN), i32::from(i8::MAX)),
            "int16" => int(i32::from(i16::MIN), i32::from(i16::MAX)),
            "int32" => int(i32::MIN, i32::MAX),
            "int64" => Type::Long,
            "uint8" => int(0, i32::from(u8::MAX)),
            "uint16" => int(0, i32::from(u16::MAX)),
            "uint32" => Type::UnsignedInt,
            "uint64" => Type::UnsignedLong,
            "float32" => Type::Float,
            "float64" => Type::Double,
            "string" => Type::Text { symbols: symbols(&details)? },
            "binary" => Type::Binary,
            "fixed_size_binary" => Type::Fixed { width: details.extract()? },
            "date32" => Type::Date,
            "timestamp" => {
                let (unit, has_zone): (String, bool) = details.extract()?;
                Type::Timestamp { unit: Unit::named(&unit)?, has_zone }
            }
            "zoned_timestamp" => {
                let (unit, zone): (String, Py<PyAny>) = details.extract()?;
                Type::ZonedTimestamp { unit: Unit::named(&unit)?, zone: Zone(Arc::new(zone)) }
            }
            "time" => Type::Time { unit: Unit::named(&details.extract::<String>()?)? },
            "duration" => Type::Duration { unit: Unit::named(&details.extract::<String>()?)? },
            "decimal" => {
                let (width, precision, scale, max_digits) = details.extract()?;
                Type::Decimal(Decimals { width, precision, scale, max_digits })
            }
            "float16" => Type::Half,
            "list" => Type::List(child()?),
            "fixed_size_list" => Type::FixedList(child()?, details.extract()?),
            "map" => Type::Map(child()?, child()?),
            "struct" => Type::Struct(children),
            _ => return Err(PyValueError::new_err(format!("no type {type_name:?}"))),
        };
        Ok(Self { name, nullable, data_type, branch: branch.map(String::into_boxed_str) })
    }
}

fn symbols(details: &Bound<'_, PyAny>) -> PyResult<Option<Vec<Box<str>>>> {
    let names: Option<Vec<String>> = details.extract()?;
    Ok(names.map(|mut names| {
        names.sort();
        names.into_iter().map(String::into_boxed_str).collect()
    }))
}

impl Field {
    /// The bytes that each value or null takes, besides text and the items of lists.
    pub fn width(&self) -> usize {
        let width = match &self.data_type {
            Type::Bool => 1,
            Type::Int { .. } | Type::UnsignedInt | Type::Float | Type::Date => 4,
            Type::Time { unit: Unit::Milli } => 4,
            Type::Long | Type::UnsignedLong | Type::Double | Type::Timestamp { .. } => 8,
            Type::ZonedTimestamp { .. } | Type::Time { .. } | Type::Duration { .. } => 8,
            Type::Fixed { width } | Type::Decimal(Decimals { width, .. }) => *width,
            Type::Half => 2,
            Type::Text { .. } | Type::Binary => PLACE,
            // As they come.
            Type::List(_) | Type::FixedList(..) | Type::Map(..) => return 0,
            Type::Struct(fields) => return fields.iter().map(|field| 2 + field.width()).sum(),
        };
        if self.nullable { width.max(PLACE) } else { width }
    }
}
