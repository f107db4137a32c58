//! What the batches of one topic share: how rows are appended to leaves, and leaves to be used again.

use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::produce::columns::{Appending, Column, NullSays, Taken, each_nullable};
use crate::produce::from_rows::Template;
use crate::python::gil::{GilCell, InUse};
use crate::python::lookup::Lookup;
use crate::python::panics::entry;
use crate::values::leaf::{Leaf, Values};
use crate::values::schema::{Field, Type};
use crate::values::size::{LeafSize, Size};
use crate::values::strings::Strings;
use crate::values::time_form::{Described, KnownForm, TimeForm};

/// What a row takes besides its columns: its time, and its places in other buffers.
const ROW_BYTES: usize = 16;
/// Sizes of the leaves of keys, of times with the records' ids, and both of headers.
const METADATA_SIZES: [LeafSize; 4] = [
    LeafSize { per_row: 8, per_slot: 0 },
    LeafSize { per_row: 64, per_slot: 0 },
    LeafSize { per_row: 8, per_slot: 12 },
    LeafSize { per_row: 8, per_slot: 12 },
];
/// What the leaves of batches that were reported may hold, in all formats of the process: memory
/// that was used before costs a fraction of what new memory does.
const MOST_SPARE: usize = 32 << 20;
/// Whether dictionaries pay is asked again when a batch has so many times the rows.
const RELEARN: usize = 8;
/// Batches with fewer rows do not tell.
const FEW_ROWS: usize = 64;

static SPARE: AtomicUsize = AtomicUsize::new(0);

/// The columns of one topic. For any thread.
#[pyclass(frozen, module = "columnar_kafka.native._core")]
pub struct RowFormat {
    pub fields: Vec<Field>,
    /// What each row takes, besides text and the items of lists.
    pub row_size: Size,
    /// In the order of a batch's leaves.
    pub leaf_sizes: Vec<LeafSize>,
    /// As many bytes every consumer decodes.
    pub most_decoded: usize,
    given_up: AtomicBool,
    /// What reads values that are no rows.
    decoder: OnceLock<Box<dyn Decoder>>,
    rows: GilCell<RowAppender>,
}

/// Reads a value that is text or bytes.
pub trait Decoder: Send + Sync {
    /// Whether the last column is none of a row's, but that of what is left of values.
    fn has_rest(&self) -> bool;

    /// What is known of the forms of the times in each leaf; none: they have no forms of their own.
    fn time_forms(&self) -> &[KnownForm] {
        &[]
    }

    /// Append it to the columns of a row.
    fn append(&self, value: &[u8], appender: &mut RowAppender, leaves: &mut [Leaf]) -> Taken;
}

/// How rows are appended to the leaves of a batch, and what was learned from earlier ones.
pub struct RowAppender {
    pub columns: Vec<Column>,
    pub headers: Column,
    pub template: Template,
    pub appending: Appending,
    pub places: Places,
    model: Vec<Leaf>,
    known: Vec<Known>,
    spare: Vec<Vec<Leaf>>,
}

/// Where the leaves of a batch are: those of the columns are before the others.
#[derive(Clone)]
pub struct Places {
    pub keys: usize,
    pub times: usize,
    pub headers: Range<usize>,
}

/// What is known of a leaf of strings.
struct Known {
    /// Whether a dictionary pays, and of how many rows that is known.
    pays: bool,
    rows: usize,
    lookup: Option<Box<Lookup>>,
}

