//! The native core of columnar-kafka: rows to columns, columns to Parquet, and back.

mod arrow;
mod batch;
mod clock;
mod columns;
mod copier;
mod decimal;
mod decoder;
mod dict_items;
mod dicts;
mod encoder;
mod fork;
mod gil;
mod half;
mod layout;
mod leaf;
mod leaf_objects;
mod lookup;
mod objects;
mod open_batches;
mod panics;
mod parquet;
mod partitioner;
mod produce;
mod py;
mod records;
mod reports;
mod row;
mod row_format;
mod schema;
mod size;
mod strings;
mod tables;
mod text;
mod usage;
mod value;

#[pyo3::pymodule(gil_used = true)]
mod _core {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::batch::{Batch, Block};
    #[pymodule_export]
    use crate::clock::learn_zones;
    #[pymodule_export]
    use crate::copier::copy_footer;
    #[pymodule_export]
    use crate::decoder::{File, FileSchema, RecordReader};
    #[pymodule_export]
    use crate::encoder::Encoder;
    #[pymodule_export]
    use crate::fork::forks;
    #[pymodule_export]
    use crate::layout::learn_class;
    #[pymodule_export]
    use crate::open_batches::OpenBatches;
    #[cfg(feature = "panics")]
    #[pymodule_export]
    use crate::panics::injected::{called_entries, has_panicked, panic_at};
    #[pymodule_export]
    use crate::panics::{PanicError, panic_count};
    #[pymodule_export]
    use crate::produce::produce_method;
    #[pymodule_export]
    use crate::records::RecordMaker;
    #[pymodule_export]
    use crate::reports::{Abandoned, Reports, relay};
    #[pymodule_export]
    use crate::row_format::RowFormat;
    #[pymodule_export]
    use crate::tables::TableSchema;
    #[pymodule_export]
    use crate::usage::Usage;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        crate::panics::import();
        crate::fork::watch()?;
        crate::py::import(module.py())?;
        crate::clock::import(module.py())
    }
}
