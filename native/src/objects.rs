//! Columns to rows: Python objects from Parquet leaves, the same as `columns_to_rows` makes.

use std::ops::Deref;

use pyo3::exceptions::PyException;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyList, PyTuple};

use crate::clock;
use crate::dicts::{DictMaker, owned, set};
use crate::half;
use crate::leaf::{Leaf, Levels, Values};
use crate::py::{Owned, Ref};
use crate::schema::{Field, Type, Unit, Zone};

/// So many values of a column are made in turn: they stay in the processor's cache until their rows
/// are made.
const ROWS: usize = 64;

/// Reads the rows of some columns one after the other. `L` refers to a leaf, or owns it.
///
/// It makes objects that the garbage collector tracks, so Python code may run between any two of
/// them. That is why leaves must not change.
pub struct RowReader<L> {
    dicts: DictMaker,
    columns: Vec<ColumnReader<L>>,
    cells: Vec<Vec<Owned>>,
}

impl<L: Deref<Target = Leaf>> RowReader<L> {
    /// Read from row `start` on. `leaves` are those of all fields, in order.
    pub fn new(
        py: Python<'_>,
        fields: &[Field],
        leaves: &mut impl Iterator<Item = L>,
        start: usize,
    ) -> PyResult<Self> {
        let columns = fields
            .iter()
            .map(|field| ColumnReader::new(py, field, leaves, start))
            .collect::<PyResult<Vec<_>>>()?;
        let cells = columns.iter().map(|_| Vec::with_capacity(ROWS)).collect();
        Ok(Self { dicts: dict_maker(py, fields)?, columns, cells })
    }

    /// Append the next rows, as dicts.
    pub fn read(&mut self, py: Python<'_>, rows: usize, out: &mut Vec<Owned>) -> PyResult<()> {
        let mut left = rows;
        while left > 0 {
            let count = left.min(ROWS);
            for (column, cells) in self.columns.iter_mut().zip(&mut self.cells) {
                cells.clear();
                column.read(py, count, cells)?;
                cells.reverse(); // the next one is the last
            }
            for _ in 0..count {
                let cells = self.cells.iter_mut().filter_map(Vec::pop);
                out.push(self.dicts.make(py, cells)?);
            }
            left -= count;
        }
        Ok(())
    }
}

fn dict_maker(py: Python<'_>, fields: &[Field]) -> PyResult<DictMaker> {
    let has_containers = fields.iter().any(|field| !field.data_type.is_leaf());
    DictMaker::new(py, fields.iter().map(|field| &*field.name), has_containers)
}

/// Reads one column, or a part of one.
pub struct ColumnReader<L> {
    nullable: bool,
    /// The definition level of what is there.
    def: u8,
    node: NodeReader<L>,
}

enum NodeReader<L> {
    Leaf(LeafReader<L>),
    List { rep: u8, item: Box<ColumnReader<L>> },
    Map { rep: u8, key: Box<ColumnReader<L>>, value: Box<ColumnReader<L>> },
    Struct { dicts: DictMaker, fields: Vec<ColumnReader<L>>, cells: Vec<Owned> },
    Tuple { fields: Vec<ColumnReader<L>> },
}

impl<L: Deref<Target = Leaf>> ColumnReader<L> {
    /// Read from row `start` on. `leaves` are those of the field, in order.
    pub fn new(
        py: Python<'_>,
        field: &Field,
        leaves: &mut impl Iterator<Item = L>,
        start: usize,
    ) -> PyResult<Self> {
        Self::nested(py, field, 0, 0, leaves, start)
    }

    /// Make tuples of the structs that are the items of this list.
    pub fn with_tuples(mut self) -> Self {
        if let NodeReader::List { item, .. } = &mut self.node
            && let NodeReader::Struct { fields, .. } = &mut item.node
        {
            item.node = NodeReader::Tuple { fields: std::mem::take(fields) };
        }
        self
    }

