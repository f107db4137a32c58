//! How values are encoded in Avro.

use std::collections::HashMap;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// How a value is encoded.
pub enum Plan {
    Null,
    Boolean,
    Int,
    Long,
    Float,
    Double,
    Bytes,
    Text,
    Fixed(usize),
    Enum(Symbols),
    Array(Box<Plan>),
    Map(Box<Plan>),
    Record(Vec<Plan>),
    Union(Vec<Plan>),
}

impl Plan {
    /// Read `(type name, details)`.
    pub fn read(described: &Bound<'_, PyAny>) -> PyResult<Self> {
        let (name, details): (String, Bound<'_, PyAny>) = described.extract()?;
        let all = || {
            let plans: Vec<Bound<'_, PyAny>> = details.extract()?;
            plans.iter().map(Self::read).collect::<PyResult<Vec<_>>>()
        };
        Ok(match name.as_str() {
            "null" => Self::Null,
            "boolean" => Self::Boolean,
            "int" => Self::Int,
            "long" => Self::Long,
            "float" => Self::Float,
            "double" => Self::Double,
            "bytes" => Self::Bytes,
            "string" => Self::Text,
            "fixed" => Self::Fixed(details.extract()?),
            "enum" => Self::Enum(Symbols::new(details.extract()?)),
            "array" => Self::Array(Box::new(Self::read(&details)?)),
            "map" => Self::Map(Box::new(Self::read(&details)?)),
            "record" => Self::Record(all()?),
            "union" => Self::Union(all()?),
            _ => return Err(PyValueError::new_err(format!("no Avro type {name:?}"))),
        })
    }
}

/// The texts that an enum has.
pub struct Symbols {
    texts: Vec<String>,
    /// Where each is, if they are many.
    places: Option<HashMap<Box<[u8]>, usize>>,
}

impl Symbols {
    const MANY: usize = 16;

    fn new(texts: Vec<String>) -> Self {
        let place = |(place, text): (usize, &String)| (text.as_bytes().into(), place);
        let are_many = texts.len() > Self::MANY;
        let places = are_many.then(|| texts.iter().enumerate().map(place).collect());
        Self { texts, places }
    }

    pub fn get(&self, place: usize) -> Option<&[u8]> {
        self.texts.get(place).map(|text| text.as_bytes())
    }

    pub fn place(&self, text: &[u8]) -> Option<usize> {
        match &self.places {
            Some(places) => places.get(text).copied(),
            None => self.texts.iter().position(|other| other.as_bytes() == text),
        }
    }
}
