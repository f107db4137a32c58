//! Columns to files.
//!
//! `writer` goes through the leaves. `chunk` makes a leaf's pages, from a `column` (`numbers`,
//! `bytes`) and its `levels`, by way of `dictionary` and the encodings beside this room; `choice`
//! decides between these. `page` compresses the pages and puts headers before them, and `footer` says
//! where they are.

mod bytes;
mod choice;
mod chunk;
mod column;
mod compression;
mod dictionary;
mod footer;
mod levels;
mod numbers;
mod page;
#[cfg(test)]
mod random_files;
mod writer;

use std::fmt;

pub use column::Order;
pub use compression::Compression;
pub use levels::Slots;
pub use writer::{Least, Writer};

use crate::values::leaf::Leaf;

/// How one leaf is written.
pub struct LeafPlan {
    /// The names from the top-level column down to the leaf.
    pub path: Vec<String>,
    /// The order of its statistics.
    pub order: Order,
    pub statistics: bool,
}

/// The values of one leaf.
pub enum Source<'a> {
    Leaf(&'a Leaf),
    /// The same byte string in each row.
    Constant(&'a [u8]),
    /// 0 in the file's first row, 1 in the next, as INT32.
    RowNumbers,
}

impl Source<'_> {
    /// What it takes in memory.
    pub fn nbytes(&self) -> usize {
        match self {
            Source::Leaf(leaf) => leaf.nbytes(),
            _ => 0,
        }
    }
}

/// A file that cannot be written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Error {
    Columns {
        expected: usize,
        actual: usize,
    },
    /// A leaf does not have the rows that are asked for.
    Rows,
    /// A leaf has another number of values than its levels say.
    Levels,
    /// A page or the footer would have more bytes than Parquet can say.
    TooLarge,
    Compression(String),
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Columns { expected, actual } => {
                write!(formatter, "{actual} columns for a file of {expected}")
            }
            Self::Rows => write!(formatter, "a column does not have these rows"),
            Self::Levels => write!(formatter, "a column's values do not fit its levels"),
            Self::TooLarge => write!(formatter, "a page or the footer would exceed 2 GiB"),
            Self::Compression(reason) => write!(formatter, "cannot be compressed: {reason}"),
        }
    }
}

impl std::error::Error for Error {}
