//! A file's footer.

use super::column::Bounds;
use super::format::{Encoding, PageType, PhysicalType};
use super::page::Placed;
use super::thrift::Struct;

/// Enough for data pages with anything that version 1 of the format did not have.
const VERSION: i32 = 2;

/// What the footer says about a column chunk.
pub struct ColumnChunk<'a> {
    pub path: &'a [String],
    pub physical_type: PhysicalType,
    /// Of the data pages.
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
        footer.i32(1, VERSION);
        footer.encoded_list(2, file.schema);
        footer.i64(3, file.rows);
        footer.structs(4, &[()], |row_group, ()| put_row_group(row_group, file.rows, chunks));
        footer.structs(5, file.key_values, |pair, (key, value)| {
            pair.binary(1, key);
            pair.binary(2, value);
        });
        footer.binary(6, file.created_by.as_bytes());
        // That of its type: without it, the statistics would be taken for unordered.
        footer.structs(7, chunks, |order, _| order.structure(1, |_| ()));
    });
}

fn put_row_group(row_group: &mut Struct<'_>, rows: i64, chunks: &[ColumnChunk<'_>]) {
    row_group.structs(1, chunks, |fields, chunk| {
        fields.i64(2, 0); // where its metadata are besides the footer: nowhere
        fields.structure(3, |meta_data| put_meta_data(meta_data, chunk));
    });
    let total = |size: fn(&Placed) -> i64| chunks.iter().map(|chunk| size(&chunk.placed)).sum();
    row_group.i64(2, total(|placed| placed.encoded_size));
    row_group.i64(3, rows);
    let first = chunks.first().map(|chunk| &chunk.placed);
    row_group
        .i64(5, first.map_or(4, |placed| placed.dictionary_offset.unwrap_or(placed.data_offset)));
    row_group.i64(6, total(|placed| placed.compressed_size));
}

fn put_meta_data(meta_data: &mut Struct<'_>, chunk: &ColumnChunk<'_>) {
    let placed = &chunk.placed;
    let (plain, rle, data) = (Encoding::Plain as i32, Encoding::Rle as i32, chunk.encoding as i32);
    meta_data.i32(1, chunk.physical_type as i32);
    match placed.dictionary_offset {
        Some(_) => meta_data.i32s(2, &[plain, rle, data]),
        None => meta_data.i32s(2, &[data, rle]),
    }
    meta_data.binaries(3, chunk.path);
    meta_data.i32(4, placed.codec as i32);
    meta_data.i64(5, chunk.slots);
    meta_data.i64(6, placed.encoded_size);
    meta_data.i64(7, placed.compressed_size);
    meta_data.i64(9, placed.data_offset);
    if let Some(offset) = placed.dictionary_offset {
        meta_data.i64(11, offset);
    }
    if let Some(statistics) = &chunk.statistics {
        meta_data.structure(12, |fields| put_statistics(fields, statistics));
    }
    if placed.dictionary_offset.is_some() {
        // By these, readers know that no page lacks the dictionary.
        let pages = [(PageType::Dictionary, plain, 1), (PageType::Data, data, placed.data_pages)];
        meta_data.structs(13, &pages, |fields, &(page_type, encoding, count)| {
            fields.i32(1, page_type as i32);
            fields.i32(2, encoding);
            fields.i32(3, count);
        });
    }
}

fn put_statistics(fields: &mut Struct<'_>, statistics: &Statistics) {
    fields.i64(3, statistics.nulls);
    if let Some(bounds) = &statistics.bounds {
        fields.binary(5, &bounds.max);
        fields.binary(6, &bounds.min);
    }
}
