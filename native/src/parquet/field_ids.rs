//! The field ids of `parquet.thrift`, under its names: a module for each struct, with the fields that
//! are written or read here. `segment/parquet/field_ids.py` has those that Python reads.

/// The footer.
pub mod file_meta_data {
    pub const VERSION: u8 = 1;
    pub const SCHEMA: u8 = 2;
    pub const NUM_ROWS: u8 = 3;
    pub const ROW_GROUPS: u8 = 4;
    pub const KEY_VALUE_METADATA: u8 = 5;
    pub const CREATED_BY: u8 = 6;
    pub const COLUMN_ORDERS: u8 = 7;
    pub const FOOTER_SIGNING_KEY_METADATA: u8 = 9;
    pub const LAST: u8 = FOOTER_SIGNING_KEY_METADATA;
}

/// One node of the schema.
pub mod schema_element {
    pub const TYPE: u8 = 1;
    pub const TYPE_LENGTH: u8 = 2;
    pub const REPETITION_TYPE: u8 = 3;
    pub const NAME: u8 = 4;
    pub const NUM_CHILDREN: u8 = 5;
}

/// One entry of the footer's key-value metadata.
pub mod key_value {
    pub const KEY: u8 = 1;
    pub const VALUE: u8 = 2;
}

/// How a column's statistics are ordered: a union.
pub mod column_order {
    pub const TYPE_ORDER: u8 = 1;
}

/// A row group, with its column chunks.
pub mod row_group {
    pub const COLUMNS: u8 = 1;
    pub const TOTAL_BYTE_SIZE: u8 = 2;
    pub const NUM_ROWS: u8 = 3;
    pub const FILE_OFFSET: u8 = 5;
    pub const TOTAL_COMPRESSED_SIZE: u8 = 6;
    pub const ORDINAL: u8 = 7;
    pub const LAST: u8 = ORDINAL;
}

/// A column chunk.
pub mod column_chunk {
    pub const FILE_PATH: u8 = 1;
    pub const FILE_OFFSET: u8 = 2;
    pub const META_DATA: u8 = 3;
    pub const CRYPTO_METADATA: u8 = 8;
    pub const ENCRYPTED_COLUMN_METADATA: u8 = 9;
}

/// The metadata of a column chunk.
pub mod column_meta_data {
    pub const TYPE: u8 = 1;
    pub const ENCODINGS: u8 = 2;
    pub const PATH_IN_SCHEMA: u8 = 3;
    pub const CODEC: u8 = 4;
    pub const NUM_VALUES: u8 = 5;
    pub const TOTAL_UNCOMPRESSED_SIZE: u8 = 6;
    pub const TOTAL_COMPRESSED_SIZE: u8 = 7;
    pub const DATA_PAGE_OFFSET: u8 = 9;
    pub const INDEX_PAGE_OFFSET: u8 = 10;
    pub const DICTIONARY_PAGE_OFFSET: u8 = 11;
    pub const STATISTICS: u8 = 12;
    pub const ENCODING_STATS: u8 = 13;
    pub const BLOOM_FILTER_OFFSET: u8 = 14;
    pub const SIZE_STATISTICS: u8 = 16;
    pub const GEOSPATIAL_STATISTICS: u8 = 17;
    pub const LAST: u8 = GEOSPATIAL_STATISTICS;
}

/// The statistics of a column chunk or page.
pub mod statistics {
    pub const DEPRECATED_MAX: u8 = 1;
    pub const DEPRECATED_MIN: u8 = 2;
    pub const NULL_COUNT: u8 = 3;
    pub const DISTINCT_COUNT: u8 = 4;
    pub const MAX_VALUE: u8 = 5;
    pub const MIN_VALUE: u8 = 6;
    pub const IS_MAX_VALUE_EXACT: u8 = 7;
    pub const IS_MIN_VALUE_EXACT: u8 = 8;
}

/// How many pages of one type and encoding a column chunk has.
pub mod page_encoding_stats {
    pub const PAGE_TYPE: u8 = 1;
    pub const ENCODING: u8 = 2;
    pub const COUNT: u8 = 3;
}

/// How large a column chunk's values are, and how often its levels occur.
pub mod size_statistics {
    pub const UNENCODED_BYTE_ARRAY_DATA_BYTES: u8 = 1;
    pub const REPETITION_LEVEL_HISTOGRAM: u8 = 2;
    pub const DEFINITION_LEVEL_HISTOGRAM: u8 = 3;
}

/// What stands before each page.
pub mod page_header {
    pub const TYPE: u8 = 1;
    pub const UNCOMPRESSED_PAGE_SIZE: u8 = 2;
    pub const COMPRESSED_PAGE_SIZE: u8 = 3;
    pub const CRC: u8 = 4;
    pub const DATA_PAGE_HEADER: u8 = 5;
    pub const DICTIONARY_PAGE_HEADER: u8 = 7;
}

/// A data page of the first version.
pub mod data_page_header {
    pub const NUM_VALUES: u8 = 1;
    pub const ENCODING: u8 = 2;
    pub const DEFINITION_LEVEL_ENCODING: u8 = 3;
    pub const REPETITION_LEVEL_ENCODING: u8 = 4;
    pub const STATISTICS: u8 = 5;
}

/// A dictionary page.
pub mod dictionary_page_header {
    pub const NUM_VALUES: u8 = 1;
    pub const ENCODING: u8 = 2;
    pub const IS_SORTED: u8 = 3;
}
