//! A place in a leaf, which is passed slot by slot.

use std::ops::Deref;

use crate::values::leaf::{Leaf, Levels};

/// The next slot of a leaf, and its next value. `L` refers to a leaf, or owns it.
pub struct Cursor<L> {
    pub leaf: L,
    pub slot: usize,
    pub value: usize,
    /// The nulls passed so far; for a flat leaf only.
    pub nulls: usize,
}

impl<L: Deref<Target = Leaf>> Cursor<L> {
    /// Begin at a row.
    pub fn new(leaf: L, start: usize) -> Self {
        let (slot, value) = leaf.position(start);
        Self { leaf, slot, value, nulls: slot - value }
    }

    /// The definition level of the next slot.
    #[inline(always)]
    pub fn def(&self) -> u8 {
        match &self.leaf.levels {
            Levels::Nested { def, .. } => def[self.slot],
            Levels::Required | Levels::Flat { .. } => self.leaf.max_def,
        }
    }

    /// The repetition level of the next slot; None at the end.
    #[inline(always)]
    pub fn rep(&self) -> Option<u8> {
        match &self.leaf.levels {
            Levels::Nested { rep: Some(rep), .. } => rep.get(self.slot).copied(),
            _ => None,
        }
    }

    /// Whether the next slot of a flat leaf is null.
    #[inline(always)]
    fn is_flat_null(&self, nulls: &[u32]) -> bool {
        nulls.get(self.nulls).is_some_and(|&null| null as usize == self.slot)
    }

    /// Whether the next slot is null at this definition level.
    #[inline(always)]
    pub fn is_null(&self, def: u8) -> bool {
        match &self.leaf.levels {
            Levels::Flat { nulls } => self.is_flat_null(nulls),
            _ => self.def() < def,
        }
    }

    /// Pass the next slot; returns the number of its value, None for null.
    #[inline(always)]
    pub fn next(&mut self) -> Option<usize> {
        let is_null = match &self.leaf.levels {
            Levels::Required => false,
            Levels::Flat { nulls } => {
                let is_null = self.is_flat_null(nulls);
                self.nulls += usize::from(is_null);
                is_null
            }
            Levels::Nested { def, .. } => def[self.slot] < self.leaf.max_def,
        };
        self.slot += 1;
        if is_null {
            return None;
        }
        let value = self.value;
        self.value += 1;
        Some(value)
    }

    /// Pass a slot that has no value.
    #[inline(always)]
    pub fn skip(&mut self) {
        self.nulls += usize::from(matches!(self.leaf.levels, Levels::Flat { .. }));
        self.slot += 1;
    }
}
