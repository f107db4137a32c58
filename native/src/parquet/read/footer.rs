//! The footer: where the pages of one row group are, and what else tells how to read them.

use super::thrift::{BINARY, Cursor, FALSE, I16, I32, I64, LIST, STRUCT, TRUE};
use super::{GaveUp, Read, ensure};
use crate::parquet::field_ids::{
    column_chunk, column_meta_data, column_order, file_meta_data, key_value, page_encoding_stats,
    row_group, size_statistics, statistics,
};
use crate::parquet::format::{MAGIC, PhysicalType};

/// The footer's length and the magic.
const TAIL: usize = 8;
/// Arrow reads files of other writers, and of its own old versions, in ways of their own.
const WRITER: &[u8] = b"parquet-cpp-arrow version ";
const LEAST_VERSION: u32 = 10;
/// Metadata with this prefix describe one file; all others belong to its schema.
const FILE_PREFIX: &[u8] = b"columnar.";
const MIN_ELEMENTS: usize = 1000;

/// A column chunk's place in the file, and what its pages must agree with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnChunk {
    pub physical_type: i32,
    /// A bit for each encoding that occurs.
    pub encodings: u32,
    pub codec: i32,
    /// Nulls included.
    pub values: u64,
    pub start: usize,
    pub end: usize,
    pub has_dictionary: bool,
    /// How many repetition and definition levels there are histograms of.
    pub histograms: [Option<usize>; 2],
}

