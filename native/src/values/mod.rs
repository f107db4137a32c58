//! Values of columns: as the schema has them, as leaves, and as Python objects.

pub mod clock;
pub mod decimal;
pub mod dicts;
pub mod half;
pub mod leaf;
pub mod schema;
pub mod size;
pub mod strings;
pub mod to_objects;
pub mod to_rows;
