//! Which slots of a leaf some rows have, and the definition and repetition levels of these slots.
//!
//! A slot is a value, or a place where there is none.

use std::ops::Range;

use super::Error;
use crate::parquet::packing::{Runs, bit_width, hybrid, put_run};
use crate::values::leaf::{Leaf, Levels};

/// Some of a leaf's slots, and the values in them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Span {
    pub slots: Range<usize>,
    pub values: Range<usize>,
}

/// The levels of a leaf's rows, or of a column without nulls.
#[derive(Clone, Copy)]
pub struct Slots<'a> {
    levels: &'a Levels,
    max_def: u8,
    max_rep: u8,
}

impl<'a> Slots<'a> {
    pub const REQUIRED: Slots<'static> =
        Slots { levels: &Levels::Required, max_def: 0, max_rep: 0 };

    pub fn new(leaf: &'a Leaf) -> Self {
        Self { levels: &leaf.levels, max_def: leaf.max_def, max_rep: leaf.max_rep }
    }

    /// The slots of some rows of a leaf.
    ///
    /// Fails if the leaf lacks these rows, or its levels do not fit its values.
    pub fn of_rows(leaf: &'a Leaf, rows: Range<usize>) -> Result<Span, Error> {
        let slots = Self::new(leaf);
        let all = slots.span(0, 0, leaf.slots());
        let is_whole = match &leaf.levels {
            Levels::Nested { def, rep } => rep.as_ref().is_none_or(|rep| rep.len() == def.len()),
            _ => true,
        };
        if !is_whole || rows.start > rows.end || rows.end > leaf.rows {
            return Err(Error::Rows);
        }
        if all.values.len() != leaf.values.len() {
            return Err(Error::Levels);
        }
        if rows == (0..leaf.rows) {
            return Ok(all);
        }
        let from = slots.slot_of_row(rows.start, leaf.slots());
        let to = slots.slot_of_row(rows.end, leaf.slots());
        let first_value = slots.span(0, 0, from).values.end;
        Ok(slots.span(first_value, from, to))
    }

    fn slot_of_row(self, row: usize, slots: usize) -> usize {
        let Levels::Nested { rep: Some(rep), .. } = self.levels else {
            return row;
        };
        let mut starts = rep.iter().enumerate().filter(|(_, rep)| **rep == 0);
        starts.nth(row).map_or(slots, |(slot, _)| slot)
    }

    /// The slots from one to another, of which the first value is known.
    fn span(self, first_value: usize, from: usize, to: usize) -> Span {
        let values = match self.levels {
            Levels::Required => to - from,
            Levels::Flat { nulls } => {
                let before = |slot| nulls.partition_point(|&null| (null as usize) < slot);
                to - from - (before(to) - before(from))
            }
            Levels::Nested { def, .. } => {
                def[from..to].iter().filter(|&&level| level == self.max_def).count()
            }
        };
        Span { slots: from..to, values: first_value..first_value + values }
    }

    /// The first slots of a span, about `count` of them: no row is cut.
    pub fn first(self, span: &Span, count: usize) -> Span {
        let mut to = span.slots.start.saturating_add(count.max(1)).min(span.slots.end);
        if let Levels::Nested { rep: Some(rep), .. } = self.levels {
            let rest = &rep[to..span.slots.end];
            to += rest.iter().position(|&level| level == 0).unwrap_or(rest.len());
        }
        if to == span.slots.end {
            return span.clone();
        }
        self.span(span.values.start, span.slots.start, to)
    }

    /// Append the levels of some slots as a data page has them.
    pub fn encode(self, span: &Span, runs: Runs, scratch: &mut Vec<u8>, out: &mut Vec<u8>) {
        let slots = span.slots.clone();
        match self.levels {
            Levels::Required => {}
            Levels::Flat { .. } if span.values.len() == slots.len() => {
                put_levels(out, |out| put_run(1u8, slots.len(), 1, out));
            }
            Levels::Flat { nulls } => {
                scratch.clear();
                scratch.resize(slots.len(), 1);
                let first = nulls.partition_point(|&null| (null as usize) < slots.start);
                for &null in &nulls[first..first + slots.len() - span.values.len()] {
                    scratch[null as usize - slots.start] = 0;
                }
                put_levels(out, |out| hybrid(scratch, 1, runs, out));
            }
            Levels::Nested { def, rep } => {
                if let Some(rep) = rep {
                    let width = bit_width(self.max_rep.into());
                    put_levels(out, |out| hybrid(&rep[slots.clone()], width, runs, out));
                }
                let width = bit_width(self.max_def.into());
                put_levels(out, |out| hybrid(&def[slots], width, runs, out));
            }
        }
    }
}

/// Append levels, with their number of bytes before them.
fn put_levels(out: &mut Vec<u8>, put: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    put(out);
    let nbytes = (out.len() - start - 4) as u32; // levels of 2^32 bytes would not fit a page
    out[start..start + 4].copy_from_slice(&nbytes.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parquet::naive::unhybrid;
    use crate::values::leaf::Values;

    fn lists(leaf_rows: &[&[Option<i32>]]) -> Leaf {
        let mut leaf = Leaf::new(Values::I32(Vec::new()), 2, 1, false);
        for row in leaf_rows {
            for (i, item) in row.iter().enumerate() {
                match item {
                    Some(item) => {
                        let Values::I32(values) = &mut leaf.values else { unreachable!() };
                        values.push(*item);
                        leaf.present(u8::from(i > 0));
                    }
                    None => leaf.absent(u8::from(i > 0), 1),
                }
            }
            if row.is_empty() {
                leaf.absent(0, 0);
            }
        }
        leaf
    }

    #[test]
    fn rows_are_never_cut() {
        let leaf = lists(&[&[Some(1), None, Some(3)], &[], &[None], &[Some(5), Some(6)]]);
        let slots = Slots::new(&leaf);
        let all = Slots::of_rows(&leaf, 0..4).unwrap();
        assert_eq!(all, Span { slots: 0..7, values: 0..4 });
        assert_eq!(slots.first(&all, 1), Span { slots: 0..3, values: 0..2 });
        assert_eq!(slots.first(&all, 4), Span { slots: 0..4, values: 0..2 });
        let last = Slots::of_rows(&leaf, 2..4).unwrap();
        assert_eq!(last, Span { slots: 4..7, values: 2..4 });
        assert_eq!(Slots::of_rows(&leaf, 1..3).unwrap(), Span { slots: 3..5, values: 2..2 });
        assert_eq!(Slots::of_rows(&leaf, 0..5), Err(Error::Rows));
    }

    #[test]
    fn nulls_are_where_they_were() {
        let mut leaf = Leaf::new(Values::I32(vec![0; 3]), 1, 0, true);
        for is_present in [true, false, false, true, true, false] {
            if is_present { leaf.present(0) } else { leaf.absent(0, 0) }
        }
        let span = Slots::of_rows(&leaf, 1..6).unwrap();
        assert_eq!(span, Span { slots: 1..6, values: 1..3 });
        let mut out = Vec::new();
        Slots::new(&leaf).encode(&span, Runs::Short, &mut Vec::new(), &mut out);
        assert_eq!(out[..4], [2, 0, 0, 0]);
        assert_eq!(unhybrid(&out[4..], 1, 5), [0, 0, 1, 1, 0]);
    }

    #[test]
    fn levels_that_do_not_fit_the_values_are_an_error() {
        let mut leaf = Leaf::new(Values::I32(vec![0; 3]), 1, 0, true);
        leaf.present(0);
        assert_eq!(Slots::of_rows(&leaf, 0..1), Err(Error::Levels));
    }
}
