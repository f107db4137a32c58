//! Columns and the rest to JSON objects: `objects` puts them together, of `leaves` and what `text` reads
//! of the rest.

mod leaves;
pub mod objects;
mod text;
