//! The pages of a column chunk: headers, checksums, decompression.

use std::cell::Cell;

use super::footer::{ColumnChunk, read_statistics};
use super::thrift::{Cursor, FALSE, I32, STRUCT, TRUE};
use super::{Budget, GaveUp, Read, ensure};
use crate::parquet::field_ids::{data_page_header, dictionary_page_header, page_header};
use crate::parquet::format::{Codec, Encoding, PageType};

/// What a page holds, before it is decompressed.
pub struct Page<'d> {
    pub page_type: PageType,
    pub values: usize,
    pub encoding: i32,
    size: usize,
    bytes: &'d [u8],
}

/// Decompresses pages into one buffer. A thread keeps one: new memory costs more than small pages.
#[derive(Default)]
pub struct Decompressor {
    buffer: Vec<u8>,
    zstd: Option<zstd::bulk::Decompressor<'static>>,
    snappy: snap::raw::Decoder,
}

impl<'d> Page<'d> {
    /// Read the page at `*at`, and set that to its end.
    pub fn read(file: &'d [u8], chunk: &ColumnChunk, at: &mut usize) -> Read<Self> {
        let body = &file[..chunk.end];
        let mut cursor = Cursor::new(body, *at, 0);
        let (mut page_type, mut size, mut stored, mut crc32) = (None, None, None, None);
        let mut description = None;
        cursor.structure(|fields, id, field| {
            match (id, field) {
                (page_header::TYPE, I32) => page_type = Some(fields.i32()?),
                (page_header::UNCOMPRESSED_PAGE_SIZE, I32) => size = Some(fields.count32()?),
                (page_header::COMPRESSED_PAGE_SIZE, I32) => stored = Some(fields.count32()?),
                (page_header::CRC, I32) => crc32 = Some(fields.i32()? as u32),
                (page_header::DATA_PAGE_HEADER, STRUCT) if description.is_none() => {
                    description = Some((PageType::Data, read_data_header(fields)?));
                }
                (page_header::DICTIONARY_PAGE_HEADER, STRUCT) if description.is_none() => {
                    description = Some((PageType::Dictionary, read_dictionary_header(fields)?));
                }
                _ => return Err(GaveUp),
            }
            Ok(())
        })?;
        let (described, (values, encoding)) = description.ok_or(GaveUp)?;
        ensure(page_type == Some(described as i32))?;
        let end = cursor.at.checked_add(stored.ok_or(GaveUp)?).ok_or(GaveUp)?;
        let bytes = body.get(cursor.at..end).ok_or(GaveUp)?;
        ensure(crc32 == Some(crc32fast::hash(bytes)))?;
        *at = end;
        Ok(Self { page_type: described, values, encoding, size: size.ok_or(GaveUp)?, bytes })
    }

    /// Take what it needs while it is decoded, and as part of the column.
    pub fn take_memory(&self, budget: &mut Budget) -> Read<()> {
        budget.take(2 * self.size as u64)
    }

    /// Its bytes, decompressed.
    pub fn decompressed<'b>(
        &self,
        codec: i32,
        budget: &mut Budget,
        decompressor: &'b mut Decompressor,
    ) -> Read<&'b [u8]>
    where
        'd: 'b,
    {
        self.take_memory(budget)?;
        if codec == Codec::Uncompressed as i32 {
            ensure(self.bytes.len() == self.size)?;
            return Ok(self.bytes);
        }
        decompressor.decompress(codec, self.bytes, self.size)
    }
}

/// The most bytes of the buffer that a thread keeps.
const KEPT: usize = 1 << 20;

thread_local! {
    static IDLE: Cell<Option<Decompressor>> = const { Cell::new(None) };
}

impl Decompressor {
    /// The thread's own, or a new one where that is in use.
    pub fn take() -> Self {
        IDLE.take().unwrap_or_default()
    }

    /// Let the thread use it again.
    pub fn give_back(mut self) {
        if self.buffer.capacity() > KEPT {
            self.buffer = Vec::new();
        }
        IDLE.set(Some(self));
    }

    fn decompress(&mut self, codec: i32, bytes: &[u8], size: usize) -> Read<&[u8]> {
        if self.buffer.len() < size {
            self.buffer.resize(size, 0);
        }
        let place = &mut self.buffer[..size];
        let written = if codec == Codec::Zstd as i32 {
            let decompressor = match &mut self.zstd {
                Some(decompressor) => decompressor,
                none => none.insert(zstd::bulk::Decompressor::new().map_err(|_| GaveUp)?),
            };
            decompressor.decompress_to_buffer(bytes, place).map_err(|_| GaveUp)?
        } else if codec == Codec::Snappy as i32 {
            ensure(snap::raw::decompress_len(bytes) == Ok(size))?;
            self.snappy.decompress(bytes, place).map_err(|_| GaveUp)?
        } else if codec == Codec::Lz4Raw as i32 {
            lz4_flex::block::decompress_into(bytes, place).map_err(|_| GaveUp)?
        } else {
            return Err(GaveUp);
        };
        ensure(written == size)?;
        Ok(&self.buffer[..size])
    }
}

/// The number of values and their encoding; levels are in RLE.
fn read_data_header(cursor: &mut Cursor<'_>) -> Read<(usize, i32)> {
    let (mut values, mut encoding, mut levels) = (None, None, [None; 2]);
    cursor.structure(|fields, id, field| {
        match (id, field) {
            (data_page_header::NUM_VALUES, I32) => values = Some(fields.count32()?),
            (data_page_header::ENCODING, I32) => encoding = Some(fields.i32()?),
            (data_page_header::DEFINITION_LEVEL_ENCODING, I32) => levels[0] = Some(fields.i32()?),
            (data_page_header::REPETITION_LEVEL_ENCODING, I32) => levels[1] = Some(fields.i32()?),
            (data_page_header::STATISTICS, STRUCT) => read_statistics(fields, |_| ())?,
            _ => return Err(GaveUp),
        }
        Ok(())
    })?;
    ensure(levels == [Some(Encoding::Rle as i32); 2])?;
    Ok((values.ok_or(GaveUp)?, encoding.ok_or(GaveUp)?))
}

fn read_dictionary_header(cursor: &mut Cursor<'_>) -> Read<(usize, i32)> {
    let (mut values, mut encoding) = (None, None);
    cursor.structure(|fields, id, field| {
        match (id, field) {
            (dictionary_page_header::NUM_VALUES, I32) => values = Some(fields.count32()?),
            (dictionary_page_header::ENCODING, I32) => encoding = Some(fields.i32()?),
            (dictionary_page_header::IS_SORTED, TRUE | FALSE) => {}
            _ => return Err(GaveUp),
        }
        Ok(())
    })?;
    Ok((values.ok_or(GaveUp)?, encoding.ok_or(GaveUp)?))
}
