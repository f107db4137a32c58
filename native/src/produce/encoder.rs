//! Blocks of records to segments.

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};

use crate::parquet::{Compression, LeafPlan, Least, Order, Source, Writer};
use crate::produce::block::Block;
use crate::python::panics::entry;
use crate::values::leaf::Leaf;

/// Encodes the segments of one topic. One thread owns it.
#[pyclass(module = "columnar_kafka.native._core")]
pub struct Encoder {
    writer: Writer,
    members: Vec<Member>,
    /// The key-value metadata that all files have.
    key_values: Vec<(Vec<u8>, Vec<u8>)>,
}

/// What a segment stores of the records' metadata, in the order of the column `_kafka`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Member {
    Id,
    Key,
    Timestamp,
    Headers,
}

#[pymethods]
impl Encoder {
    /// `leaves` has path, order and whether there are statistics; `schema_elements` is the footer's
    /// list in Thrift, as pyarrow writes it for the same schema. `messages_are_compressed`: by librdkafka.
    #[new]
    #[expect(clippy::too_many_arguments, reason = "the parts of a footer")]
    fn new(
        py: Python<'_>,
        leaves: Vec<(Vec<String>, String, bool)>,
        schema_elements: Vec<u8>,
        key_values: Vec<(Vec<u8>, Vec<u8>)>,
        created_by: String,
        compression: &str,
        messages_are_compressed: bool,
        members: Vec<String>,
    ) -> PyResult<Self> {
        entry(py, "Encoder.new", || {
            let plans = leaves.into_iter().map(|(path, order, statistics)| {
                let order = match order.as_str() {
                    "signed" => Order::Signed,
                    "unsigned" => Order::Unsigned,
                    "float" => Order::Float,
                    "bytes" => Order::Bytes,
                    "text" => Order::Text,
                    "undefined" => Order::Undefined,
                    _ => return Err(PyValueError::new_err(format!("no order {order:?}"))),
                };
                Ok(LeafPlan { path, order, statistics })
            });
            let compression = match compression {
                "none" => Compression::None,
                "snappy" => Compression::Snappy,
                "lz4" => Compression::Lz4Raw,
                "zstd" => Compression::Zstd,
                _ => return Err(PyValueError::new_err(format!("no compression {compression:?}"))),
            };
            let members = members.iter().map(|member| match member.as_str() {
                "id" => Ok(Member::Id),
                "key" => Ok(Member::Key),
                "timestamp" => Ok(Member::Timestamp),
                "headers" => Ok(Member::Headers),
                _ => Err(PyValueError::new_err(format!("no metadata {member:?}"))),
            });
            let plans = plans.collect::<PyResult<_>>()?;
            let least = match messages_are_compressed {
                true => Least::WITHIN_COMPRESSED,
                false => Least::ALONE,
            };
            let writer = Writer::new(plans, schema_elements, created_by, compression, least)
                .map_err(|error| PyValueError::new_err(error.to_string()))?;
            Ok(Self { writer, members: members.collect::<PyResult<_>>()?, key_values })
        })
    }

    /// Return a block as a Parquet file; its rows are those of a `segment`, or have identities of their
    /// own. Without the GIL, unless it has few values.
    fn encode<'py>(
        &mut self,
        py: Python<'py>,
        block: &Bound<'py, Block>,
        segment: &str,
        key_values: &Bound<'py, PyDict>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        entry(py, "Encoder.encode", || self.write(py, block.get(), segment, key_values))
    }
}

impl Encoder {
    /// Return all leaves of some rows as a Parquet file, without the GIL.
    pub fn write_leaves<'py>(
        &mut self,
        py: Python<'py>,
        leaves: &[Leaf],
    ) -> PyResult<Bound<'py, PyBytes>> {
        let pairs: Vec<(&[u8], &[u8])> =
            (self.key_values.iter()).map(|(key, value)| (&key[..], &value[..])).collect();
        let sources: Vec<_> = leaves.iter().map(Source::Leaf).collect();
        let rows = 0..leaves.first().map_or(0, |leaf| leaf.rows);
        let writer = &mut self.writer;
        let file = py.detach(|| writer.write(&sources, rows, &pairs));
        let file = file.map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
        Ok(PyBytes::new(py, file))
    }

    fn write<'py>(
        &mut self,
        py: Python<'py>,
        block: &Block,
        segment: &str,
        key_values: &Bound<'py, PyDict>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        if block.records.are_damaged() {
            return Err(PyRuntimeError::new_err("the native core has panicked on these records"));
        }
        let own: Vec<(Bound<'_, PyString>, Bound<'_, PyBytes>)> = (key_values.iter())
            .map(|(key, value)| Ok((key.cast_into()?, value.cast_into()?)))
            .collect::<PyResult<_>>()?;
        let mut pairs: Vec<(&[u8], &[u8])> =
            (self.key_values.iter()).map(|(key, value)| (&key[..], &value[..])).collect();
        for (key, value) in &own {
            pairs.push((key.to_str()?.as_bytes(), value.as_bytes()));
        }
        let sources = sources(&self.members, block, segment);
        let writer = &mut self.writer;
        let rows = block.rows.clone();
        let nbytes: usize = sources.iter().map(Source::nbytes).sum();
        let file = match rows.len() * sources.len() <= FEW_VALUES && nbytes <= FEW_BYTES {
            true => writer.write(&sources, rows, &pairs),
            false => py.detach(|| writer.write(&sources, rows, &pairs)),
        };
        let file = file.map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
        Ok(PyBytes::new(py, file))
    }
}

/// So many values take less time to write than other threads take to have the GIL and give it back.
const FEW_VALUES: usize = 4_096;
/// Values may be long, and lists too.
const FEW_BYTES: usize = 1 << 16;

fn sources<'b>(members: &[Member], block: &'b Block, segment: &'b str) -> Vec<Source<'b>> {
    let records = &block.records;
    let mut sources: Vec<_> = records.columns().iter().map(Source::Leaf).collect();
    for member in members {
        match member {
            Member::Id => sources.extend(match &records.identities {
                Some(leaves) => leaves.each_ref().map(Source::Leaf),
                None => [Source::Constant(segment.as_bytes()), Source::RowNumbers],
            }),
            Member::Key => sources.push(Source::Leaf(records.keys())),
            Member::Timestamp => sources.push(Source::Leaf(records.times())),
            Member::Headers => sources.extend(records.headers().iter().map(Source::Leaf)),
        }
    }
    sources
}
