//! Whether the leaves of nested columns agree, and whether each map can be a dict.

use std::collections::HashSet;
use std::hash::Hash;
use std::ops::Range;

use super::{GaveUp, Read, ensure};
use crate::leaf::{Leaf, Levels, Values};
use crate::schema::{Field, Type};

/// Up to so many keys are compared with each other.
const FEW_KEYS: usize = 16;

/// What a field is in.
#[derive(Clone, Copy, Default)]
struct Place {
    def: u8,
    rep: u8,
    /// The definition level at which there is an element of the innermost list, or a row.
    element: u8,
}

impl Place {
    fn in_list(self) -> Self {
        Self { def: self.def + 1, rep: self.rep + 1, element: self.def + 1 }
    }
}

/// Check the leaves of all fields, which come in order.
pub fn check(fields: &[Field], mut leaves: &[Leaf]) -> Read<()> {
    for field in fields {
        let count = check_field(field, Place::default(), leaves)?;
        leaves = &leaves[count..];
    }
    Ok(())
}

/// Check the first leaves, which are a field's; return how many these are.
fn check_field(field: &Field, mut place: Place, leaves: &[Leaf]) -> Read<usize> {
    place.def += u8::from(field.nullable);
    let Place { def, rep, .. } = place;
    match &field.data_type {
        Type::Struct(fields) => {
            let mut count = 0;
            for field in fields {
                let added = check_field(field, place, &leaves[count..])?;
                ensure(count == 0 || agree(&leaves[0], &leaves[count], def, rep))?;
                count += added;
            }
            Ok(count)
        }
        Type::List(item) => check_field(item, place.in_list(), leaves),
        Type::FixedList(item, size) => {
            check_sizes(&leaves[0], place, *size, field.nullable)?;
            check_field(item, place.in_list(), leaves)
        }
        Type::Map(key, value) => {
            let keys = check_field(key, place.in_list(), leaves)?;
            let values = check_field(value, place.in_list(), &leaves[keys..])?;
            ensure(keys == 1 && agree(&leaves[0], &leaves[keys], def + 1, rep + 1))?;
            check_keys(&leaves[0], rep + 1)?;
            Ok(keys + values)
        }
        _ => Ok(1),
    }
}

/// Whether two leaves say the same about what both are in, whose levels these are.
fn agree(a: &Leaf, b: &Leaf, def: u8, rep: u8) -> bool {
    match (&a.levels, &b.levels) {
        _ if def == 0 && rep == 0 => true, // it is there in each row
        (Levels::Nested { def: a, rep: None }, Levels::Nested { def: b, rep: None }) => {
            a.iter().map(|&level| level.min(def)).eq(b.iter().map(|&level| level.min(def)))
        }
        (Levels::Nested { def: a, rep: a_rep }, Levels::Nested { def: b, rep: b_rep }) => {
            let levels = |defs: &[u8], reps: &Option<Vec<u8>>| {
                let reps = reps.clone().unwrap_or_else(|| vec![0; defs.len()]);
                let slots: Vec<(u8, u8)> = (defs.iter().map(|&level| level.min(def)))
                    .zip(reps)
                    .filter(|&(_, level)| level <= rep)
                    .collect();
                slots
            };
            levels(a, a_rep) == levels(b, b_rep)
        }
        _ => false,
    }
}

/// Check that lists have one size, if they are not null. Arrow does not read required lists in a record
/// that is null.
fn check_sizes(leaf: &Leaf, place: Place, size: usize, nullable: bool) -> Read<()> {
    let Levels::Nested { def: defs, rep: Some(reps) } = &leaf.levels else { return Err(GaveUp) };
    let mut left = 0; // of the last list
    for (&def, &rep) in defs.iter().zip(reps) {
        let is_there = def >= place.def;
        if rep <= place.rep {
            ensure(left == 0 && (is_there || nullable || def < place.element))?;
            left = if is_there { size } else { 0 };
        }
        if rep <= place.rep + 1 && is_there {
            ensure(left > 0 && def > place.def)?;
            left -= 1;
        }
    }
    ensure(left == 0)
}

/// Check that no map has a key twice; `rep` is the level of all keys of a map but the first.
fn check_keys(leaf: &Leaf, rep: u8) -> Read<()> {
    let Levels::Nested { def, rep: Some(reps) } = &leaf.levels else { return Err(GaveUp) };
    let (mut start, mut end) = (0, 0);
    for (&def, &level) in def.iter().zip(reps) {
        if level < rep {
            ensure(are_distinct(&leaf.values, start..end))?;
            start = end;
        }
        end += usize::from(def == leaf.max_def);
    }
    ensure(are_distinct(&leaf.values, start..end))
}

/// Whether some values differ from each other. Floats never count as distinct: 0.0 is -0.0.
fn are_distinct(values: &Values, keys: Range<usize>) -> bool {
    if keys.len() < 2 {
        return true;
    }
    match values {
        Values::Bool(bits) => differ(keys, |key| bits.get(key)),
        Values::I32(values) => differ(keys, |key| values[key]),
        Values::I64(values) => differ(keys, |key| values[key]),
        Values::Strings(strings) => differ(keys, |key| strings.get(key)),
        Values::Fixed { width, bytes } => differ(keys, |key| &bytes[width * key..][..*width]),
        Values::F32(_) | Values::F64(_) => false,
    }
}

fn differ<K: Eq + Hash>(mut keys: Range<usize>, get: impl Fn(usize) -> K) -> bool {
    if keys.len() <= FEW_KEYS {
        let (start, get) = (keys.start, &get);
        return keys.all(|key| (start..key).all(|other| get(key) != get(other)));
    }
    let mut seen = HashSet::with_capacity(keys.len());
    keys.all(|key| seen.insert(get(key)))
}
