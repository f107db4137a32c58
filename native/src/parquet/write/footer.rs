//! A file's footer.

use super::column::Bounds;
use super::page::Placed;
use crate::parquet::field_ids::{
    column_chunk, column_meta_data, column_order, file_meta_data, key_value, page_encoding_stats,
    row_group, statistics,
};
use crate::parquet::format::{Encoding, MAGIC, PageType, PhysicalType};
use crate::parquet::thrift::Struct;

/// Enough for data pages with anything that version 1 of the format did not have.
const VERSION: i32 = 2;

/// What the footer says about a column chunk.
pub struct ColumnChunk<'a> {
    pub path: &'a [String],
    pub physical_type: PhysicalType,
    /// The encoding of the data pages.
    pub encoding: Encoding,
    pub slots: i64,
    pub placed: Placed,
    pub statistics: Option<Statistics>,
}

pub struct Statistics {
    pub nulls: i64,
    pub bounds: Option<Bounds>,
}

/// What the footer says about the whole file.
pub struct File<'a> {
    /// The list of schema elements, encoded, with its head.
    pub schema: &'a [u8],
    pub created_by: &'a str,
    pub rows: i64,
    pub key_values: &'a [(&'a [u8], &'a [u8])],
}

/// Append the footer of a file with one row group.
pub fn put_footer(file: &File<'_>, chunks: &[ColumnChunk<'_>], out: &mut Vec<u8>) {
    Struct::append(out, |footer| {
        footer.i32(file_meta_data::VERSION, VERSION);
        footer.encoded_list(file_meta_data::SCHEMA, file.schema);
        footer.i64(file_meta_data::NUM_ROWS, file.rows);
        footer.structs(file_meta_data::ROW_GROUPS, &[()], |fields, ()| {
            put_row_group(fields, file.rows, chunks);
        });
        footer.structs(
            file_meta_data::KEY_VALUE_METADATA,
            file.key_values,
            |pair, (key, value)| {
                pair.binary(key_value::KEY, key);
                pair.binary(key_value::VALUE, value);
            },
        );
        footer.binary(file_meta_data::CREATED_BY, file.created_by.as_bytes());
        // That of its type: without it, the statistics would be taken for unordered.
        footer.structs(file_meta_data::COLUMN_ORDERS, chunks, |order, _| {
            order.structure(column_order::TYPE_ORDER, |_| ());
        });
    });
}

fn put_row_group(fields: &mut Struct<'_>, rows: i64, chunks: &[ColumnChunk<'_>]) {
    fields.structs(row_group::COLUMNS, chunks, |fields, chunk| {
        fields.i64(column_chunk::FILE_OFFSET, 0); // of metadata outside the footer: none
        fields.structure(column_chunk::META_DATA, |fields| put_meta_data(fields, chunk));
    });
    let total = |size: fn(&Placed) -> i64| chunks.iter().map(|chunk| size(&chunk.placed)).sum();
    fields.i64(row_group::TOTAL_BYTE_SIZE, total(|placed| placed.encoded_size));
    fields.i64(row_group::NUM_ROWS, rows);
    let first = chunks.first().map(|chunk| &chunk.placed);
    let offset = first.map_or(MAGIC.len() as i64, |placed| {
        placed.dictionary_offset.unwrap_or(placed.data_offset)
    });
    fields.i64(row_group::FILE_OFFSET, offset);
    fields.i64(row_group::TOTAL_COMPRESSED_SIZE, total(|placed| placed.compressed_size));
}

fn put_meta_data(fields: &mut Struct<'_>, chunk: &ColumnChunk<'_>) {
    let placed = &chunk.placed;
    let (plain, rle, data) = (Encoding::Plain as i32, Encoding::Rle as i32, chunk.encoding as i32);
    fields.i32(column_meta_data::TYPE, chunk.physical_type as i32);
    match placed.dictionary_offset {
        Some(_) => fields.i32s(column_meta_data::ENCODINGS, &[plain, rle, data]),
        None => fields.i32s(column_meta_data::ENCODINGS, &[data, rle]),
    }
    fields.binaries(column_meta_data::PATH_IN_SCHEMA, chunk.path);
    fields.i32(column_meta_data::CODEC, placed.codec as i32);
    fields.i64(column_meta_data::NUM_VALUES, chunk.slots);
    fields.i64(column_meta_data::TOTAL_UNCOMPRESSED_SIZE, placed.encoded_size);
    fields.i64(column_meta_data::TOTAL_COMPRESSED_SIZE, placed.compressed_size);
    fields.i64(column_meta_data::DATA_PAGE_OFFSET, placed.data_offset);
    if let Some(offset) = placed.dictionary_offset {
        fields.i64(column_meta_data::DICTIONARY_PAGE_OFFSET, offset);
    }
    if let Some(statistics) = &chunk.statistics {
        fields.structure(column_meta_data::STATISTICS, |fields| put_statistics(fields, statistics));
    }
    if placed.dictionary_offset.is_some() {
        // By these, readers know that no page lacks the dictionary.
        let pages = [(PageType::Dictionary, plain, 1), (PageType::Data, data, placed.data_pages)];
        fields.structs(
            column_meta_data::ENCODING_STATS,
            &pages,
            |fields, &(page_type, encoding, count)| {
                fields.i32(page_encoding_stats::PAGE_TYPE, page_type as i32);
                fields.i32(page_encoding_stats::ENCODING, encoding);
                fields.i32(page_encoding_stats::COUNT, count);
            },
        );
    }
}

fn put_statistics(fields: &mut Struct<'_>, chunk_statistics: &Statistics) {
    fields.i64(statistics::NULL_COUNT, chunk_statistics.nulls);
    if let Some(bounds) = &chunk_statistics.bounds {
        fields.binary(statistics::MAX_VALUE, &bounds.max);
        fields.binary(statistics::MIN_VALUE, &bounds.min);
        if !bounds.max_is_exact {
            fields.denied(statistics::IS_MAX_VALUE_EXACT);
        }
        if !bounds.min_is_exact {
            fields.denied(statistics::IS_MIN_VALUE_EXACT);
        }
    }
}
