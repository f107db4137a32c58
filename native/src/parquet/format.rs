//! What writer and reader need of the format: its magic, and the enums of `parquet.thrift`. Its field
//! ids are in `field_ids`.

/// What a file begins and ends with.
pub const MAGIC: &[u8; 4] = b"PAR1";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PhysicalType {
    Boolean = 0,
    Int32 = 1,
    Int64 = 2,
    Float = 4,
    Double = 5,
    ByteArray = 6,
    FixedLenByteArray = 7,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Encoding {
    Plain = 0,
    Rle = 3,
    DeltaBinaryPacked = 5,
    DeltaLengthByteArray = 6,
    DeltaByteArray = 7,
    RleDictionary = 8,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PageType {
    Data = 0,
    Dictionary = 2,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Codec {
    Uncompressed = 0,
    Snappy = 1,
    Zstd = 6,
    Lz4Raw = 7,
}