pub struct Footer {
    pub rows: u64,
    pub chunks: Vec<ColumnChunk>,
    /// What tells the columns' types, and how Arrow reads them: the schema's elements, first, the
    /// number of chunks, which Arrow compares with the elements, and all metadata that are not this
    /// file's own.
    pub key: Vec<u8>,
    /// The bytes of the schema's elements in `key`.
    elements: usize,
    /// The metadata that are this file's own.
    pub metadata: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Footer {
    /// Read the footer of a file, of at most so many bytes.
    pub fn read(file: &[u8], max_bytes: u64) -> Read<Self> {
        let (body, tail) = file.split_last_chunk::<TAIL>().ok_or(GaveUp)?;
        ensure(body.starts_with(MAGIC) && tail.ends_with(MAGIC))?;
        let size = u32::from_le_bytes([tail[0], tail[1], tail[2], tail[3]]) as usize;
        ensure(size as u64 <= max_bytes && size <= body.len() - MAGIC.len())?;
        let end = body.len() - size;
        let max_elements = MIN_ELEMENTS.max(size / 8); // as the package tells Arrow
        let mut cursor = Cursor::new(body, end, max_elements);
        let footer = read_footer(&mut cursor, body)?;
        ensure(cursor.at == body.len())?;
        let mut after = MAGIC.len();
        for chunk in &footer.chunks {
            ensure(after <= chunk.start && chunk.start < chunk.end && chunk.end <= end)?;
            after = chunk.end;
        }
        Ok(footer)
    }

    /// The list of the schema's elements, encoded.
    pub fn elements(&self) -> &[u8] {
        &self.key[..self.elements]
    }
}

fn read_footer(cursor: &mut Cursor<'_>, file: &[u8]) -> Read<Footer> {
    let (mut version, mut elements, mut rows, mut group) = (None, None, None, None);
    let (mut pairs, mut created_by, mut orders) = (Vec::new(), &[][..], None);
    cursor.structure(|fields, id, field| match (id, field) {
        (file_meta_data::VERSION, I32) => {
            version = Some(fields.i32()?);
            Ok(())
        }
        (file_meta_data::SCHEMA, LIST) => {
            let start = fields.at;
            fields.skip(LIST)?;
            elements = Some(&file[start..fields.at]);
            Ok(())
        }
        (file_meta_data::NUM_ROWS, I64) => {
            rows = Some(fields.count()?);
            Ok(())
        }
        (file_meta_data::ROW_GROUPS, LIST) => {
            ensure(fields.list(STRUCT)? == 1)?;
            group = Some(read_row_group(fields)?);
            Ok(())
        }
        (file_meta_data::KEY_VALUE_METADATA, LIST) => {
            let count = fields.list(STRUCT)?;
            (0..count).try_for_each(|_| {
                pairs.push(read_pair(fields)?);
                Ok(())
            })
        }
        (file_meta_data::CREATED_BY, BINARY) => {
            created_by = fields.binary()?;
            Ok(())
        }
        (file_meta_data::COLUMN_ORDERS, LIST) => {
            let count = fields.list(STRUCT)?;
            orders = Some(count);
            (0..count).try_for_each(|_| read_order(fields))
        }
        _ => Err(GaveUp),
    })?;
    ensure(matches!(version, Some(1 | 2)) && is_known_writer(created_by))?;
    let (group_rows, chunks) = group.ok_or(GaveUp)?;
    ensure(rows == Some(group_rows) && orders == Some(chunks.len()))?;
    let elements = elements.ok_or(GaveUp)?;
    let (key, metadata) = split(elements, chunks.len(), created_by, &pairs)?;
    Ok(Footer { rows: group_rows as u64, chunks, key, elements: elements.len(), metadata })
}

/// Return the key of the schema and the file's own metadata. No name may occur twice.
#[allow(clippy::type_complexity)]
fn split(
    elements: &[u8],
    chunks: usize,
    created_by: &[u8],
    pairs: &[(&[u8], &[u8])],
) -> Read<(Vec<u8>, Vec<(Vec<u8>, Vec<u8>)>)> {
    let mut names: Vec<&[u8]> = pairs.iter().map(|(name, _)| *name).collect();
    names.sort_unstable();
    ensure(names.windows(2).all(|two| two[0] != two[1]))?;
    let (own, shared): (Vec<_>, Vec<_>) =
        pairs.iter().partition(|(name, _)| name.starts_with(FILE_PREFIX));
    let mut key = elements.to_vec();
    key.extend_from_slice(&(chunks as u32).to_le_bytes());
    let parts = shared.iter().flat_map(|(name, value)| [*name, *value]);
    for part in [created_by].into_iter().chain(parts) {
        key.extend_from_slice(&(part.len() as u32).to_le_bytes()); // a footer has at most 4 GiB
        key.extend_from_slice(part);
    }
    Ok((key, own.iter().map(|(name, value)| (name.to_vec(), value.to_vec())).collect()))
}

fn is_known_writer(created_by: &[u8]) -> bool {
    let version = created_by.strip_prefix(WRITER).unwrap_or_default();
    let digits = version.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let major = std::str::from_utf8(&version[..digits]).ok().and_then(|text| text.parse().ok());
    major.is_some_and(|major: u32| major >= LEAST_VERSION)
}

fn read_pair<'d>(cursor: &mut Cursor<'d>) -> Read<(&'d [u8], &'d [u8])> {
    let (mut key, mut value) = (None, None);
    cursor.structure(|fields, id, field| {
        ensure(field == BINARY)?;
        match id {
            key_value::KEY => key = Some(fields.binary()?),
            key_value::VALUE => value = Some(fields.binary()?),
            _ => return Err(GaveUp),
        }
        Ok(())
    })?;
    Ok((key.ok_or(GaveUp)?, value.ok_or(GaveUp)?))
}

/// A union with one member, an empty struct: the order of the column's type.
fn read_order(cursor: &mut Cursor<'_>) -> Read<()> {
    let mut members = 0;
    cursor.structure(|fields, id, field| {
        ensure((id, field) == (column_order::TYPE_ORDER, STRUCT))?;
        members += 1;
        fields.structure(|_, _, _| Err(GaveUp))
    })?;
    ensure(members == 1)
}

