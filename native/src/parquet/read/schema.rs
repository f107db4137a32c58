//! What a file's leaves hold: Parquet's own description, which must be that of the columns.

use super::thrift::{BINARY, Cursor, I32, STRUCT};
use super::{GaveUp, Read, ensure};
use crate::parquet::format::PhysicalType;
use crate::schema::{Field, Type};

/// More than any schema of ours has.
const MAX_ELEMENTS: usize = 1 << 20;
const MAX_DEPTH: usize = 100;
const REQUIRED: i32 = 0;
const OPTIONAL: i32 = 1;
const REPEATED: i32 = 2;

/// The columns of files whose schema has the same elements.
pub struct Schema {
    pub fields: Vec<Field>,
    pub leaves: Vec<LeafShape>,
}

/// How a leaf is stored.
pub struct LeafShape {
    pub physical_type: PhysicalType,
    /// The bytes of a value of fixed size.
    pub width: usize,
    /// The least and the greatest value of small integers.
    pub bounds: Option<(i32, i32)>,
    pub is_text: bool,
    pub max_def: u8,
    /// The definition level of an element at each repetition level from 1 on.
    pub element_defs: Vec<u8>,
    /// Whether only the leaf itself may be null.
    pub is_flat: bool,
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
        let found = (0..count).map(|_| read_element(&mut cursor)).collect::<Read<Vec<_>>>()?;
        let mut elements = found.iter();
        let root = elements.next().ok_or(GaveUp)?;
        ensure(root.physical_type.is_none() && root.children == fields.len())?;
        let mut leaves = Vec::new();
        for field in &fields {
            let above = Above::default();
            add(field, Some(field.name.as_bytes()), &above, &mut elements, &mut leaves)?;
        }
        ensure(elements.next().is_none())?;
        Ok(Self { fields, leaves })
    }
}

fn read_element<'d>(cursor: &mut Cursor<'d>) -> Read<Element<'d>> {
    let mut element =
        Element { physical_type: None, length: 0, repetition: REQUIRED, name: &[], children: 0 };
    cursor.structure(|fields, id, field| {
        match (id, field) {
            (1, I32) => element.physical_type = Some(fields.i32()?),
            (2, I32) => element.length = fields.i32()?,
            (3, I32) => element.repetition = fields.i32()?,
            (4, BINARY) => element.name = fields.binary()?,
            (5, I32) => element.children = fields.count32()?,
            _ => fields.skip(field)?, // what pyarrow has made types of
        }
        Ok(())
    })?;
    Ok(element)
}

/// The levels of what a field stands in.
#[derive(Clone, Default)]
struct Above {
    def: u8,
    element_defs: Vec<u8>,
    depth: usize,
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
            let inner = repeated(here, elements.next(), 1)?;
            add(item, None, &inner, elements, leaves)
        }
        Type::Map(key, value) => {
            ensure(element.physical_type.is_none() && element.children == 1 && !key.nullable)?;
            let inner = repeated(here, elements.next(), 2)?;
            add(key, None, &inner, elements, leaves)?;
            add(value, None, &inner, elements, leaves)
        }
        leaf => {
            let (physical_type, width) = physical(leaf).ok_or(GaveUp)?;
            ensure(element.physical_type == Some(physical_type as i32) && element.children == 0)?;
            if physical_type == PhysicalType::FixedLenByteArray {
                ensure(usize::try_from(element.length) == Ok(width) && width > 0)?;
            }
            leaves.push(LeafShape {
                physical_type,
                width,
                bounds: match leaf {
                    Type::Int { least, most } if (*least, *most) != (i32::MIN, i32::MAX) => {
                        Some((*least, *most))
                    }
                    _ => None,
                },
                is_text: matches!(leaf, Type::Text { .. }),
                is_flat: field.nullable && above.def == 0,
                max_def: here.def,
                element_defs: here.element_defs,
            });
            Ok(())
        }
    }
}

/// Enter the repeated group of a list or map.
fn repeated(mut above: Above, element: Option<&Element<'_>>, children: usize) -> Read<Above> {
    let element = element.ok_or(GaveUp)?;
    ensure(element.repetition == REPEATED && element.children == children)?;
    ensure(element.physical_type.is_none())?;
    above.def += 1;
    above.element_defs.push(above.def);
    above.depth += 1;
    Ok(above)
}

/// How a type is stored, and the bytes of its values in Arrow.
fn physical(data_type: &Type) -> Option<(PhysicalType, usize)> {
    Some(match data_type {
        Type::Bool => (PhysicalType::Boolean, 1),
        Type::Int { .. } | Type::UnsignedInt | Type::Date => (PhysicalType::Int32, 4),
        Type::Long | Type::UnsignedLong | Type::Timestamp { .. } => (PhysicalType::Int64, 8),
        Type::Float => (PhysicalType::Float, 4),
        Type::Double => (PhysicalType::Double, 8),
        Type::Text { .. } | Type::Binary => (PhysicalType::ByteArray, 8),
        Type::Fixed { width } => (PhysicalType::FixedLenByteArray, *width),
        _ => return None, // Arrow reads these
    })
}
