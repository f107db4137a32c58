//! Levels to arrays: which slots there are, which of them are null, and where lists end.

#![forbid(unsafe_code)]

use super::values::{self, Slots};
use super::{Array, Buffer};
use crate::parquet::read::{GaveUp, Read, ensure};
use crate::values::leaf::{Leaf, Levels};
use crate::values::schema::{Field, Type};

/// What a field's type does not say of its array.
pub struct Layout {
    /// The bits of a number, or of an offset; 0 where that goes without saying.
    pub bits: usize,
    pub children: Vec<Layout>,
}

/// The levels of what a field is in.
#[derive(Clone, Copy, Default)]
struct Above {
    def: u8,
    rep: u8,
    /// The least definition level of its slots: that of an element of the innermost list.
    base: u8,
}

/// How many leaves a field has.
pub fn leaf_count(field: &Field) -> usize {
    match &field.data_type {
        Type::Struct(fields) => fields.iter().map(leaf_count).sum(),
        Type::List(item) | Type::FixedList(item, _) => leaf_count(item),
        Type::Map(key, value) => leaf_count(key) + leaf_count(value),
        _ => 1,
    }
}

/// Make the array of a field of its leaves, which agree with each other.
pub fn array(field: &Field, layout: &Layout, leaves: &mut [Leaf]) -> Read<Array> {
    build(field, layout, Above::default(), leaves)
}

fn build(field: &Field, layout: &Layout, above: Above, leaves: &mut [Leaf]) -> Read<Array> {
    let def = above.def + u8::from(field.nullable);
    let inner = Above { def: def + 1, rep: above.rep + 1, base: def + 1 };
    let first = leaves.first().ok_or(GaveUp)?;
    let (slots, buffers, children): (_, Vec<Buffer>, _) = match &field.data_type {
        Type::Struct(fields) => {
            let slots = slots(first, above, def);
            (slots, vec![], members(fields, layout, Above { def, ..above }, leaves)?)
        }
        Type::List(item) => {
            let (slots, ends) = lists(first, above, def, layout.bits)?;
            (slots, vec![ends], vec![build(item, child(layout, 0)?, inner, leaves)?])
        }
        Type::FixedList(item, size) => {
            let slots = slots(first, above, def);
            leaves.iter_mut().try_for_each(|leaf| fill_null_lists(leaf, above, def, *size))?;
            let inner = Above { base: above.base, ..inner };
            (slots, vec![], vec![build(item, child(layout, 0)?, inner, leaves)?])
        }
        Type::Map(key, value) => {
            let (slots, ends) = lists(first, above, def, layout.bits)?;
            let (keys, others) = leaves.split_at_mut(leaf_count(key));
            let key = build(key, child(layout, 0)?, inner, keys)?;
            let value = build(value, child(layout, 1)?, inner, others)?;
            let len = key.len;
            let children = vec![key, value];
            let entries = Array { len, nulls: 0, validity: None, buffers: vec![], children };
            (slots, vec![ends], vec![entries])
        }
        leaf => {
            let slots = slots(first, above, def);
            let buffers = values::buffers(leaf, layout.bits, &mut leaves[0].values, &slots)?;
            (slots, buffers, vec![])
        }
    };
    Ok(finished(field, slots, buffers, children))
}

/// A value that is required and not there is below a null, which hides it.
fn finished(field: &Field, slots: Slots, buffers: Vec<Buffer>, children: Vec<Array>) -> Array {
    let len = slots.len;
    match slots.present {
        Some(bits) if field.nullable => {
            let (nulls, validity) = (slots.nulls, Some(bits.into_bytes()));
            Array { len, nulls, validity, buffers, children }
        }
        _ => Array { len, nulls: 0, validity: None, buffers, children },
    }
}

fn child(layout: &Layout, number: usize) -> Read<&Layout> {
    layout.children.get(number).ok_or(GaveUp)
}

