//! The footer: where the pages of one row group are, and what else tells how to read them.

use super::thrift::{BINARY, Cursor, FALSE, I16, I32, I64, LIST, STRUCT, TRUE};
use super::{GaveUp, Read, ensure};
use crate::parquet::format::MAGIC;

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
    /// What tells the columns' types, and how Arrow reads them: the schema's elements, first, and all
    /// metadata that are not this file's own.
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
        (1, I32) => {
            version = Some(fields.i32()?);
            Ok(())
        }
        (2, LIST) => {
            let start = fields.at;
            fields.skip(LIST)?;
            elements = Some(&file[start..fields.at]);
            Ok(())
        }
        (3, I64) => {
            rows = Some(fields.count()?);
            Ok(())
        }
        (4, LIST) => {
            ensure(fields.list(STRUCT)? == 1)?;
            group = Some(read_row_group(fields)?);
            Ok(())
        }
        (5, LIST) => {
            let count = fields.list(STRUCT)?;
            (0..count).try_for_each(|_| {
                pairs.push(read_pair(fields)?);
                Ok(())
            })
        }
        (6, BINARY) => {
            created_by = fields.binary()?;
            Ok(())
        }
        (7, LIST) => {
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
    let (key, metadata) = split(elements, created_by, &pairs)?;
    Ok(Footer { rows: group_rows as u64, chunks, key, elements: elements.len(), metadata })
}

/// Return the key of the schema and the file's own metadata. No name may occur twice.
#[allow(clippy::type_complexity)]
fn split(
    elements: &[u8],
    created_by: &[u8],
    pairs: &[(&[u8], &[u8])],
) -> Read<(Vec<u8>, Vec<(Vec<u8>, Vec<u8>)>)> {
    let mut names: Vec<&[u8]> = pairs.iter().map(|(name, _)| *name).collect();
    names.sort_unstable();
    ensure(names.windows(2).all(|two| two[0] != two[1]))?;
    let (own, shared): (Vec<_>, Vec<_>) =
        pairs.iter().partition(|(name, _)| name.starts_with(FILE_PREFIX));
    let mut key = elements.to_vec();
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
            1 => key = Some(fields.binary()?),
            2 => value = Some(fields.binary()?),
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
        ensure((id, field) == (1, STRUCT))?;
        members += 1;
        fields.structure(|_, _, _| Err(GaveUp))
    })?;
    ensure(members == 1)
}

fn read_row_group(cursor: &mut Cursor<'_>) -> Read<(usize, Vec<ColumnChunk>)> {
    let (mut rows, mut chunks, mut has_size) = (None, Vec::new(), false);
    cursor.structure(|fields, id, field| match (id, field) {
        (1, LIST) => {
            let count = fields.list(STRUCT)?;
            (0..count).try_for_each(|_| {
                chunks.push(read_chunk(fields)?);
                Ok(())
            })
        }
        (2, I64) => {
            has_size = true;
            fields.skip(I64)
        }
        (3, I64) => {
            rows = Some(fields.count()?);
            Ok(())
        }
        (5 | 6, I64) => fields.skip(I64),
        (7, I16) => fields.skip(I16),
        _ => Err(GaveUp),
    })?;
    ensure(has_size)?;
    Ok((rows.ok_or(GaveUp)?, chunks))
}

fn read_chunk(cursor: &mut Cursor<'_>) -> Read<ColumnChunk> {
    let (mut has_offset, mut chunk) = (false, None);
    cursor.structure(|fields, id, field| match (id, field) {
        (2, I64) => {
            has_offset = true;
            fields.skip(I64)
        }
        (3, STRUCT) => {
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
    let mut found = MetaData::default();
    cursor.structure(|fields, id, field| {
        match (id, field) {
            (1, I32) => found.physical_type = Some(fields.i32()?),
            (2, LIST) => found.encodings = Some(read_encodings(fields)?),
            (3, LIST) => {
                let names = fields.list(BINARY)?;
                (0..names).try_for_each(|_| fields.binary().map(drop))?;
                found.has_path = true;
            }
            (4, I32) => found.codec = Some(fields.i32()?),
            (5, I64) => found.values = Some(fields.count()?),
            (6, I64) => {
                fields.count()?;
                found.has_uncompressed_size = true;
            }
            (7, I64) => found.size = Some(fields.count()?),
            (9, I64) => found.data = Some(fields.count()?),
            (11, I64) => found.dictionary = Some(fields.count()?),
            (12, STRUCT) => found.bounds = read_statistics(fields)?,
            (13, LIST) => {
                let count = fields.list(STRUCT)?;
                (0..count).try_for_each(|_| read_page_count(fields))?;
            }
            (16, STRUCT) => found.histograms = read_sizes(fields)?,
            _ => return Err(GaveUp),
        }
        Ok(())
    })?;
    ensure(found.has_path && found.has_uncompressed_size)?;
    let physical_type = found.physical_type.ok_or(GaveUp)?;
    let width = width(physical_type);
    ensure(width.is_none_or(|width| found.bounds.iter().all(|&size| size == width)))?;
    let data = found.data.ok_or(GaveUp)?;
    let start = found.dictionary.unwrap_or(data);
    ensure(start > 0 && (found.dictionary.is_none() || start < data))?;
    let end = start.checked_add(found.size.ok_or(GaveUp)?).ok_or(GaveUp)?;
    Ok(ColumnChunk {
        physical_type,
        encodings: found.encodings.ok_or(GaveUp)?,
        codec: found.codec.ok_or(GaveUp)?,
        values: found.values.ok_or(GaveUp)? as u64,
        start,
        end,
        has_dictionary: found.dictionary.is_some(),
        histograms: found.histograms,
    })
}

/// The bytes of a value of a type of fixed size.
fn width(physical_type: i32) -> Option<usize> {
    match physical_type {
        0 => Some(1),     // BOOLEAN
        1 | 4 => Some(4), // INT32, FLOAT
        2 | 5 => Some(8), // INT64, DOUBLE
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
    ensure(members == 3)
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

/// Return the sizes of the bounds.
fn read_statistics(cursor: &mut Cursor<'_>) -> Read<Vec<usize>> {
    let mut bounds = Vec::new();
    cursor.structure(|fields, id, field| match (id, field) {
        (3 | 4, I64) => fields.count().map(drop),
        (1 | 2 | 5 | 6, BINARY) => {
            bounds.push(fields.binary()?.len());
            Ok(())
        }
        (7 | 8, TRUE | FALSE) => Ok(()),
        _ => Err(GaveUp),
    })?;
    Ok(bounds)
}

/// Return the lengths of the histograms of repetition and definition levels.
fn read_sizes(cursor: &mut Cursor<'_>) -> Read<[Option<usize>; 2]> {
    let mut histograms = [None; 2];
    cursor.structure(|fields, id, field| match (id, field) {
        (1, I64) => fields.count().map(drop),
        (2 | 3, LIST) => {
            let count = fields.list(I64)?;
            histograms[usize::from(id - 2)] = Some(count);
            (0..count).try_for_each(|_| fields.count().map(drop))
        }
        _ => Err(GaveUp),
    })?;
    Ok(histograms)
}
