//! Columns to rows: Python objects from Parquet leaves, the same as `columns_to_rows` makes.

use std::ops::Deref;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use crate::python::new::{none, owned, text};
use crate::values::cursor::Cursor;
use crate::values::dicts::{DictMaker, set};
use crate::values::leaf::{Leaf, Levels};
use crate::values::schema::{Field, Type, is_union, is_union_of_rows};
use crate::values::to_objects::Objects;

/// So many values of a column are made in turn: they stay in the processor's cache until their rows
/// are made.
const ROWS: usize = 64;

/// Reads the rows of some columns one after the other. `L` refers to a leaf, or owns it.
///
/// It makes objects that the garbage collector tracks, so Python code may run between any two of
/// them. That is why leaves must not change.
pub struct RowReader<L> {
    rows: Rows<L>,
}

enum Rows<L> {
    Dicts { dicts: DictMaker, columns: Vec<ColumnReader<L>> },
    Union(ColumnReader<L>),
}

impl<L: Deref<Target = Leaf>> RowReader<L> {
    /// Read from row `start` on. `leaves` are those of all fields, in order. `named`: a record of a
    /// union is a tuple of its name and itself.
    pub fn new(
        py: Python<'_>,
        fields: &[Field],
        leaves: &mut impl Iterator<Item = L>,
        start: usize,
        named: bool,
    ) -> PyResult<Self> {
        let place = Place { start, named };
        if is_union_of_rows(fields) {
            let node = NodeReader::union(py, fields, (0, 0), leaves, place)?;
            return Ok(Self { rows: Rows::Union(ColumnReader { nullable: false, def: 0, node }) });
        }
        let columns = fields
            .iter()
            .map(|field| ColumnReader::nested(py, field, (0, 0), leaves, place))
            .collect::<PyResult<Vec<_>>>()?;
        Ok(Self { rows: Rows::Dicts { dicts: dict_maker(py, fields)?, columns } })
    }

    /// Append the next rows: dicts, or values of their union.
    pub fn read<'py>(
        &mut self,
        py: Python<'py>,
        rows: usize,
        out: &mut Vec<Bound<'py, PyAny>>,
    ) -> PyResult<()> {
        let (row_dicts, columns) = match &mut self.rows {
            Rows::Union(union) => return union.read(py, rows, out),
            Rows::Dicts { dicts, columns } => (dicts, columns),
        };
        let mut cells = Vec::with_capacity(ROWS.min(rows));
        let mut left = rows;
        while left > 0 {
            let count = left.min(ROWS);
            let dicts = row_dicts.begin(py, count)?;
            for (key, column) in columns.iter_mut().enumerate() {
                column.read(py, count, &mut cells)?;
                dicts.set(key, cells.drain(..))?;
            }
            dicts.finish(out);
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
    List {
        rep: u8,
        item: Box<ColumnReader<L>>,
    },
    Map {
        rep: u8,
        key: Box<ColumnReader<L>>,
        value: Box<ColumnReader<L>>,
    },
    Struct {
        dicts: DictMaker,
        fields: Vec<ColumnReader<L>>,
    },
    Tuple {
        fields: Vec<ColumnReader<L>>,
    },
    /// With the names of records that have one.
    Union {
        members: Vec<(ColumnReader<L>, Option<Py<PyAny>>)>,
    },
}

/// From which row on to read, and whether records of unions have names.
#[derive(Clone, Copy)]
struct Place {
    start: usize,
    named: bool,
}

impl<L: Deref<Target = Leaf>> NodeReader<L> {
    /// What reads a union, of which these are the branches.
    fn union(
        py: Python<'_>,
        fields: &[Field],
        levels: (u8, u8),
        leaves: &mut impl Iterator<Item = L>,
        place: Place,
    ) -> PyResult<Self> {
        let mut member = |field: &Field| -> PyResult<_> {
            let has_name = place.named && matches!(field.data_type, Type::Struct(_));
            let name = field.branch.as_ref().filter(|_| has_name);
            let name = name.map(|name| text(py, name.as_bytes())).transpose()?;
            let reader = ColumnReader::nested(py, field, levels, leaves, place)?;
            Ok((reader, name.map(Bound::unbind)))
        };
        Ok(Self::Union { members: fields.iter().map(&mut member).collect::<PyResult<_>>()? })
    }
}

impl<L: Deref<Target = Leaf>> ColumnReader<L> {
    /// Read from row `start` on. `leaves` are those of the field, in order.
    pub fn new(
        py: Python<'_>,
        field: &Field,
        leaves: &mut impl Iterator<Item = L>,
        start: usize,
    ) -> PyResult<Self> {
        Self::nested(py, field, (0, 0), leaves, Place { start, named: false })
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
        (def, rep): (u8, u8),
        leaves: &mut impl Iterator<Item = L>,
        place: Place,
    ) -> PyResult<Self> {
        let def = def + u8::from(field.nullable);
        let mut inner = |child: &Field, def, rep| {
            Self::nested(py, child, (def, rep), leaves, place).map(Box::new)
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
            Type::Struct(fields) if is_union(fields) => {
                NodeReader::union(py, fields, (def, rep), leaves, place)?
            }
            Type::Struct(fields) => NodeReader::Struct {
                dicts: dict_maker(py, fields)?,
                fields: fields
                    .iter()
                    .map(|child| Self::nested(py, child, (def, rep), leaves, place))
                    .collect::<PyResult<_>>()?,
            },
            data_type => {
                let leaf = leaves.next().expect("there is a leaf for each field");
                NodeReader::Leaf(LeafReader::new(leaf, data_type, place.start))
            }
        };
        Ok(Self { nullable: field.nullable, def, node })
    }

    /// Append the next values.
    pub fn read<'py>(
        &mut self,
        py: Python<'py>,
        count: usize,
        out: &mut Vec<Bound<'py, PyAny>>,
    ) -> PyResult<()> {
        if let NodeReader::Leaf(leaf) = &mut self.node {
            return leaf.read(py, count, out);
        }
        for _ in 0..count {
            out.push(self.next(py)?);
        }
        Ok(())
    }

    pub fn next<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        if let NodeReader::Leaf(leaf) = &mut self.node {
            return leaf.next(py);
        }
        let def = self.first().def();
        if self.nullable && def < self.def {
            self.skip();
            return Ok(none(py));
        }
        let is_empty = def == self.def;
        match &mut self.node {
            NodeReader::Leaf(_) => unreachable!("leaves are read above"),
            NodeReader::Struct { dicts, fields } => {
                dicts.make(py, fields.iter_mut().map(|field| field.next(py)))
            }
            NodeReader::Tuple { fields } => {
                let items = fields.iter_mut().map(|field| field.next(py));
                let items = items.collect::<PyResult<Vec<_>>>()?;
                Ok(PyTuple::new(py, items)?.into_any())
            }
            NodeReader::Union { members } => next_of_union(py, members),
            NodeReader::List { item, .. } if is_empty => {
                item.skip();
                // SAFETY: a new list.
                unsafe { owned(py, ffi::PyList_New(0)) }
            }
            NodeReader::List { rep, item } => {
                let mut items = Vec::new();
                loop {
                    items.push(item.next(py)?);
                    if item.first().rep() != Some(*rep) {
                        return Ok(PyList::new(py, items)?.into_any());
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
                    set(&dict, &key_object, &value.next(py)?)?;
                    if key.first().rep() != Some(*rep) {
                        return Ok(dict);
                    }
                }
            }
        }
    }

    fn is_null(&self) -> bool {
        self.first().is_null(self.def)
    }

    /// Pass one slot, which has no value, in all leaves.
    fn skip(&mut self) {
        match &mut self.node {
            NodeReader::Leaf(leaf) => leaf.cursor.skip(),
            NodeReader::List { item, .. } => item.skip(),
            NodeReader::Map { key, value, .. } => {
                key.skip();
                value.skip();
            }
            NodeReader::Struct { fields, .. } | NodeReader::Tuple { fields } => {
                fields.iter_mut().for_each(Self::skip);
            }
            NodeReader::Union { members } => {
                members.iter_mut().for_each(|(member, _)| member.skip())
            }
        }
    }

    /// The first leaf: its levels tell what there is.
    fn first(&self) -> &Cursor<L> {
        match &self.node {
            NodeReader::Leaf(leaf) => &leaf.cursor,
            NodeReader::List { item, .. } => item.first(),
            NodeReader::Map { key, .. } => key.first(),
            NodeReader::Struct { fields, .. } | NodeReader::Tuple { fields } => fields[0].first(),
            NodeReader::Union { members } => members[0].0.first(),
        }
    }
}