fn read_row_group(cursor: &mut Cursor<'_>) -> Read<(usize, Vec<ColumnChunk>)> {
    let (mut rows, mut chunks, mut has_size) = (None, Vec::new(), false);
    cursor.structure(|fields, id, field| match (id, field) {
        (row_group::COLUMNS, LIST) => {
            let count = fields.list(STRUCT)?;
            (0..count).try_for_each(|_| {
                chunks.push(read_chunk(fields)?);
                Ok(())
            })
        }
        (row_group::TOTAL_BYTE_SIZE, I64) => {
            has_size = true;
            fields.skip(I64)
        }
        (row_group::NUM_ROWS, I64) => {
            rows = Some(fields.count()?);
            Ok(())
        }
        (row_group::FILE_OFFSET | row_group::TOTAL_COMPRESSED_SIZE, I64) => fields.skip(I64),
        (row_group::ORDINAL, I16) => fields.skip(I16),
        _ => Err(GaveUp),
    })?;
    ensure(has_size)?;
    Ok((rows.ok_or(GaveUp)?, chunks))
}

fn read_chunk(cursor: &mut Cursor<'_>) -> Read<ColumnChunk> {
    let (mut has_offset, mut chunk) = (false, None);
    cursor.structure(|fields, id, field| match (id, field) {
        (column_chunk::FILE_OFFSET, I64) => {
            has_offset = true;
            fields.skip(I64)
        }
        (column_chunk::META_DATA, STRUCT) => {
            chunk = Some(read_meta_data(fields)?);
            Ok(())
        }
        _ => Err(GaveUp),
    })?;
    ensure(has_offset)?;
    chunk.ok_or(GaveUp)
}

#[derive(Default)]
struct MetaData {
    physical_type: Option<i32>,
    encodings: Option<u32>,
    has_path: bool,
    codec: Option<i32>,
    values: Option<usize>,
    has_uncompressed_size: bool,
    size: Option<usize>,
    data: Option<usize>,
    dictionary: Option<usize>,
    bounds: Vec<usize>,
    histograms: [Option<usize>; 2],
}

fn read_meta_data(cursor: &mut Cursor<'_>) -> Read<ColumnChunk> {
    let mut meta_data = MetaData::default();
    cursor.structure(|fields, id, field| {
        match (id, field) {
            (column_meta_data::TYPE, I32) => meta_data.physical_type = Some(fields.i32()?),
            (column_meta_data::ENCODINGS, LIST) => {
                meta_data.encodings = Some(read_encodings(fields)?)
            }
            (column_meta_data::PATH_IN_SCHEMA, LIST) => {
                let names = fields.list(BINARY)?;
                (0..names).try_for_each(|_| fields.binary().map(drop))?;
                meta_data.has_path = true;
            }
            (column_meta_data::CODEC, I32) => meta_data.codec = Some(fields.i32()?),
            (column_meta_data::NUM_VALUES, I64) => meta_data.values = Some(fields.count()?),
            (column_meta_data::TOTAL_UNCOMPRESSED_SIZE, I64) => {
                fields.count()?;
                meta_data.has_uncompressed_size = true;
            }
            (column_meta_data::TOTAL_COMPRESSED_SIZE, I64) => {
                meta_data.size = Some(fields.count()?)
            }
            (column_meta_data::DATA_PAGE_OFFSET, I64) => meta_data.data = Some(fields.count()?),
            (column_meta_data::DICTIONARY_PAGE_OFFSET, I64) => {
                meta_data.dictionary = Some(fields.count()?);
            }
            (column_meta_data::STATISTICS, STRUCT) => {
                read_statistics(fields, |size| meta_data.bounds.push(size))?;
            }
            (column_meta_data::ENCODING_STATS, LIST) => {
                let count = fields.list(STRUCT)?;
                (0..count).try_for_each(|_| read_page_count(fields))?;
            }
            (column_meta_data::SIZE_STATISTICS, STRUCT) => {
                meta_data.histograms = read_sizes(fields)?
            }
            _ => return Err(GaveUp),
        }
        Ok(())
    })?;
    ensure(meta_data.has_path && meta_data.has_uncompressed_size)?;
    let physical_type = meta_data.physical_type.ok_or(GaveUp)?;
    let width = width(physical_type);
    ensure(width.is_none_or(|width| meta_data.bounds.iter().all(|&size| size == width)))?;
    let data = meta_data.data.ok_or(GaveUp)?;
    let start = meta_data.dictionary.unwrap_or(data);
    ensure(start > 0 && (meta_data.dictionary.is_none() || start < data))?;
    let end = start.checked_add(meta_data.size.ok_or(GaveUp)?).ok_or(GaveUp)?;
    Ok(ColumnChunk {
        physical_type,
        encodings: meta_data.encodings.ok_or(GaveUp)?,
        codec: meta_data.codec.ok_or(GaveUp)?,
        values: meta_data.values.ok_or(GaveUp)? as u64,
        start,
        end,
        has_dictionary: meta_data.dictionary.is_some(),
        histograms: meta_data.histograms,
    })
}