#[pymethods]
impl RowFormat {
    /// Describe each column as `(name, nullable, type, details, children, branch)`, and each leaf by its
    /// bytes a row and a slot once it is decoded.
    #[new]
    fn new(
        py: Python<'_>,
        columns: Vec<Bound<'_, PyAny>>,
        leaf_sizes: Vec<(usize, usize)>,
        most_decoded: usize,
    ) -> PyResult<Self> {
        entry(py, "RowFormat.new", || {
            let fields = columns.iter().map(Field::read).collect::<PyResult<Vec<_>>>()?;
            let sizes =
                leaf_sizes.into_iter().map(|(per_row, per_slot)| LeafSize { per_row, per_slot });
            let leaf_sizes: Vec<_> = sizes.chain(METADATA_SIZES).collect();
            let row_size = Size {
                nbytes: ROW_BYTES + fields.iter().map(Field::width).sum::<usize>(),
                decoded: leaf_sizes.iter().map(|size| size.per_row + size.per_slot).sum(),
            };
            let rows = GilCell::new(RowAppender::new(&fields, &leaf_sizes));
            let given_up = AtomicBool::new(false);
            let decoder = OnceLock::new();
            Ok(Self { fields, row_size, leaf_sizes, most_decoded, given_up, decoder, rows })
        })
    }

    /// Whether no row is appended any more.
    #[getter]
    #[inline(always)]
    pub fn is_given_up(&self) -> bool {
        self.given_up.load(Relaxed)
    }

    /// Whether null in the column of a field says null, and not that the field was absent; if it has
    /// said nothing, `is_null` decides. `place`: that among the fields that may be null.
    fn says_null(&self, py: Python<'_>, place: usize, is_null: bool) -> PyResult<bool> {
        entry(py, "RowFormat.says_null", || {
            let (mut at, mut says_null) = (0, true);
            let first = if is_null { NullSays::Null } else { NullSays::Absent };
            self.each_nullable(py, |column| {
                if at == place {
                    says_null = column.says(first, &mut false) == is_null;
                    column.settle(true);
                }
                at += 1;
            })?;
            Ok(says_null)
        })
    }

    /// The places of the fields whose null says null.
    fn nulls(&self, py: Python<'_>) -> PyResult<Vec<usize>> {
        entry(py, "RowFormat.nulls", || {
            let (mut at, mut places) = (0, Vec::new());
            self.each_nullable(py, |column| {
                places.extend((column.has_said() == NullSays::Null).then_some(at));
                at += 1;
            })?;
            Ok(places)
        })
    }

    /// Whether a time that tells this of its form is in that of a leaf, or could be: then it is.
    fn takes_time(&self, py: Python<'_>, leaf: usize, seen: Described) -> PyResult<bool> {
        entry(py, "RowFormat.takes_time", || {
            let form = self.time_forms_of().get(leaf);
            Ok(form.is_some_and(|form| form.takes(TimeForm::read(&seen))))
        })
    }

    /// The forms of the times that have been seen, with the places of their leaves.
    fn time_forms(&self, py: Python<'_>) -> PyResult<Vec<(usize, Described)>> {
        entry(py, "RowFormat.time_forms", || {
            let forms = self.time_forms_of().iter().enumerate();
            let seen = forms.filter_map(|(leaf, form)| Some((leaf, form.get()?.described())));
            Ok(seen.collect())
        })
    }
}

impl RowFormat {
    /// Append no row any more: the core has panicked on one.
    pub fn give_up(&self) {
        self.given_up.store(true, Relaxed);
    }

    /// Read values that are text or bytes, too.
    pub fn decode(&self, py: Python<'_>, decoder: Box<dyn Decoder>) -> PyResult<()> {
        let _ = self.decoder.set(decoder); // once
        self.rows(py).ok_or_else(in_use)?.template = Template::of_rows(self.given_fields());
        Ok(())
    }

    /// Have the first value of each field that may be null decide what null says.
    pub fn ask_nulls(&self, py: Python<'_>) -> PyResult<()> {
        self.each_nullable(py, Column::ask)
    }

    /// What reads values that are no rows.
    #[inline(always)]
    pub fn decoder(&self) -> Option<&dyn Decoder> {
        self.decoder.get().map(|decoder| &**decoder)
    }

    fn time_forms_of(&self) -> &[KnownForm] {
        self.decoder().map_or(&[], Decoder::time_forms)
    }