/// The value of the branch that is not null.
fn next_of_union<'py, L: Deref<Target = Leaf>>(
    py: Python<'py>,
    members: &mut [(ColumnReader<L>, Option<Py<PyAny>>)],
) -> PyResult<Bound<'py, PyAny>> {
    let mut value = None;
    for (member, name) in members {
        if member.is_null() {
            member.skip();
            continue;
        }
        let own = member.next(py)?;
        let own = match name {
            Some(name) => PyTuple::new(py, [name.bind(py).clone(), own])?.into_any(),
            None => own,
        };
        value.get_or_insert(own);
    }
    Ok(value.unwrap_or_else(|| none(py)))
}

struct LeafReader<L> {
    cursor: Cursor<L>,
    objects: Objects,
}

impl<L: Deref<Target = Leaf>> LeafReader<L> {
    fn new(leaf: L, data_type: &Type, start: usize) -> Self {
        let objects = Objects::new(&leaf.values, data_type);
        Self { cursor: Cursor::new(leaf, start), objects }
    }

    #[inline(always)]
    fn next<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match self.cursor.next() {
            Some(value) => self.objects.get(py, &self.cursor.leaf.values, value),
            None => Ok(none(py)),
        }
    }

    /// Append the next values, of a column that is not in a list.
    fn read<'py>(
        &mut self,
        py: Python<'py>,
        count: usize,
        out: &mut Vec<Bound<'py, PyAny>>,
    ) -> PyResult<()> {
        let Self { cursor, objects } = self;
        let nulls: &[u32] = match &cursor.leaf.levels {
            Levels::Required => &[],
            Levels::Flat { nulls } => nulls,
            Levels::Nested { .. } => {
                for _ in 0..count {
                    out.push(self.next(py)?);
                }
                return Ok(());
            }
        };
        let end = cursor.slot + count;
        while cursor.slot < end {
            let null = nulls.get(cursor.nulls).map_or(end, |&null| (null as usize).min(end));
            let values = cursor.value..cursor.value + (null - cursor.slot);
            (cursor.slot, cursor.value) = (null, values.end);
            objects.read(py, &cursor.leaf.values, values, out)?;
            if null < end {
                out.push(none(py));
                cursor.slot += 1;
                cursor.nulls += 1;
            }
        }
        Ok(())
    }
}
