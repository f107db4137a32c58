//! What a file's leaves hold: Parquet's own description, which must be that of the columns.

use std::ops::Range;

use super::thrift::{BINARY, Cursor, I32, STRUCT};
use super::{GaveUp, Read, ensure};
use crate::parquet::field_ids::schema_element;
use crate::parquet::format::PhysicalType;
use crate::values::decimal::Decimals;
use crate::values::schema::{Field, Type, Unit};

/// More than any schema of ours has.
const MAX_ELEMENTS: usize = 1 << 20;
const MAX_DEPTH: usize = 100;
/// The seconds of a day.
const DAY: i64 = 86_400;
/// What a list takes beside its values.
const LIST_BYTES: u64 = 8;
const REQUIRED: i32 = 0;
const OPTIONAL: i32 = 1;
const REPEATED: i32 = 2;

/// The columns of files whose schema has the same elements.
pub struct Schema {
    pub fields: Vec<Field>,
    pub leaves: Vec<LeafShape>,
    /// How many of the leaves are each field's.
    pub leaf_counts: Vec<usize>,
}

/// How a leaf is stored.
pub struct LeafShape {
    pub physical_type: PhysicalType,
    /// The bytes of a value of fixed size.
    pub width: usize,
    /// The same in Arrow, at most.
    pub arrow_width: u64,
    pub allowed: Allowed,
    pub max_def: u8,
    /// The definition level of an element at each repetition level from 1 on.
    pub element_defs: Vec<u8>,
    /// Whether only the leaf itself may be null.
    pub is_flat: bool,
    /// What Arrow takes for each row and for each value, where lists of one length are around it: null
    /// ones, too, have all of their values.
    pub sized: Option<SlotBytes>,
}

/// The values that a type allows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Allowed {
    All,
    Utf8,
    /// From the least to the greatest.
    Int(i32, i32),
    Long(i64, i64),
    /// Those that have few enough digits.
    Digits(Decimals),
}

impl Allowed {
    fn of(data_type: &Type) -> Self {
        match data_type {
            Type::Text { .. } => Self::Utf8,
            Type::Int { least, most } => Self::Int(*least, *most),
            // Many readers have microseconds only: what does not fit these is for Arrow to judge.
            Type::Timestamp { unit: Unit::Milli, .. }
            | Type::ZonedTimestamp { unit: Unit::Milli, .. } => {
                Self::Long(i64::MIN / 1_000, i64::MAX / 1_000)
            }
            Type::Time { unit: Unit::Milli } => Self::Int(0, DAY as i32 * 1_000 - 1),
            Type::Time { unit } => Self::Long(0, DAY * unit.per_second() - 1),
            Type::Decimal(decimals) => Self::Digits(decimals.clone()),
            _ => Self::All,
        }
    }
}

/// Bytes.
#[derive(Clone, Copy, Default)]
pub struct SlotBytes {
    pub per_row: u64,
    pub per_value: u64,
}

impl LeafShape {
    pub fn max_rep(&self) -> u8 {
        self.element_defs.len() as u8
    }
}

/// One element of the schema, as the file has it.
struct Element<'d> {
    physical_type: Option<i32>,
    length: i32,
    repetition: i32,
    name: &'d [u8],
    children: usize,
}

impl Schema {
    /// Compare the columns with a footer's list of schema elements; give up if they differ.
    pub fn new(elements: &[u8], fields: Vec<Field>) -> Read<Self> {
        let mut cursor = Cursor::new(elements, 0, MAX_ELEMENTS);
        let count = cursor.list(STRUCT)?;
        let listed = (0..count).map(|_| read_element(&mut cursor)).collect::<Read<Vec<_>>>()?;
        let mut elements = listed.iter();
        let root = elements.next().ok_or(GaveUp)?;
        ensure(root.physical_type.is_none() && root.children == fields.len())?;
        let (mut leaves, mut leaf_counts) = (Vec::new(), Vec::with_capacity(fields.len()));
        for field in &fields {
            let (above, before) = (Above::nothing(), leaves.len());
            add(field, Some(field.name.as_bytes()), &above, &mut elements, &mut leaves)?;
            leaf_counts.push(leaves.len() - before);
        }
        ensure(elements.next().is_none())?;
        Ok(Self { fields, leaves, leaf_counts })
    }

    /// The fields, and the numbers of each one's leaves.
    pub fn columns(&self) -> impl Iterator<Item = (&Field, Range<usize>)> {
        let mut start = 0;
        self.fields.iter().zip(&self.leaf_counts).map(move |(field, count)| {
            let leaves = start..start + count;
            start = leaves.end;
            (field, leaves)
        })
    }
}

fn read_element<'d>(cursor: &mut Cursor<'d>) -> Read<Element<'d>> {
    let mut element =
        Element { physical_type: None, length: 0, repetition: REQUIRED, name: &[], children: 0 };
    cursor.structure(|fields, id, field| {
        match (id, field) {
            (schema_element::TYPE, I32) => element.physical_type = Some(fields.i32()?),
            (schema_element::TYPE_LENGTH, I32) => element.length = fields.i32()?,
            (schema_element::REPETITION_TYPE, I32) => element.repetition = fields.i32()?,
            (schema_element::NAME, BINARY) => element.name = fields.binary()?,
            (schema_element::NUM_CHILDREN, I32) => element.children = fields.count32()?,
            _ => fields.skip(field)?, // what pyarrow has made types of
        }
        Ok(())
    })?;
    Ok(element)
}

/// The levels of what a field stands in.
#[derive(Clone)]
struct Above {
    def: u8,
    element_defs: Vec<u8>,
    depth: usize,
    /// How many slots there are for each row, or in a list for each of its values.
    slots: u64,
    is_in_list: bool,
    sized: Option<SlotBytes>,
}

