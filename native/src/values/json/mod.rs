//! Columns and the rest to JSON objects: `objects` puts them together, of `leaves` and what `text` reads
//! of the rest.

/// How deep objects and lists may be nested.
pub const MOST_LEVELS: usize = 200;
/// A number as long as this may have an exponent that no `Decimal` has.
pub const LONG_NUMBER: usize = 18;

mod leaves;
pub mod objects;
mod text;