    /// The fields of a row, as it is given.
    pub fn given_fields(&self) -> &[Field] {
        let has_rest = self.decoder().is_some_and(Decoder::has_rest);
        &self.fields[..self.fields.len() - usize::from(has_rest)]
    }

    fn each_nullable(&self, py: Python<'_>, mut look: impl FnMut(&mut Column)) -> PyResult<()> {
        let mut rows = self.rows(py).ok_or_else(in_use)?;
        each_nullable(&mut rows.columns[..self.given_fields().len()], &mut look);
        Ok(())
    }

    /// Append rows; None while somebody else does.
    #[inline(always)]
    pub fn rows<'a>(&'a self, py: Python<'a>) -> Option<InUse<'a, RowAppender>> {
        self.rows.get(py)
    }
}

impl RowAppender {
    fn new(fields: &[Field], sizes: &[LeafSize]) -> Self {
        let mut model = Vec::new();
        let columns = fields.iter().map(|field| Column::new(field, &mut model, sizes)).collect();
        let keys = model.len();
        model.push(Leaf::new(Values::Strings(Strings::new(true)), 1, 0, true));
        model.push(Leaf::new(Values::I64(Vec::new()), 0, 0, true));
        let headers = Column::new(&headers_field(), &mut model, sizes);
        Self {
            columns,
            headers,
            template: Template::of_rows(fields),
            appending: Appending::default(),
            places: Places { keys, times: keys + 1, headers: keys + 2..model.len() },
            known: model.iter().map(|_| Known { pays: true, rows: 0, lookup: None }).collect(),
            model,
            spare: Vec::new(),
        }
    }

    /// Return leaves without rows.
    pub fn begin(&mut self) -> Vec<Leaf> {
        let mut leaves = match self.spare.pop() {
            None => self.model.iter().map(Leaf::none).collect(),
            Some(leaves) => {
                SPARE.fetch_sub(capacity(&leaves), Relaxed);
                leaves
            }
        };
        for (leaf, known) in leaves.iter_mut().zip(&mut self.known) {
            leaf.begin();
            if let Values::Strings(strings) = &mut leaf.values {
                strings.begin(known.pays, known.lookup.take());
            }
        }
        leaves
    }

    /// End appending to leaves, and learn from them.
    pub fn finish(&mut self, leaves: &mut [Leaf]) {
        for (leaf, known) in leaves.iter_mut().zip(&mut self.known) {
            let Values::Strings(strings) = &mut leaf.values else { continue };
            let rows = strings.len();
            let (pays, lookup) = strings.finish();
            if let Some(mut lookup) = lookup {
                lookup.clear();
                known.lookup = Some(lookup);
            }
            if rows < FEW_ROWS {
                continue;
            }
            if known.pays {
                (known.pays, known.rows) = (pays, rows);
            } else if rows >= RELEARN * known.rows {
                known.pays = true; // the next batch will tell
            }
        }
    }

    /// Keep leaves that are used no more, unless that is too much.
    pub fn give_back(&mut self, leaves: Vec<Leaf>) {
        let nbytes = capacity(&leaves);
        if SPARE.load(Relaxed) + nbytes <= MOST_SPARE {
            SPARE.fetch_add(nbytes, Relaxed);
            self.spare.push(leaves);
        }
    }
}

impl Drop for RowAppender {
    fn drop(&mut self) {
        SPARE.fetch_sub(self.spare.iter().map(|leaves| capacity(leaves)).sum(), Relaxed);
    }
}

fn in_use() -> PyErr {
    PyRuntimeError::new_err("the row format is in use")
}

fn capacity(leaves: &[Leaf]) -> usize {
    leaves.iter().map(Leaf::capacity).sum()
}

pub fn headers_field() -> Field {
    let field = |name: &str, nullable, data_type| Field {
        name: name.into(),
        nullable,
        data_type,
        branch: None,
    };
    let pair = Type::Struct(vec![
        field("key", true, Type::Text { symbols: None }),
        field("value", true, Type::Binary),
    ]);
    field("headers", true, Type::List(Box::new(field("item", false, pair))))
}