impl Above {
    /// A row.
    fn nothing() -> Self {
        Self {
            def: 0,
            element_defs: Vec::new(),
            depth: 0,
            slots: 1,
            is_in_list: false,
            sized: None,
        }
    }

    /// Enter the repeated group of a list or map.
    fn repeated(mut self, element: Option<&Element<'_>>, children: usize) -> Read<Self> {
        let element = element.ok_or(GaveUp)?;
        ensure(element.repetition == REPEATED && element.children == children)?;
        ensure(element.physical_type.is_none())?;
        self.def += 1;
        self.element_defs.push(self.def);
        self.depth += 1;
        Ok(self)
    }

    /// Enter a list of any length.
    fn in_list(mut self) -> Self {
        self.count(LIST_BYTES);
        self.slots = 1;
        self.is_in_list = true;
        self
    }

    /// Enter a list of one length, as `page_checks` counts it.
    fn in_sized_list(mut self, size: usize) -> Self {
        self.slots = self.slots.saturating_mul(2 * size as u64);
        self.sized.get_or_insert_default();
        self
    }

    /// Count what each slot takes.
    fn count(&mut self, nbytes: u64) {
        let is_in_list = self.is_in_list;
        if let Some(sized) = &mut self.sized {
            let nbytes = self.slots.saturating_mul(nbytes);
            let total = if is_in_list { &mut sized.per_value } else { &mut sized.per_row };
            *total = total.saturating_add(nbytes);
        }
    }
}

/// Add the leaves of a field, whose elements come next; those in lists may have any name.
fn add<'e, 'd: 'e>(
    field: &Field,
    name: Option<&[u8]>,
    above: &Above,
    elements: &mut impl Iterator<Item = &'e Element<'d>>,
    leaves: &mut Vec<LeafShape>,
) -> Read<()> {
    let element = elements.next().ok_or(GaveUp)?;
    ensure(name.is_none_or(|name| name == element.name) && above.depth < MAX_DEPTH)?;
    ensure(element.repetition == if field.nullable { OPTIONAL } else { REQUIRED })?;
    let mut here = above.clone();
    here.def += u8::from(field.nullable);
    here.depth += 1;
    match &field.data_type {
        Type::Struct(fields) => {
            ensure(element.physical_type.is_none() && element.children == fields.len())?;
            ensure(!fields.is_empty())?;
            fields.iter().try_for_each(|field| {
                add(field, Some(field.name.as_bytes()), &here, elements, leaves)
            })
        }
        Type::List(item) => {
            ensure(element.physical_type.is_none() && element.children == 1)?;
            let inner = here.repeated(elements.next(), 1)?.in_list();
            add(item, None, &inner, elements, leaves)
        }
        Type::FixedList(item, size) => {
            ensure(element.physical_type.is_none() && element.children == 1 && *size > 0)?;
            let inner = here.repeated(elements.next(), 1)?.in_sized_list(*size);
            add(item, None, &inner, elements, leaves)
        }
        Type::Map(key, value) => {
            ensure(element.physical_type.is_none() && element.children == 1 && !key.nullable)?;
            let inner = here.repeated(elements.next(), 2)?.in_list();
            add(key, None, &inner, elements, leaves)?;
            add(value, None, &inner, elements, leaves)
        }
        leaf => {
            let (physical_type, width) = physical(leaf).ok_or(GaveUp)?;
            ensure(element.physical_type == Some(physical_type as i32) && element.children == 0)?;
            if physical_type == PhysicalType::FixedLenByteArray {
                ensure(usize::try_from(element.length) == Ok(width) && width > 0)?;
            }
            let arrow_width = arrow_width(leaf, width);
            here.count(arrow_width);
            leaves.push(LeafShape {
                physical_type,
                width,
                arrow_width,
                allowed: Allowed::of(leaf),
                is_flat: field.nullable && above.def == 0,
                max_def: here.def,
                element_defs: here.element_defs,
                sized: here.sized,
            });
            Ok(())
        }
    }
}

/// How a type is stored, and the bytes of its values. Parquet has no seconds.
fn physical(data_type: &Type) -> Option<(PhysicalType, usize)> {
    Some(match data_type {
        Type::Timestamp { unit: Unit::Second, .. }
        | Type::ZonedTimestamp { unit: Unit::Second, .. }
        | Type::Time { unit: Unit::Second } => return None, // Arrow converts these
        Type::Bool => (PhysicalType::Boolean, 1),
        Type::Int { .. } | Type::UnsignedInt | Type::Date => (PhysicalType::Int32, 4),
        Type::Time { unit: Unit::Milli } => (PhysicalType::Int32, 4),
        Type::Long | Type::UnsignedLong | Type::Timestamp { .. } => (PhysicalType::Int64, 8),
        Type::ZonedTimestamp { .. } | Type::Time { .. } => (PhysicalType::Int64, 8),
        Type::Duration { .. } => (PhysicalType::Int64, 8),
        Type::Float => (PhysicalType::Float, 4),
        Type::Double => (PhysicalType::Double, 8),
        Type::Text { .. } | Type::Binary => (PhysicalType::ByteArray, 8),
        Type::Fixed { width } | Type::Decimal(Decimals { width, .. }) => {
            (PhysicalType::FixedLenByteArray, *width)
        }
        Type::Half => (PhysicalType::FixedLenByteArray, 2),
        Type::List(_) | Type::FixedList(..) | Type::Map(..) | Type::Struct(_) => return None,
    })
}

/// The bytes of a value in Arrow, at most.
fn arrow_width(data_type: &Type, width: usize) -> u64 {
    match data_type {
        Type::Decimal(_) => 32,
        _ => width as u64,
    }
}