    fn nested(
        py: Python<'_>,
        field: &Field,
        def: u8,
        rep: u8,
        leaves: &mut impl Iterator<Item = L>,
        start: usize,
    ) -> PyResult<Self> {
        let def = def + u8::from(field.nullable);
        let mut inner = |child: &Field, def, rep| {
            Self::nested(py, child, def, rep, leaves, start).map(Box::new)
        };
        let node = match &field.data_type {
            Type::List(item) | Type::FixedList(item, _) => {
                NodeReader::List { rep: rep + 1, item: inner(item, def + 1, rep + 1)? }
            }
            Type::Map(key, value) => NodeReader::Map {
                rep: rep + 1,
                key: inner(key, def + 1, rep + 1)?,
                value: inner(value, def + 1, rep + 1)?,
            },
            Type::Struct(fields) => NodeReader::Struct {
                dicts: dict_maker(py, fields)?,
                fields: fields
                    .iter()
                    .map(|child| Self::nested(py, child, def, rep, leaves, start))
                    .collect::<PyResult<_>>()?,
                cells: Vec::with_capacity(fields.len()),
            },
            data_type => {
                let leaf = leaves.next().expect("there is a leaf for each field");
                NodeReader::Leaf(LeafReader::new(leaf, data_type, start))
            }
        };
        Ok(Self { nullable: field.nullable, def, node })
    }

    /// Append the next values.
    pub fn read(&mut self, py: Python<'_>, count: usize, out: &mut Vec<Owned>) -> PyResult<()> {
        if let NodeReader::Leaf(leaf) = &mut self.node {
            return leaf.read(py, count, out);
        }
        for _ in 0..count {
            out.push(self.next(py)?);
        }
        Ok(())
    }

    pub fn next(&mut self, py: Python<'_>) -> PyResult<Owned> {
        if let NodeReader::Leaf(leaf) = &mut self.node {
            return leaf.next(py);
        }
        let found = self.first().def();
        if self.nullable && found < self.def {
            self.skip();
            return Ok(none(py));
        }
        let is_empty = found == self.def;
        match &mut self.node {
            NodeReader::Leaf(_) => unreachable!("leaves are read above"),
            NodeReader::Struct { dicts, fields, cells } => {
                cells.clear(); // if an error came before
                for field in fields {
                    cells.push(field.next(py)?);
                }
                dicts.make(py, cells.drain(..))
            }
            NodeReader::Tuple { fields } => {
                let items = fields.iter_mut().map(|field| field.next(py));
                let items = items.collect::<PyResult<Vec<_>>>()?;
                let tuple = PyTuple::new(py, items.into_iter().map(|item| item.into_bound(py)))?;
                Ok(Owned::of(tuple.into_any()))
            }
            NodeReader::List { item, .. } if is_empty => {
                item.skip();
                // SAFETY: a new list.
                unsafe { owned(py, ffi::PyList_New(0)) }
            }
            NodeReader::List { rep, item } => {
                let mut items = Vec::new();
                loop {
                    items.push(item.next(py)?.into_bound(py));
                    if item.first().rep() != Some(*rep) {
                        return Ok(Owned::of(PyList::new(py, items)?.into_any()));
                    }
                }
            }
            NodeReader::Map { rep, key, value } => {
                // SAFETY: a new dict.
                let dict = unsafe { owned(py, ffi::PyDict_New())? };
                if is_empty {
                    key.skip();
                    value.skip();
                    return Ok(dict);
                }
                loop {
                    let key_object = key.next(py)?;
                    set(py, &dict, &key_object, &value.next(py)?)?;
                    if key.first().rep() != Some(*rep) {
                        return Ok(dict);
                    }
                }
            }
        }
    }

    /// Pass one slot, which has no value, in all leaves.
    fn skip(&mut self) {
        match &mut self.node {
            NodeReader::Leaf(leaf) => leaf.slot += 1,
            NodeReader::List { item, .. } => item.skip(),
            NodeReader::Map { key, value, .. } => {
                key.skip();
                value.skip();
            }
            NodeReader::Struct { fields, .. } | NodeReader::Tuple { fields } => {
                fields.iter_mut().for_each(Self::skip);
            }
        }
    }

    /// The first leaf: its levels tell what there is.
    fn first(&self) -> &LeafReader<L> {
        match &self.node {
            NodeReader::Leaf(leaf) => leaf,
            NodeReader::List { item, .. } => item.first(),
            NodeReader::Map { key, .. } => key.first(),
            NodeReader::Struct { fields, .. } | NodeReader::Tuple { fields } => fields[0].first(),
        }
    }
}