/// The bytes of a value of a type of fixed size.
fn width(physical_type: i32) -> Option<usize> {
    const BOOLEAN: i32 = PhysicalType::Boolean as i32;
    const INT32: i32 = PhysicalType::Int32 as i32;
    const INT64: i32 = PhysicalType::Int64 as i32;
    const FLOAT: i32 = PhysicalType::Float as i32;
    const DOUBLE: i32 = PhysicalType::Double as i32;
    match physical_type {
        BOOLEAN => Some(1),
        INT32 | FLOAT => Some(4),
        INT64 | DOUBLE => Some(8),
        _ => None,
    }
}

/// How many pages of one type and encoding there are.
fn read_page_count(cursor: &mut Cursor<'_>) -> Read<()> {
    let mut members = 0;
    cursor.structure(|fields, id, field| {
        members += 1;
        ensure(id == members && field == I32)?;
        fields.i32().map(drop)
    })?;
    ensure(members == page_encoding_stats::COUNT)
}

fn read_encodings(cursor: &mut Cursor<'_>) -> Read<u32> {
    let count = cursor.list(I32)?;
    let mut encodings = 0u32;
    for _ in 0..count {
        encodings |=
            1u32.checked_shl(u32::try_from(cursor.i32()?).map_err(|_| GaveUp)?).ok_or(GaveUp)?;
    }
    Ok(encodings)
}

/// Read the statistics of a column chunk or page; `bound` gets the size of each bound.
pub fn read_statistics(cursor: &mut Cursor<'_>, mut bound: impl FnMut(usize)) -> Read<()> {
    use statistics::*;
    cursor.structure(|fields, id, field| match (id, field) {
        (NULL_COUNT | DISTINCT_COUNT, I64) => fields.count().map(drop),
        (DEPRECATED_MAX | DEPRECATED_MIN | MAX_VALUE | MIN_VALUE, BINARY) => {
            bound(fields.binary()?.len());
            Ok(())
        }
        (IS_MAX_VALUE_EXACT | IS_MIN_VALUE_EXACT, TRUE | FALSE) => Ok(()),
        _ => Err(GaveUp),
    })
}

/// Return the lengths of the histograms of repetition and definition levels.
fn read_sizes(cursor: &mut Cursor<'_>) -> Read<[Option<usize>; 2]> {
    let mut histograms = [None; 2];
    cursor.structure(|fields, id, field| match (id, field) {
        (size_statistics::UNENCODED_BYTE_ARRAY_DATA_BYTES, I64) => fields.count().map(drop),
        (
            size_statistics::REPETITION_LEVEL_HISTOGRAM
            | size_statistics::DEFINITION_LEVEL_HISTOGRAM,
            LIST,
        ) => {
            let count = fields.list(I64)?;
            histograms[usize::from(id - size_statistics::REPETITION_LEVEL_HISTOGRAM)] = Some(count);
            (0..count).try_for_each(|_| fields.count().map(drop))
        }
        _ => Err(GaveUp),
    })?;
    Ok(histograms)
}
