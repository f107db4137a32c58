//! The compression of pages.

use zstd::zstd_safe::CParameter;

use super::Error;
use crate::parquet::format::Codec;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Compression {
    None,
    Snappy,
    Lz4Raw,
    Zstd,
}

/// As Arrow has it.
const ZSTD_LEVEL: i32 = 1;
/// Its hash table for larger pages need not be larger than this: a processor's first cache has room.
const HASH_LOG: u32 = 12;
/// As the level has it.
const BY_LEVEL: u32 = 0;
/// A smaller table would find fewer matches in smaller pages.
const LARGE_PAGE: usize = 1 << 17;

/// Compresses pages, and keeps what that needs.
pub struct Compressor {
    /// Column chunks of fewer bytes stay as they are.
    pub least: usize,
    method: Method,
}

enum Method {
    None,
    Snappy(Box<snap::raw::Encoder>),
    Lz4Raw,
    Zstd(zstd::bulk::Compressor<'static>),
}

impl Compressor {
    pub fn new(compression: Compression, least: usize) -> Result<Self, Error> {
        let method = match compression {
            Compression::None => Method::None,
            Compression::Snappy => Method::Snappy(Box::new(snap::raw::Encoder::new())),
            Compression::Lz4Raw => Method::Lz4Raw,
            Compression::Zstd => {
                Method::Zstd(zstd::bulk::Compressor::new(ZSTD_LEVEL).map_err(failed)?)
            }
        };
        Ok(Self { least, method })
    }

    pub fn codec(&self) -> Codec {
        match self.method {
            Method::None => Codec::Uncompressed,
            Method::Snappy(_) => Codec::Snappy,
            Method::Lz4Raw => Codec::Lz4Raw,
            Method::Zstd(_) => Codec::Zstd,
        }
    }

    /// Compress a page to a place in a buffer, which grows as needed; return the number of bytes.
    ///
    /// The buffer is never made shorter, so that its bytes need not be cleared again for each page.
    pub fn compress(
        &mut self,
        page: &[u8],
        buffer: &mut Vec<u8>,
        at: usize,
    ) -> Result<usize, Error> {
        let most = match self.method {
            Method::None => page.len(),
            Method::Snappy(_) => snap::raw::max_compress_len(page.len()),
            Method::Lz4Raw => lz4_flex::block::get_maximum_output_size(page.len()),
            Method::Zstd(_) => zstd::zstd_safe::compress_bound(page.len()),
        };
        let end = at.checked_add(most).ok_or(Error::TooLarge)?;
        if buffer.len() < end {
            buffer.resize(end, 0);
        }
        let place = &mut buffer[at..end];
        match &mut self.method {
            Method::None => {
                place.copy_from_slice(page);
                Ok(page.len())
            }
            Method::Snappy(encoder) => encoder.compress(page, place).map_err(failed),
            Method::Lz4Raw => lz4_flex::block::compress_into(page, place).map_err(failed),
            Method::Zstd(compressor) => {
                let hash_log = if page.len() > LARGE_PAGE { HASH_LOG } else { BY_LEVEL };
                compressor.set_parameter(CParameter::HashLog(hash_log)).map_err(failed)?;
                compressor.compress_to_buffer(page, place).map_err(failed)
            }
        }
    }
}

fn failed(error: impl std::fmt::Display) -> Error {
    Error::Compression(error.to_string())
}