struct LeafReader<L> {
    leaf: L,
    data_type: Type,
    slot: usize,
    value: usize,
    /// Of a flat leaf: the nulls that are passed.
    nulls: usize,
    /// The objects of strings that are stored once.
    objects: Vec<Option<Owned>>,
    /// The last time, and its object: neighbours are often equal.
    last: Option<(i64, Owned)>,
}

impl<L: Deref<Target = Leaf>> LeafReader<L> {
    fn new(leaf: L, data_type: &Type, start: usize) -> Self {
        let (slot, value) = leaf.position(start);
        let objects = match &leaf.values {
            Values::Strings(strings) if strings.indices().is_some() => strings.distinct(),
            _ => 0,
        };
        let objects = (0..objects).map(|_| None).collect();
        let data_type = match data_type {
            Type::Text { .. } => Type::Text { symbols: None },
            other => other.clone(),
        };
        Self { leaf, data_type, slot, value, nulls: slot - value, objects, last: None }
    }

    /// The definition level of the next slot.
    fn def(&self) -> u8 {
        match &self.leaf.levels {
            Levels::Nested { def, .. } => def[self.slot],
            Levels::Required | Levels::Flat { .. } => self.leaf.max_def,
        }
    }

    /// The repetition level of the next slot; None at the end.
    fn rep(&self) -> Option<u8> {
        match &self.leaf.levels {
            Levels::Nested { rep: Some(rep), .. } => rep.get(self.slot).copied(),
            _ => None,
        }
    }

    #[inline(always)]
    fn next(&mut self, py: Python<'_>) -> PyResult<Owned> {
        let is_null = match &self.leaf.levels {
            Levels::Required => false,
            Levels::Flat { nulls } => {
                let is_null = nulls.get(self.nulls).is_some_and(|&null| null as usize == self.slot);
                self.nulls += usize::from(is_null);
                is_null
            }
            Levels::Nested { def, .. } => def[self.slot] < self.leaf.max_def,
        };
        self.slot += 1;
        if is_null {
            return Ok(none(py));
        }
        let value = self.value;
        self.value += 1;
        self.object(py, value)
    }

    /// Append the next values, of a column that is not in a list.
    fn read(&mut self, py: Python<'_>, count: usize, out: &mut Vec<Owned>) -> PyResult<()> {
        for _ in 0..count {
            out.push(self.next(py)?);
        }
        Ok(())
    }

    #[inline(always)]
    fn object(&mut self, py: Python<'_>, value: usize) -> PyResult<Owned> {
        // SAFETY: each function returns a new reference, or null with an exception set.
        unsafe {
            match &self.leaf.values {
                Values::Bool(bits) => owned(py, ffi::PyBool_FromLong(i64::from(bits.get(value)))),
                Values::I32(values) => match &self.data_type {
                    Type::Date => clock::date(py, values[value]),
                    Type::Time { .. } => clock::time(py, 1_000 * i64::from(values[value])),
                    Type::UnsignedInt => int(py, i64::from(values[value] as u32)),
                    _ => int(py, i64::from(values[value])),
                },
                Values::I64(values) => match &self.data_type {
                    Type::Timestamp { unit, has_zone } => {
                        let ticks = values[value];
                        if let Some((last, object)) = &self.last
                            && *last == ticks
                        {
                            return Ok(object.borrow().to_owned());
                        }
                        let object = time(py, ticks, *unit, *has_zone)?;
                        self.last = Some((ticks, object.borrow().to_owned()));
                        Ok(object)
                    }
                    Type::ZonedTimestamp { unit, zone } => {
                        zoned_time(py, values[value], *unit, zone)
                    }
                    Type::Time { unit } => time_of_day(py, values[value], *unit),
                    Type::Duration { unit } => clock::timedelta(py, values[value], *unit)
                        .unwrap_or_else(|| int(py, values[value])),
                    Type::UnsignedLong => {
                        owned(py, ffi::PyLong_FromUnsignedLongLong(values[value] as u64))
                    }
                    _ => int(py, values[value]),
                },
                Values::F32(values) => owned(py, ffi::PyFloat_FromDouble(f64::from(values[value]))),
                Values::F64(values) => owned(py, ffi::PyFloat_FromDouble(values[value])),
                Values::Fixed { width, bytes } => {
                    let bytes = &bytes[width * value..][..*width];
                    match &self.data_type {
                        Type::Decimal(decimals) => decimal(py, &decimals.text(bytes)),
                        Type::Half => {
                            let number = half::widen(u16::from_le_bytes([bytes[0], bytes[1]]));
                            owned(py, ffi::PyFloat_FromDouble(number))
                        }
                        _ => new_bytes(py, bytes),
                    }
                }
                Values::Strings(strings) => {
                    let index = strings.indices().map(|indices| indices[value] as usize);
                    if let Some(Some(object)) = index.map(|index| &self.objects[index]) {
                        return Ok(object.borrow().to_owned());
                    }
                    let string = strings.get(value);
                    let object = match self.data_type {
                        Type::Text { .. } => new_text(py, string)?,
                        _ => new_bytes(py, string)?,
                    };
                    if let Some(index) = index {
                        self.objects[index] = Some(object.borrow().to_owned());
                    }
                    Ok(object)
                }
            }
        }
    }
}

