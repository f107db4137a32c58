//! Rows to segments: the batches that `Producer.produce` appends to, and their reports.

pub mod arguments;
pub mod batch;
pub mod block;
pub mod columns;
pub mod encoder;
pub mod from_rows;
pub mod from_values;
pub mod given;
pub mod memory_bound;
pub mod method;
pub mod open_batches;
pub mod partitioner;
pub mod records;
pub mod reports;
pub mod row_format;
pub mod unions;