fn members(
    fields: &[Field],
    layout: &Layout,
    above: Above,
    mut leaves: &mut [Leaf],
) -> Read<Vec<Array>> {
    let mut members = Vec::with_capacity(fields.len());
    for (number, field) in fields.iter().enumerate() {
        let (own, others) = leaves.split_at_mut(leaf_count(field));
        members.push(build(field, child(layout, number)?, above, own)?);
        leaves = others;
    }
    Ok(members)
}

/// The slots of a field that is not null from level `def` on, by one of its leaves.
fn slots(leaf: &Leaf, above: Above, def: u8) -> Slots {
    match &leaf.levels {
        Levels::Flat { nulls } if def > 0 => Slots::without(leaf.rows, nulls),
        Levels::Required | Levels::Flat { .. } => Slots::all(leaf.rows),
        Levels::Nested { def: defs, rep: None } => Slots::of_levels(defs, def),
        Levels::Nested { def: defs, rep: Some(_) } if greatest(defs) < above.base => {
            Slots::all(0) // no list has elements
        }
        Levels::Nested { def: defs, rep: Some(reps) } => {
            let (mut own, mut count) = (vec![0; defs.len()], 0);
            for (&level, &rep) in defs.iter().zip(reps) {
                own[count] = level; // overwritten unless it is counted
                count += usize::from(rep <= above.rep && level >= above.base);
            }
            Slots::of_levels(&own[..count], def)
        }
    }
}

/// The slots of lists or maps, and where each begins, and the last one ends.
fn lists(leaf: &Leaf, above: Above, def: u8, bits: usize) -> Read<(Slots, Buffer)> {
    let Levels::Nested { def: defs, rep: Some(reps) } = &leaf.levels else { return Err(GaveUp) };
    if greatest(defs) <= def && above.rep == 0 {
        // No list has elements, so each level is that of one of them.
        return Ok((Slots::of_levels(defs, def), values::offsets(vec![0; defs.len() + 1], bits)?));
    }
    let (mut own, mut count) = (vec![0; defs.len()], 0);
    let mut starts = vec![0; defs.len() + 1];
    let mut elements = 0u32; // a chunk has at most 2^32 - 1 slots
    for (&level, &rep) in defs.iter().zip(reps) {
        let is_list = rep <= above.rep && level >= above.base;
        (own[count], starts[count]) = (level, elements); // overwritten unless it is counted
        count += usize::from(is_list);
        elements += u32::from(rep == above.rep + 1 || is_list && level > def);
    }
    starts[count] = elements;
    starts.truncate(count + 1);
    Ok((Slots::of_levels(&own[..count], def), values::offsets(starts, bits)?))
}

fn greatest(levels: &[u8]) -> u8 {
    levels.iter().fold(0, |greatest, &level| level.max(greatest))
}

/// Give the lists of one size that are null, or below a null, as many elements as the others have.
fn fill_null_lists(leaf: &mut Leaf, above: Above, def: u8, size: usize) -> Read<()> {
    let Levels::Nested { def: defs, rep: Some(reps) } = &mut leaf.levels else {
        return Err(GaveUp);
    };
    let is_missing = |level: u8, rep: u8| rep <= above.rep && (above.base..def).contains(&level);
    let count = defs.iter().zip(&*reps).filter(|&(&level, &rep)| is_missing(level, rep)).count();
    if count == 0 {
        return Ok(());
    }
    let more = count.checked_mul(size - 1).ok_or(GaveUp)?;
    ensure(u32::try_from(defs.len() + more).is_ok())?;
    let mut filled = Vec::with_capacity(defs.len() + more);
    let mut repeats = Vec::with_capacity(defs.len() + more);
    for (&level, &rep) in defs.iter().zip(&*reps) {
        filled.push(level);
        repeats.push(rep);
        if is_missing(level, rep) {
            filled.resize(filled.len() + size - 1, level);
            repeats.resize(repeats.len() + size - 1, above.rep + 1);
        }
    }
    (*defs, *reps) = (filled, repeats);
    Ok(())
}
