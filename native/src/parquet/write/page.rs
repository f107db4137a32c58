//! The pages of one column chunk: first as they are encoded, then compressed behind their headers.

use std::ops::Range;

use super::Error;
use super::compression::Compressor;
use crate::parquet::field_ids::{data_page_header, dictionary_page_header, page_header};
use crate::parquet::format::{Codec, Encoding, PageType};
use crate::parquet::thrift::Struct;

struct Page {
    page_type: PageType,
    encoding: Encoding,
    /// Slots of a data page, entries of a dictionary.
    count: i32,
    /// Where its bytes are.
    encoded: Range<usize>,
    compressed: Range<usize>,
}

/// The pages of one column chunk, and the buffers that those of the next one use.
#[derive(Default)]
pub struct Pages {
    pages: Vec<Page>,
    encoded: Vec<u8>,
    compressed: Vec<u8>,
}

/// Where in a file a column chunk's pages were put, and how.
pub struct Placed {
    pub codec: Codec,
    /// Bytes before and after compression, headers included.
    pub encoded_size: i64,
    pub compressed_size: i64,
    pub dictionary_offset: Option<i64>,
    pub data_offset: i64,
    pub data_pages: i32,
}

impl Pages {
    pub fn clear(&mut self) {
        self.pages.clear();
        self.encoded.clear();
    }

    /// Add a page, whose bytes `encode` appends; it returns their encoding.
    pub fn add(
        &mut self,
        page_type: PageType,
        count: usize,
        encode: impl FnOnce(&mut Vec<u8>) -> Encoding,
    ) -> Result<(), Error> {
        let start = self.encoded.len();
        let encoding = encode(&mut self.encoded);
        let encoded = start..self.encoded.len();
        if i32::try_from(encoded.len()).is_err() {
            return Err(Error::TooLarge);
        }
        let count = i32::try_from(count).map_err(|_| Error::TooLarge)?;
        self.pages.push(Page { page_type, encoding, count, encoded, compressed: 0..0 });
        Ok(())
    }

    /// The encoding of the data pages.
    pub fn encoding(&self) -> Encoding {
        self.pages.last().map_or(Encoding::Plain, |page| page.encoding)
    }

    pub fn has_dictionary(&self) -> bool {
        self.pages.first().is_some_and(|page| page.page_type == PageType::Dictionary)
    }

    /// Compress all pages; return their bytes if these are fewer.
    fn compress(&mut self, compressor: &mut Compressor) -> Result<Option<usize>, Error> {
        if compressor.codec() == Codec::Uncompressed || self.encoded.len() < compressor.least {
            return Ok(None);
        }
        let mut end = 0;
        for page in &mut self.pages {
            let encoded = &self.encoded[page.encoded.clone()];
            let size = compressor.compress(encoded, &mut self.compressed, end)?;
            page.compressed = end..end + size;
            end += size;
        }
        Ok((end < self.encoded.len()).then_some(end))
    }

    /// The bytes of all pages before they are compressed.
    pub fn encoded_size(&self) -> usize {
        self.encoded.len()
    }

    /// The bytes that all pages will take, but for their headers.
    pub fn compressed_size(&mut self, compressor: &mut Compressor) -> Result<usize, Error> {
        let size = self.compress(compressor)?;
        Ok(size.unwrap_or(self.encoded.len()))
    }

    /// Append all pages to a file, compressed where that is wanted and smaller.
    pub fn place(
        &mut self,
        compressor: &mut Compressor,
        compresses: bool,
        file: &mut Vec<u8>,
    ) -> Result<Placed, Error> {
        let is_compressed = compresses && self.compress(compressor)?.is_some();
        let start = file.len();
        let mut encoded_size = 0;
        let (mut dictionary_offset, mut data_offset) = (None, None);
        for page in &self.pages {
            let at = file.len() as i64;
            match page.page_type {
                PageType::Dictionary => dictionary_offset = Some(at),
                PageType::Data => data_offset = data_offset.or(Some(at)),
            }
            let bytes = match is_compressed {
                true => &self.compressed[page.compressed.clone()],
                false => &self.encoded[page.encoded.clone()],
            };
            let before = file.len();
            page.put_header(bytes, file)?;
            encoded_size += (file.len() - before + page.encoded.len()) as i64;
            file.extend_from_slice(bytes);
        }
        Ok(Placed {
            codec: if is_compressed { compressor.codec() } else { Codec::Uncompressed },
            encoded_size,
            compressed_size: (file.len() - start) as i64,
            dictionary_offset,
            data_offset: data_offset.unwrap_or(start as i64),
            data_pages: (self.pages.len() - usize::from(self.has_dictionary())) as i32,
        })
    }
}

impl Page {
    fn put_header(&self, bytes: &[u8], file: &mut Vec<u8>) -> Result<(), Error> {
        let size = i32::try_from(bytes.len()).map_err(|_| Error::TooLarge)?;
        let crc32 = crc32fast::hash(bytes);
        Struct::append(file, |header| {
            header.i32(page_header::TYPE, self.page_type as i32);
            // Its length was checked when it was added.
            header.i32(page_header::UNCOMPRESSED_PAGE_SIZE, self.encoded.len() as i32);
            header.i32(page_header::COMPRESSED_PAGE_SIZE, size);
            header.i32(page_header::CRC, crc32 as i32);
            match self.page_type {
                PageType::Data => header.structure(page_header::DATA_PAGE_HEADER, |data| {
                    data.i32(data_page_header::NUM_VALUES, self.count);
                    data.i32(data_page_header::ENCODING, self.encoding as i32);
                    data.i32(data_page_header::DEFINITION_LEVEL_ENCODING, Encoding::Rle as i32);
                    data.i32(data_page_header::REPETITION_LEVEL_ENCODING, Encoding::Rle as i32);
                }),
                PageType::Dictionary => {
                    header.structure(page_header::DICTIONARY_PAGE_HEADER, |dictionary| {
                        dictionary.i32(dictionary_page_header::NUM_VALUES, self.count);
                        dictionary.i32(dictionary_page_header::ENCODING, self.encoding as i32);
                    })
                }
            }
        });
        Ok(())
    }
}
