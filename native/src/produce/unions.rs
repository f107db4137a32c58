//! Values of unions, and rows that are, to the columns of their branches.
//!
//! The package decides which branch a value is of, by `UnionReader`. Here is taken what surely fits
//! that branch only: what names it, and what no other branch could take.

use crate::produce::columns::{Appending, Column, Node, NotTaken, Struct, Taken};
use crate::produce::from_rows::append_without;
use crate::python::dict_items::Dict;
use crate::python::py::Ref;
use crate::values::leaf::Leaf;
use crate::values::schema::{Field, Type, is_union};

/// Classes of Python values.
const BOOL: u8 = 1;
const INT: u8 = 2;
const FLOAT: u8 = 4;
const TEXT: u8 = 8;
const BYTES: u8 = 16;
const LIST: u8 = 32;
const DICT: u8 = 64;
/// Times and decimals.
const OTHER: u8 = 128;

/// What there is to know of a union's branches.
pub struct Union {
    names: Vec<Box<str>>,
    /// The classes that each takes.
    takes: Vec<u8>,
    /// Whether a dict that has the names of a branch's fields fits no other branch.
    is_alone: Vec<bool>,
    /// That of the last dict.
    last: usize,
}

impl Union {
    /// None: the fields are no branches.
    pub fn of(fields: &[Field]) -> Option<Box<Self>> {
        is_union(fields).then(|| {
            let names = fields.iter().filter_map(|field| field.branch.clone()).collect();
            let takes = fields.iter().map(|field| classes(&field.data_type)).collect();
            let is_alone = (0..fields.len()).map(|place| is_alone(fields, place)).collect();
            Box::new(Self { names, takes, is_alone, last: 0 })
        })
    }

    /// Where a value goes, and the value without a name; None: Python has to tell.
    fn find<'a>(
        &mut self,
        fields: &mut [Column],
        value: Ref<'a>,
        scratch: &mut Vec<u8>,
    ) -> Option<(Branch<'a>, Ref<'a>)> {
        if value.is_tuple() {
            let &[name, value] = value.items()? else { return None };
            return Some((Branch::at(self.named(name, scratch)?), value));
        }
        if let Some(dict) = value.dict() {
            return Some((self.of_dict(fields, dict, scratch)?, value));
        }
        let place = match self.only(class_of(value)) {
            Some(place) => place,
            None => self.of_object(fields, value)?,
        };
        Some((Branch::at(place), value))
    }

    /// The branch with a name.
    fn named(&self, name: Ref<'_>, scratch: &mut Vec<u8>) -> Option<usize> {
        let name = name.text()?.utf8(scratch)?;
        self.names.iter().position(|known| known.as_bytes() == name)
    }

    /// The only branch that takes values of a class.
    fn only(&self, class: u8) -> Option<usize> {
        let mut places = (0..self.takes.len()).filter(|place| self.takes[*place] & class > 0);
        let place = places.next()?;
        places.next().is_none().then_some(place)
    }

    /// The branch of a dict: it has the names of its fields, or its own name.
    fn of_dict<'a>(
        &mut self,
        fields: &mut [Column],
        dict: Dict<'a>,
        scratch: &mut Vec<u8>,
    ) -> Option<Branch<'a>> {
        let known = |field: &Column| match &field.node {
            Node::Struct(inner) => inner.template.has_last_keys(dict),
            _ => false,
        };
        let place = if known(&fields[self.last]) {
            self.last
        } else if let Some(place) = fields.iter().position(known) {
            place
        } else if let Some(item) = dict.iter().find(|item| is_type_key(item.key, scratch)) {
            let place = self.named(item.value, scratch)?;
            return Some(Branch { place, type_key: Some(item.key) });
        } else if let Some(place) = self.only(DICT) {
            return Some(Branch::at(place));
        } else {
            fields.iter_mut().position(|field| match &mut field.node {
                Node::Struct(inner) => inner.template.has_keys(dict, scratch),
                _ => false,
            })?
        };
        self.last = place;
        self.is_alone[place].then_some(Branch::at(place))
    }

    /// The branch of an object of a class that has the same fields.
    fn of_object(&mut self, fields: &mut [Column], value: Ref<'_>) -> Option<usize> {
        let place = fields.iter_mut().position(|field| match &mut field.node {
            Node::Struct(inner) => inner.template.has_fields_of(value),
            _ => false,
        })?;
        self.is_alone[place].then_some(place)
    }
}

/// Where a value goes.
struct Branch<'a> {
    place: usize,
    /// The key of a dict that is no field.
    type_key: Option<Ref<'a>>,
}

impl Branch<'_> {
    fn at(place: usize) -> Self {
        Self { place, type_key: None }
    }
}

/// Append a value to the branch that it is of, and null to the others.
#[inline(never)]
pub fn append_union(
    fields: &mut [Column],
    union: &mut Union,
    value: Ref<'_>,
    rep: u8,
    leaves: &mut [Leaf],
    appending: &mut Appending,
) -> Taken {
    let found = union.find(fields, value, &mut appending.scratch).ok_or(NotTaken)?;
    let (Branch { place, type_key }, value) = found;
    if value.is_none() {
        return Err(NotTaken);
    }
    for (at, field) in fields.iter_mut().enumerate() {
        if at != place {
            appending.size.nbytes += field.append_null(rep, leaves)?;
        } else if let Some(type_key) = type_key {
            let Node::Struct(inner) = &mut field.node else { return Err(NotTaken) };
            let Struct { template, fields } = &mut **inner;
            append_without(fields, template, value, type_key, rep, leaves, appending)?;
        } else {
            field.append(value, rep, leaves, appending)?;
        }
    }
    Ok(())
}

fn is_type_key(key: Ref<'_>, scratch: &mut Vec<u8>) -> bool {
    key.text().and_then(|text| text.utf8(scratch)) == Some(b"-type")
}

/// Whether no other branch could take a dict with the names of this one's fields, of which it may
/// lack such as have a default.
fn is_alone(fields: &[Field], place: usize) -> bool {
    let Type::Struct(own) = &fields[place].data_type else { return false };
    (0..fields.len()).filter(|other| *other != place).all(|other| match &fields[other].data_type {
        Type::Map(..) => false,
        Type::Struct(others) => {
            own.iter().any(|field| others.iter().all(|other| other.name != field.name))
        }
        _ => true,
    })
}

fn classes(data_type: &Type) -> u8 {
    match data_type {
        Type::Bool => BOOL,
        Type::Int { .. } | Type::Long | Type::UnsignedInt | Type::UnsignedLong => INT,
        Type::Float | Type::Double | Type::Half => FLOAT | INT,
        Type::Text { .. } => TEXT,
        Type::Binary | Type::Fixed { .. } => BYTES,
        Type::Date | Type::Timestamp { .. } | Type::ZonedTimestamp { .. } => OTHER | INT,
        Type::Time { .. } | Type::Duration { .. } | Type::Decimal(_) => OTHER | INT,
        Type::List(_) | Type::FixedList(..) => LIST,
        Type::Map(..) | Type::Struct(_) => DICT,
    }
}

fn class_of(value: Ref<'_>) -> u8 {
    if value.text().is_some() {
        TEXT
    } else if value.dict().is_some() {
        DICT
    } else if value.boolean().is_some() {
        BOOL
    } else if value.digits().is_some() {
        INT
    } else if value.float().is_some() {
        FLOAT
    } else if value.bytes().is_some() {
        BYTES
    } else if value.items().is_some() {
        LIST
    } else {
        OTHER
    }
}