pub fn none(py: Python<'_>) -> Owned {
    // SAFETY: None is an object; the reference is new.
    unsafe {
        let none = ffi::Py_None();
        ffi::Py_INCREF(none);
        owned(py, none).expect("None is an object")
    }
}

pub fn int(py: Python<'_>, value: i64) -> PyResult<Owned> {
    // SAFETY: a new reference, or null with an exception set.
    unsafe { owned(py, ffi::PyLong_FromLongLong(value)) }
}

pub fn new_text(py: Python<'_>, utf8: &[u8]) -> PyResult<Owned> {
    // SAFETY: the text is `len` bytes long; a new reference, or null with an exception set.
    unsafe {
        owned(py, ffi::PyUnicode_FromStringAndSize(utf8.as_ptr().cast(), utf8.len() as isize))
    }
}

pub fn new_bytes(py: Python<'_>, bytes: &[u8]) -> PyResult<Owned> {
    // SAFETY: there are `len` bytes; a new reference, or null with an exception set.
    unsafe {
        owned(py, ffi::PyBytes_FromStringAndSize(bytes.as_ptr().cast(), bytes.len() as isize))
    }
}

/// A datetime, or the number where Python has none that is exact.
fn time(py: Python<'_>, ticks: i64, unit: Unit, has_zone: bool) -> PyResult<Owned> {
    match in_micros(ticks, unit).and_then(|micros| clock::datetime(py, micros, has_zone)) {
        Some(object) => object,
        None => int(py, ticks),
    }
}

fn in_micros(ticks: i64, unit: Unit) -> Option<i64> {
    match unit {
        Unit::Second => ticks.checked_mul(1_000_000),
        Unit::Milli => ticks.checked_mul(1_000),
        Unit::Micro => Some(ticks),
        Unit::Nano => (ticks % 1_000 == 0).then_some(ticks / 1_000),
    }
}

/// A datetime in a zone, or the number where the zone has none, or none that is exact.
fn zoned_time(py: Python<'_>, ticks: i64, unit: Unit, zone: &Zone) -> PyResult<Owned> {
    let micros = in_micros(ticks, unit);
    let Some(utc) = micros.and_then(|micros| clock::datetime(py, micros, true)) else {
        return int(py, ticks);
    };
    match utc?.into_bound(py).call_method1("astimezone", (&*zone.0,)) {
        Ok(time) => Ok(Ref::of(&time).to_owned()),
        Err(error) if error.is_instance_of::<PyException>(py) => int(py, ticks),
        Err(error) => Err(error),
    }
}

/// A time of day, or the number where Python has none that is exact.
fn time_of_day(py: Python<'_>, ticks: i64, unit: Unit) -> PyResult<Owned> {
    in_micros(ticks, unit).map_or_else(|| int(py, ticks), |micros| clock::time(py, micros))
}

fn decimal(py: Python<'_>, text: &str) -> PyResult<Owned> {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let class = CLASS.import(py, "decimal", "Decimal")?;
    Ok(Ref::of(&class.call1((text,))?).to_owned())
}
