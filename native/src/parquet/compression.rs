//! The compression of pages.

use super::Error;
use super::format::Codec;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Compression {
    None,
    Snappy,
    Lz4Raw,
    Zstd,
}

/// As Arrow has it.
const ZSTD_LEVEL: i32 = 1;

/// Compresses pages, and keeps what that needs.
pub enum Compressor {
    None,
    Snappy(snap::raw::Encoder),
    Lz4Raw,
    Zstd(zstd::bulk::Compressor<'static>),
}

impl Compressor {
    pub fn new(compression: Compression) -> Result<Self, Error> {
        Ok(match compression {
            Compression::None => Self::None,
            Compression::Snappy => Self::Snappy(snap::raw::Encoder::new()),
            Compression::Lz4Raw => Self::Lz4Raw,
            Compression::Zstd => {
                Self::Zstd(zstd::bulk::Compressor::new(ZSTD_LEVEL).map_err(failed)?)
            }
        })
    }

    pub fn codec(&self) -> Codec {
        match self {
            Self::None => Codec::Uncompressed,
            Self::Snappy(_) => Codec::Snappy,
            Self::Lz4Raw => Codec::Lz4Raw,
            Self::Zstd(_) => Codec::Zstd,
        }
    }

    /// Append a page's compressed bytes.
    pub fn compress(&mut self, page: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        let start = out.len();
        let most = match self {
            Self::None => {
                out.extend_from_slice(page);
                return Ok(());
            }
            Self::Snappy(_) => snap::raw::max_compress_len(page.len()),
            Self::Lz4Raw => lz4_flex::block::get_maximum_output_size(page.len()),
            Self::Zstd(_) => zstd::zstd_safe::compress_bound(page.len()),
        };
        out.resize(start.checked_add(most).ok_or(Error::TooLarge)?, 0);
        let place = &mut out[start..];
        let size = match self {
            Self::None => 0,
            Self::Snappy(encoder) => encoder.compress(page, place).map_err(failed)?,
            Self::Lz4Raw => lz4_flex::block::compress_into(page, place).map_err(failed)?,
            Self::Zstd(compressor) => compressor.compress_to_buffer(page, place).map_err(failed)?,
        };
        out.truncate(start + size);
        Ok(())
    }
}

fn failed(error: impl std::fmt::Display) -> Error {
    Error::Compression(error.to_string())
}
