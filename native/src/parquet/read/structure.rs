//! Whether the leaves of nested columns agree, and whether each map can be a dict.

use std::collections::HashSet;
use std::hash::Hash;
use std::ops::Range;

use super::{GaveUp, Keys, Read, ensure};
use crate::values::leaf::{Leaf, Levels, Values};
use crate::values::schema::{Field, Type};

/// Up to so many keys are compared with each other.
const FEW_KEYS: usize = 16;

/// Check the leaves of a field, which come in order.
pub fn check(field: &Field, leaves: &[Leaf], keys: Keys) -> Read<()> {
    Check { keys }.field(field, 0, 0, leaves).map(drop)
}

struct Check {
    keys: Keys,
}

impl Check {
    /// Check the first leaves, which are a field's; return how many these are. `def` and `rep` are the
    /// levels of what the field is in.
    fn field(&self, field: &Field, def: u8, rep: u8, leaves: &[Leaf]) -> Read<usize> {
        let def = def + u8::from(field.nullable);
        match &field.data_type {
            Type::Struct(fields) => {
                let mut count = 0;
                for field in fields {
                    let added = self.field(field, def, rep, &leaves[count..])?;
                    ensure(count == 0 || agree(&leaves[0], &leaves[count], def, rep))?;
                    count += added;
                }
                Ok(count)
            }
            Type::List(item) => self.field(item, def + 1, rep + 1, leaves),
            Type::FixedList(item, size) => {
                check_sizes(&leaves[0], def, rep + 1, *size)?;
                self.field(item, def + 1, rep + 1, leaves)
            }
            Type::Map(key, value) => {
                let keys = self.field(key, def + 1, rep + 1, leaves)?;
                let values = self.field(value, def + 1, rep + 1, &leaves[keys..])?;
                ensure(keys == 1 && agree(&leaves[0], &leaves[keys], def + 1, rep + 1))?;
                if self.keys == Keys::Differ {
                    check_keys(&leaves[0], rep + 1)?;
                }
                Ok(keys + values)
            }
            _ => Ok(1),
        }
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
            if a == b && a_rep == b_rep {
                return true;
            }
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

/// Check that lists have one size, if they are not null: `def` is the level of those that are not, and
/// `rep` that of all elements but the first.
fn check_sizes(leaf: &Leaf, def: u8, rep: u8, size: usize) -> Read<()> {
    let Levels::Nested { def: defs, rep: Some(reps) } = &leaf.levels else { return Err(GaveUp) };
    let mut left = 0; // of the last list
    for (&level, &repeats) in defs.iter().zip(reps) {
        if repeats < rep {
            ensure(left == 0)?;
            left = if level >= def { size } else { 0 };
        }
        if repeats <= rep && level >= def {
            ensure(left > 0 && level > def)?;
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
