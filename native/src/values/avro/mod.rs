//! Avro datums: `plan` says how values are encoded, `leaves` encodes those of columns, `datums` makes
//! whole rows of them.

pub mod datums;
pub mod leaves;
mod plan;

pub use plan::Plan;
