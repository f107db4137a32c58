//! Values of columns: as the schema has them, as leaves, as Python objects, and as Avro and JSON.

pub mod avro;
pub mod clock;
pub mod cursor;
pub mod decimal;
pub mod dicts;
pub mod half;
pub mod json;
pub mod leaf;
pub mod made;
pub mod schema;
pub mod size;
pub mod strings;
pub mod time_form;
pub mod to_objects;
pub mod to_rows;
