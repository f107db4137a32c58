//! Columns to Parquet files, and back: one row group, data pages of version 1, each with a checksum.
//!
//! `docs/segment-format.md` is the contract. Only encodings are used that the vectorised readers of
//! Spark, Trino, duckdb, polars and Arrow have. There is no Python here, and no `unsafe`.
//!
//! `write` makes files, and `read` reads those of known writers. `copy` copies the row groups of a
//! footer for another file. What these share: the enums of the format and its `field_ids`, `thrift`,
//! and two encodings of integers, `packing` and `delta`.

#![forbid(unsafe_code)]

mod copy;
mod delta;
mod field_ids;
mod format;
#[cfg(test)]
mod naive;
mod packing;
pub mod read;
mod thrift;
mod write;

pub use copy::{CopiedFooter, Move, copy_footer};
pub use write::{Compression, LeafPlan, Least, Order, Slots, Source, Writer};
