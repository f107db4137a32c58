//! What rows take: in a batch, and in the memory of who decodes them.

use std::ops::{AddAssign, Mul};

/// The bytes of something in a batch, and decoded by a consumer.
#[derive(Clone, Copy, Default)]
pub struct Size {
    pub nbytes: usize,
    pub decoded: usize,
}

impl AddAssign for Size {
    #[inline(always)]
    fn add_assign(&mut self, other: Self) {
        self.nbytes += other.nbytes;
        self.decoded += other.decoded;
    }
}

impl Mul<usize> for Size {
    type Output = Self;

    #[inline(always)]
    fn mul(self, count: usize) -> Self {
        Self { nbytes: self.nbytes * count, decoded: self.decoded * count }
    }
}

/// What a leaf takes decoded: bytes for each row, and for each of its slots. Text comes in addition.
#[derive(Clone, Copy)]
pub struct LeafSize {
    pub per_row: usize,
    pub per_slot: usize,
}
