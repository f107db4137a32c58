//! What the `parquet` crate takes for the columns of a file: `benchmarks/parquet_crate.py` runs it.
//!
//! `parquet_crate FILE SECONDS` prints nanoseconds of CPU to write, to read, and the bytes written.

use std::error::Error;
use std::fs;
use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::DataType;
use parquet::errors::Result;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesPtr};
use parquet::file::reader::{FileReader, RowGroupReader};
use parquet::file::serialized_reader::SerializedFileReader;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::TypePtr;

fn main() -> std::result::Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let file = Bytes::from(fs::read(arguments.next().ok_or("no file")?)?);
    let seconds: f64 = arguments.next().ok_or("no seconds")?.parse()?;
    let metadata = SerializedFileReader::new(file.clone())?.metadata().clone();
    let schema = metadata.file_metadata().schema_descr().root_schema_ptr();
    let properties = Arc::new(properties(metadata.row_group(0).columns())?);
    let columns = read(file.clone())?;
    let write = || write(schema.clone(), properties.clone(), &columns);
    let written = write()?.len();
    let write_nanos = nanos(seconds, || write().map(drop))?;
    let read_nanos = nanos(seconds, || read(file.clone()).map(drop))?;
    println!("{write_nanos} {read_nanos} {written}");
    Ok(())
}

/// A column with its levels, as the crate's reader makes and its writer takes them.
trait Column {
    fn write(&self, writer: &mut SerializedColumnWriter<'_>) -> Result<usize>;
}

struct Levelled<T: DataType> {
    values: Vec<T::T>,
    definition: Vec<i16>,
    repetition: Vec<i16>,
}

impl<T: DataType> Column for Levelled<T> {
    fn write(&self, writer: &mut SerializedColumnWriter<'_>) -> Result<usize> {
        let (definition, repetition) = (some(&self.definition), some(&self.repetition));
        writer.typed::<T>().write_batch(&self.values, definition, repetition)
    }
}

/// Return levels, unless the column has none.
fn some(levels: &[i16]) -> Option<&[i16]> {
    (!levels.is_empty()).then_some(levels)
}

fn read(file: Bytes) -> Result<Vec<Box<dyn Column>>> {
    let reader = SerializedFileReader::new(file)?;
    let group = reader.get_row_group(0)?;
    (0..group.num_columns()).map(|number| read_column(&*group, number)).collect()
}

fn read_column(group: &dyn RowGroupReader, number: usize) -> Result<Box<dyn Column>> {
    let slots = group.metadata().column(number).num_values() as usize;
    match group.get_column_reader(number)? {
        ColumnReader::BoolColumnReader(reader) => levelled(reader, slots),
        ColumnReader::Int32ColumnReader(reader) => levelled(reader, slots),
        ColumnReader::Int64ColumnReader(reader) => levelled(reader, slots),
        ColumnReader::Int96ColumnReader(reader) => levelled(reader, slots),
        ColumnReader::FloatColumnReader(reader) => levelled(reader, slots),
        ColumnReader::DoubleColumnReader(reader) => levelled(reader, slots),
        ColumnReader::ByteArrayColumnReader(reader) => levelled(reader, slots),
        ColumnReader::FixedLenByteArrayColumnReader(reader) => levelled(reader, slots),
    }
}

fn levelled<T: DataType>(mut reader: ColumnReaderImpl<T>, slots: usize) -> Result<Box<dyn Column>> {
    let mut column = Levelled::<T> {
        values: Vec::with_capacity(slots),
        definition: Vec::with_capacity(slots),
        repetition: Vec::with_capacity(slots),
    };
    let Levelled { values, definition, repetition } = &mut column;
    while reader.read_records(usize::MAX, Some(definition), Some(repetition), values)?.0 > 0 {}
    Ok(Box::new(column))
}

/// Return how the core has written these columns: their encodings, zstd, statistics of chunks.
fn properties(columns: &[ColumnChunkMetaData]) -> Result<WriterProperties> {
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(1)?))
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_offset_index_disabled(true);
    for column in columns {
        let path = column.column_path();
        let has_dictionary = column.dictionary_page_offset().is_some();
        properties = properties.set_column_dictionary_enabled(path.clone(), has_dictionary);
        if !has_dictionary {
            for encoding in column.encodings().filter(|&encoding| encoding != Encoding::RLE) {
                properties = properties.set_column_encoding(path.clone(), encoding);
            }
        }
    }
    Ok(properties.build())
}

fn write(
    schema: TypePtr,
    properties: WriterPropertiesPtr,
    columns: &[Box<dyn Column>],
) -> Result<Vec<u8>> {
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, properties)?;
    let mut group = writer.next_row_group()?;
    let mut columns = columns.iter();
    while let Some(mut column) = group.next_column()? {
        columns.next().expect("a column for each leaf").write(&mut column)?;
        column.close()?;
    }
    group.close()?;
    writer.into_inner()
}

/// Return the CPU of one call, once warm.
fn nanos(seconds: f64, call: impl Fn() -> Result<()>) -> Result<u64> {
    call()?;
    let (begin, mut calls) = (cpu_nanos(), 0);
    while cpu_nanos() - begin < (seconds * 1e9) as u64 {
        call()?;
        calls += 1;
    }
    Ok((cpu_nanos() - begin) / calls)
}

fn cpu_nanos() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a timespec of ours.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
