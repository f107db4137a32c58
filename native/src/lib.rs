//! The native core of columnar-kafka: rows to columns, columns to Parquet, and back.
//!
//! | room | what it does | begin at |
//! |---|---|---|
//! | `python` | reads and makes Python's objects; catches panics; notices forks | `py.rs` |
//! | `values` | the values of columns: types, leaves, and objects, Avro or JSON made of them | `leaf.rs` |
//! | `parquet` | `write`: leaves to files; `read`: files of known writers to leaves; copies footers | `write/writer.rs` |
//! | `arrow` | leaves as Arrow arrays | `mod.rs` |
//! | `produce` | `Producer.produce`: rows into open batches, their reports, their segments | `method.rs` |
//! | `plain` | plain messages, in JSON or Avro, into batches: whole stretches of them | `batch.rs` |
//! | `consume` | segments to records and tables; footers of files that are stitched | `decoder.rs` |
//!
//! Every class of the package's `columnar_kafka.native._core` is exported below. A room uses those
//! above it.

mod arrow;
mod consume;
mod parquet;
mod plain;
mod produce;
mod python;
mod values;

/// For what its own documentation says cannot be compiled.
#[doc(hidden)]
pub use python::py::Ref;

#[pyo3::pymodule(gil_used = true)]
mod _core {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::consume::avro_schema::AvroSchema;
    #[pymodule_export]
    use crate::consume::copier::copy_footer;
    #[pymodule_export]
    use crate::consume::decoder::{File, RecordReader};
    #[pymodule_export]
    use crate::consume::file_schema::FileSchema;
    #[pymodule_export]
    use crate::consume::json_schema::JsonSchema;
    #[pymodule_export]
    use crate::consume::records::RecordMaker;
    #[pymodule_export]
    use crate::consume::row_group::RowGroup;
    #[pymodule_export]
    use crate::consume::tables::TableSchema;
    #[pymodule_export]
    use crate::plain::batch::PlainBatch;
    #[pymodule_export]
    use crate::plain::fetched::{FetchedColumns, FetchedMessages, fetched_messages};
    #[pymodule_export]
    use crate::plain::format::PlainFormat;
    #[pymodule_export]
    use crate::plain::given::{AvroHeader, read_avro, read_json};
    #[pymodule_export]
    use crate::plain::messages::{PlainMessages, read_messages};
    #[pymodule_export]
    use crate::produce::batch::Batch;
    #[pymodule_export]
    use crate::produce::block::Block;
    #[pymodule_export]
    use crate::produce::encoder::Encoder;
    #[pymodule_export]
    use crate::produce::memory_bound::Usage;
    #[pymodule_export]
    use crate::produce::method::produce_method;
    #[pymodule_export]
    use crate::produce::open_batches::OpenBatches;
    #[pymodule_export]
    use crate::produce::reports::{Abandoned, Reports, relay};
    #[pymodule_export]
    use crate::produce::row_format::RowFormat;
    #[pymodule_export]
    use crate::python::fork::forks;
    #[pymodule_export]
    use crate::python::layout::learn_class;
    #[cfg(feature = "panics")]
    #[pymodule_export]
    use crate::python::panics::injected::{called_entries, has_panicked, panic_at};
    #[pymodule_export]
    use crate::python::panics::{PanicError, panic_count};
    #[pymodule_export]
    use crate::values::clock::learn_zones;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        crate::python::panics::import();
        crate::python::fork::watch()?;
        crate::python::py::import(module.py())?;
        crate::values::clock::import(module.py())
    }
}
