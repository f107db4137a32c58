//! Segments to records and tables; footers of files that are stitched.

pub mod avro_schema;
pub mod copier;
pub mod decoder;
pub mod file_schema;
pub mod json_schema;
pub mod records;
pub mod row_group;
pub mod tables;
