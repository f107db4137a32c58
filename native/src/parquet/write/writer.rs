//! Leaves to Parquet files. A writer learns which encodings suit its topic.

use std::ops::Range;

use super::bytes::{ByteStrings, Constant, FixedBytes};
use super::choice::choose;
use super::chunk::Chunk;
use super::column::{Choice, Column, Order};
use super::compression::{Compression, Compressor};
use super::footer::{ColumnChunk, File, Statistics, put_footer};
use super::levels::{Slots, Span};
use super::numbers::Booleans;
use super::{Error, LeafPlan, Source};
use crate::parquet::delta::Widths;
use crate::parquet::format::{Encoding, MAGIC};
use crate::parquet::packing::Runs;
use crate::values::leaf::{Leaf, Values};

/// Encodings are chosen by at most so many rows, the first ones.
const SAMPLE_ROWS: usize = 20_000;
/// An encoding is chosen again when a file has so many times the values that it is from.
const RELEARN: usize = 2;

/// What columns and files have from which size on: with less it saves less than it adds.
#[derive(Clone, Copy)]
pub struct Least {
    /// The bytes of a column chunk that is compressed.
    compressed: usize,
    /// The rows of a small file with other encodings than `PLAIN`.
    encoded: usize,
    /// The rows of a small file with statistics.
    statistics: usize,
}

impl Least {
    /// For files that nobody compresses. Compressing smaller column chunks takes half of the CPU of small
    /// segments, and saves 5 % of their bytes.
    pub const ALONE: Self = Self { compressed: 128, encoded: 8, statistics: 0 };
    /// For files that are compressed once more, with what their chunks have in common. To compress so little
    /// takes 5 µs, and wide rows have thousands of chunks. Statistics of so few rows would save a reader less
    /// than they take.
    pub const WITHIN_COMPRESSED: Self = Self { compressed: 1024, encoded: 64, statistics: 128 };

    /// What applies to a file of these columns: `SMALL_FILE` is where few rows are no longer little.
    fn of(self, sources: &[Source<'_>]) -> Self {
        let nbytes: usize = sources.iter().map(|source| CHUNK_OVERHEAD + source.nbytes()).sum();
        match nbytes < SMALL_FILE {
            true => self,
            false => Self { compressed: self.compressed, ..Self::ALONE },
        }
    }
}

/// The lake keeps larger files as they are, unless it is told otherwise: they need their statistics.
const SMALL_FILE: usize = 60_000;
/// About the header of a column's page and its entry in the footer.
const CHUNK_OVERHEAD: usize = 200;

/// Writes the files of one topic. One thread at a time has it.
pub struct Writer {
    plans: Vec<LeafPlan>,
    schema_elements: Vec<u8>,
    created_by: String,
    columns: Columns,
    least: Least,
    /// The last file.
    file: Vec<u8>,
}

/// Writes columns, and remembers which encodings suit them.
struct Columns {
    choices: Vec<Choice>,
    /// How many values each choice is from: 0 where there was none.
    learned: Vec<usize>,
    compressor: Compressor,
    chunk: Chunk,
    row_numbers: Vec<i32>,
    /// Of the file that is written.
    least: Least,
}

/// What is to be done with one leaf of a file.
struct Task<'p> {
    leaf: usize,
    plan: &'p LeafPlan,
    rows: Range<usize>,
}

impl Writer {
    /// `plans` has the leaves in the order of the file, and `schema_elements` the footer's list of
    /// the schema's elements, in Thrift, with its head.
    pub fn new(
        plans: Vec<LeafPlan>,
        schema_elements: Vec<u8>,
        created_by: String,
        compression: Compression,
        least: Least,
    ) -> Result<Self, Error> {
        let columns = Columns {
            choices: vec![Choice::DICTIONARY; plans.len()],
            learned: vec![0; plans.len()],
            compressor: Compressor::new(compression, least.compressed)?,
            chunk: Chunk::new(match compression {
                Compression::None => Runs::Short,
                _ => Runs::Long,
            }),
            row_numbers: Vec::new(),
            least,
        };
        Ok(Self { plans, schema_elements, created_by, columns, least, file: Vec::new() })
    }

    /// Return a file with some rows of all leaves, which are in the order of the plans. Its memory is
    /// used again for the next one.
    pub fn write(
        &mut self,
        sources: &[Source<'_>],
        rows: Range<usize>,
        key_values: &[(&[u8], &[u8])],
    ) -> Result<&[u8], Error> {
        let Self { plans, columns, file, least, .. } = self;
        columns.least = least.of(sources);
        if sources.len() != plans.len() {
            return Err(Error::Columns { expected: plans.len(), actual: sources.len() });
        }
        let count = rows.end.checked_sub(rows.start).ok_or(Error::Rows)?;
        file.clear();
        file.extend_from_slice(MAGIC);
        let mut chunks = Vec::with_capacity(plans.len());
        for (leaf, (plan, source)) in plans.iter().zip(sources).enumerate() {
            let task = Task { leaf, plan, rows: rows.clone() };
            chunks.push(columns.write(&task, source, file)?);
        }
        let footer = File {
            schema: &self.schema_elements,
            created_by: &self.created_by,
            rows: count as i64,
            key_values,
        };
        let start = file.len();
        put_footer(&footer, &chunks, file);
        let size = u32::try_from(file.len() - start).map_err(|_| Error::TooLarge)?;
        file.extend_from_slice(&size.to_le_bytes());
        file.extend_from_slice(MAGIC);
        Ok(file)
    }
}

impl Columns {
    /// Append a column's pages to the file.
    fn write<'p>(
        &mut self,
        task: &Task<'p>,
        source: &Source<'_>,
        file: &mut Vec<u8>,
    ) -> Result<ColumnChunk<'p>, Error> {
        let all = Span { slots: 0..task.rows.len(), values: 0..task.rows.len() };
        match source {
            Source::Leaf(leaf) => self.write_leaf(task, leaf, file),
            Source::Constant(value) => {
                self.choices[task.leaf] = Choice::DICTIONARY;
                let column = Constant::new(value, task.rows.len());
                self.write_values(task, column, Slots::REQUIRED, &all, file)
            }
            Source::RowNumbers => {
                self.choices[task.leaf] = Choice::new(Encoding::DeltaBinaryPacked, Widths::Bits);
                let rows = i32::try_from(task.rows.len()).map_err(|_| Error::TooLarge)?;
                let mut numbers = std::mem::take(&mut self.row_numbers);
                numbers.clear();
                numbers.extend(0..rows);
                let chunk = self.write_values(task, &numbers[..], Slots::REQUIRED, &all, file);
                self.row_numbers = numbers;
                chunk
            }
        }
    }

    fn write_leaf<'p>(
        &mut self,
        task: &Task<'p>,
        leaf: &Leaf,
        file: &mut Vec<u8>,
    ) -> Result<ColumnChunk<'p>, Error> {
        let span = Slots::of_rows(leaf, task.rows.clone())?;
        let slots = Slots::new(leaf);
        match &leaf.values {
            Values::Bool(bits) => {
                self.learn_and_write(task, Booleans::new(bits), slots, &span, file)
            }
            Values::I32(values) => self.learn_and_write(task, &values[..], slots, &span, file),
            Values::I64(values) => self.learn_and_write(task, &values[..], slots, &span, file),
            Values::F32(values) => self.learn_and_write(task, &values[..], slots, &span, file),
            Values::F64(values) => self.learn_and_write(task, &values[..], slots, &span, file),
            Values::Strings(strings) => {
                self.learn_and_write(task, ByteStrings::new(strings), slots, &span, file)
            }
            Values::Fixed { width, bytes } => {
                self.learn_and_write(task, FixedBytes::new(*width, bytes), slots, &span, file)
            }
        }
    }

    fn learn_and_write<'p, C: Column>(
        &mut self,
        task: &Task<'p>,
        column: C,
        slots: Slots<'_>,
        span: &Span,
        file: &mut Vec<u8>,
    ) -> Result<ColumnChunk<'p>, Error> {
        let learned = &mut self.learned[task.leaf];
        let learns = span.values.len() >= RELEARN.saturating_mul(*learned);
        if learns && task.rows.len() >= self.least.encoded && !C::CANDIDATES.is_empty() {
            let sample = slots.first(span, SAMPLE_ROWS);
            if !sample.values.is_empty() {
                let values = column.slice(sample.values.start, sample.values.end);
                let choice = choose(&mut self.chunk, &mut self.compressor, values, slots, &sample)?;
                self.choices[task.leaf] = choice;
                *learned = span.values.len();
            }
        }
        let values = column.slice(span.values.start, span.values.end);
        self.write_values(task, values, slots, span, file)
    }

    fn write_values<'p, C: Column>(
        &mut self,
        task: &Task<'p>,
        column: C,
        slots: Slots<'_>,
        span: &Span,
        file: &mut Vec<u8>,
    ) -> Result<ColumnChunk<'p>, Error> {
        let is_few = span.slots.len() < self.least.encoded;
        let choice = if is_few { Choice::PLAIN } else { self.choices[task.leaf] };
        let has_statistics = task.plan.statistics && task.rows.len() >= self.least.statistics;
        let order = if has_statistics { task.plan.order } else { Order::Undefined };
        let bounds = self.chunk.encode(column, slots, span, choice, order)?;
        let nulls = (span.slots.len() - span.values.len()) as i64;
        Ok(ColumnChunk {
            path: &task.plan.path,
            physical_type: column.physical_type(),
            encoding: self.chunk.pages.encoding(),
            slots: span.slots.len() as i64,
            placed: self.chunk.pages.place(&mut self.compressor, choice.compresses, file)?,
            statistics: has_statistics.then_some(Statistics { nulls, bounds }),
        })
    }
}
