//! Rows, and records in rows, to the columns of their fields.

use std::collections::HashMap;

use pyo3::prelude::*;

use crate::produce::columns::{Appending, Column, NotTaken, Taken};
use crate::produce::unions::{Union, append_union};
use crate::python::dict_items::{Dict, Entries, Item};
use crate::python::layout::{Fields, Layout, Version};
use crate::python::py::{self, Ref};
use crate::values::leaf::Leaf;
use crate::values::schema::{Field, is_union_of_rows};
use crate::values::strings::{ShortText, is_equal};

/// More classes are not known at once; what is forgotten is learned again.
const MAX_CLASSES: usize = 16;
/// As many orders of keys.
const MAX_ORDERS: usize = 8;

/// The fields of a record. The keys of dicts are known again by their objects: most rows have the
/// same ones in the same order, or in one of a few.
pub struct Template {
    names: Vec<Box<str>>,
    columns: HashMap<Box<str>, usize>,
    /// Orders in which dicts had their keys, and which of them the last one had.
    orders: Vec<Order>,
    last: usize,
    /// The same of records whose names come as text.
    text: TextOrder,
    /// Where the fields are the branches of a union.
    union: Option<Box<Union>>,
    /// Layouts of the classes whose objects were records here; None: not one these columns can use.
    classes: Vec<(Version, Option<Layout>)>,
}

/// The keys of a dict, in its order.
struct Order {
    keys: Vec<Key>,
    /// The same keys' names, where they are short.
    names: Vec<Option<ShortText>>,
}

struct Key {
    object: Option<Py<PyAny>>,
    column: usize,
}

impl Key {
    #[inline(always)]
    fn is(&self, object: Ref<'_>) -> bool {
        self.object.as_ref().map(Py::as_ptr) == Some(object.as_ptr())
    }
}

/// After which column's name each other one came last, and which names a record has had.
#[derive(Default)]
struct TextOrder {
    after: Vec<usize>,
    /// The number of the last record that had each name, and that of this one.
    seen: Vec<u32>,
    record: u32,
    previous: usize,
}

impl Order {
    fn new(keys: Vec<Key>, names: &[Box<str>]) -> Self {
        let names = keys.iter().map(|key| ShortText::of(names[key.column].as_bytes())).collect();
        Self { keys, names }
    }

    /// Whether a dict's keys are these, perhaps as other objects: `json.loads` makes new ones for each
    /// row.
    #[inline(always)]
    fn is_order_of<'a>(
        &mut self,
        mut items: impl Iterator<Item = Item<'a>>,
        names: &[Box<str>],
        scratch: &mut Vec<u8>,
    ) -> bool {
        let mut keys = self.keys.iter_mut().zip(&self.names);
        items.all(|item| {
            let Some((known, short)) = keys.next() else { return false };
            if known.is(item.key) {
                return true;
            }
            let Some(utf8) = item.key.text().and_then(|text| text.utf8(scratch)) else {
                return false;
            };
            let same = match short {
                Some(short) => short.is(utf8),
                None => *utf8 == *names[known.column].as_bytes(),
            };
            if same && item.key.is_shared() {
                let object = known.object.replace(item.key.to_stored());
                object.into_iter().for_each(|object| object.drop_ref(item.key.py()));
            }
            same
        })
    }
}

impl Template {
    /// Of records with these fields, or values of a union with these branches.
    pub fn new(fields: &[Field]) -> Self {
        let names: Vec<Box<str>> = fields.iter().map(|field| field.name.clone()).collect();
        let columns = (0..).zip(&names).map(|(column, name)| (name.clone(), column)).collect();
        let keys = (0..names.len()).map(|column| Key { object: None, column }).collect();
        let orders = vec![Order::new(keys, &names)];
        // The first name comes after none, which has the last place.
        let after = (1..names.len()).chain([0, 0]).collect();
        let text = TextOrder { after, seen: vec![0; names.len()], record: 0, previous: 0 };
        let union = Union::of(fields);
        Self { names, columns, orders, last: 0, text, union, classes: Vec::new() }
    }

    /// Of rows with these columns.
    pub fn of_rows(columns: &[Field]) -> Self {
        let template = Self::new(columns);
        Self { union: template.union.filter(|_| is_union_of_rows(columns)), ..template }
    }

    /// Whether the fields are the branches of a union.
    pub fn is_union(&self) -> bool {
        self.union.is_some()
    }

    /// Whether a dict's keys are the names, by the objects of those that were seen last.
    #[inline(always)]
    pub fn has_last_keys(&self, dict: Dict<'_>) -> bool {
        dict.len() == self.names.len()
            && dict.iter().zip(&self.order().keys).all(|(item, key)| key.is(item.key))
    }

    /// Whether a dict's keys are the names.
    pub fn has_keys(&mut self, dict: Dict<'_>, scratch: &mut Vec<u8>) -> bool {
        dict.len() == self.names.len() && self.find(dict.iter(), scratch).is_some()
    }

    /// Begin a record whose names come as text.
    #[inline(always)]
    pub fn begin(&mut self) {
        self.text.previous = self.text.after.len() - 1;
        self.text.record = self.text.record.wrapping_add(1);
        if self.text.record == 0 {
            self.text.seen.fill(0);
            self.text.record = 1;
        }
    }

    /// The column of the next name; None: there is none, or the record has had it.
    #[inline(always)]
    pub fn next(&mut self, name: &[u8]) -> Option<usize> {
        self.find_next(name)?
    }

    /// The column of the next name, or None inside if the record has had it; None: there is none.
    #[inline(always)]
    pub fn find_next(&mut self, name: &[u8]) -> Option<Option<usize>> {
        let previous = self.text.previous;
        let mut column = self.text.after[previous];
        if self.names.get(column).is_none_or(|known| !is_equal(known.as_bytes(), name)) {
            column = *self.columns.get(std::str::from_utf8(name).ok()?)?;
            self.text.after[previous] = column;
        }
        if !self.is_missing(column) {
            return Some(None);
        }
        self.text.seen[column] = self.text.record;
        self.text.previous = column;
        Some(Some(column))
    }

    /// The name of a column.
    pub fn name(&self, column: usize) -> &str {
        &self.names[column]
    }

    /// Whether the record has not had a column's name.
    #[inline(always)]
    pub fn is_missing(&self, column: usize) -> bool {
        self.text.seen[column] != self.text.record
    }

    /// Whether an object's class has these fields.
    pub fn has_fields_of(&mut self, object: Ref<'_>) -> bool {
        self.layout(object).is_some()
    }

    /// Find the order of a dict's keys; None if they are not the names.
    #[inline(never)]
    fn find<'a>(
        &mut self,
        items: impl Iterator<Item = Item<'a>> + Clone,
        scratch: &mut Vec<u8>,
    ) -> Option<()> {
        for item in items.clone() {
            py::prefetch(item.key);
            py::prefetch(item.value);
        }
        let last = self.last;
        if self.orders[last].is_order_of(items.clone(), &self.names, scratch) {
            return Some(());
        }
        for (index, order) in self.orders.iter_mut().enumerate().filter(|(i, _)| *i != last) {
            if order.is_order_of(items.clone(), &self.names, scratch) {
                self.last = index;
                return Some(());
            }
        }
        self.learn(items, scratch)
    }

    /// Learn the order of a dict's keys, if they are the names.
    #[cold]
    fn learn<'a>(
        &mut self,
        items: impl Iterator<Item = Item<'a>>,
        scratch: &mut Vec<u8>,
    ) -> Option<()> {
        let mut keys = Vec::with_capacity(self.names.len());
        for Item { key, .. } in items {
            let name = std::str::from_utf8(key.text()?.utf8(scratch)?).ok()?;
            let column = *self.columns.get(name)?;
            keys.push(Key { object: Some(key.to_stored()), column });
        }
        if self.orders.len() == MAX_ORDERS {
            self.orders.clear();
        }
        self.last = self.orders.len();
        self.orders.push(Order::new(keys, &self.names));
        Some(())
    }

    /// The order of the last dict's keys.
    #[inline(always)]
    fn order(&self) -> &Order {
        &self.orders[self.last]
    }

    /// The layout of an object's class; None: Python has to look at it.
    #[inline(always)]
    fn layout(&mut self, object: Ref<'_>) -> Option<&Layout> {
        let version = Version::of_object(object)?;
        let known = self.classes.iter().position(|(known, _)| *known == version);
        let index = known.or_else(|| self.learn_class(version))?;
        self.classes[index].1.as_ref()
    }

    #[cold]
    fn learn_class(&mut self, version: Version) -> Option<usize> {
        if self.classes.len() >= MAX_CLASSES {
            self.classes.clear();
        }
        let layout = Layout::find(version, &self.names)?;
        self.classes.push((version, layout));
        Some(self.classes.len() - 1)
    }
}

/// Append a record's values to the columns of its fields, or a union's to its branch.
#[inline(always)]
pub fn append_record(
    fields: &mut [Column],
    template: &mut Template,
    row: Ref<'_>,
    rep: u8,
    leaves: &mut [Leaf],
    appending: &mut Appending,
) -> Taken {
    if let Some(union) = &mut template.union {
        return append_union(fields, union, row, rep, leaves, appending);
    }
    match row.dict() {
        Some(dict) => append_dict(fields, template, dict, rep, leaves, appending),
        None => append_object(fields, template, row, rep, leaves, appending),
    }
}

#[inline(always)]
fn append_dict(
    fields: &mut [Column],
    template: &mut Template,
    dict: Dict<'_>,
    rep: u8,
    leaves: &mut [Leaf],
    appending: &mut Appending,
) -> Taken {
    if dict.len() != fields.len() {
        return Err(NotTaken); // a default may be missing
    }
    match dict.entries() {
        Some(Entries::Plain(items)) => {
            append_items(fields, template, items.iter().copied(), rep, leaves, appending)
        }
        Some(Entries::Hashed(items)) => {
            let items = items.iter().map(|hashed| hashed.item);
            append_items(fields, template, items, rep, leaves, appending)
        }
        None => append_items(fields, template, dict.iter(), rep, leaves, appending),
    }
}

/// Append a dict's values to the columns of its fields, but not that of one key.
pub fn append_without(
    fields: &mut [Column],
    template: &mut Template,
    row: Ref<'_>,
    key: Ref<'_>,
    rep: u8,
    leaves: &mut [Leaf],
    appending: &mut Appending,
) -> Taken {
    let dict = row.dict().ok_or(NotTaken)?;
    if dict.len() != fields.len() + 1 {
        return Err(NotTaken); // a default may be missing
    }
    let items = dict.iter().filter(|item| item.key != key);
    append_items(fields, template, items, rep, leaves, appending)
}

/// `items` are as many as the fields.
#[inline(never)]
fn append_items<'a>(
    fields: &mut [Column],
    template: &mut Template,
    items: impl Iterator<Item = Item<'a>> + Clone,
    rep: u8,
    leaves: &mut [Leaf],
    appending: &mut Appending,
) -> Taken {
    let are_known = items.clone().zip(&template.order().keys).all(|(item, key)| {
        py::prefetch(item.value); // they lie all over the heap
        key.is(item.key)
    });
    if !are_known {
        template.find(items.clone(), &mut appending.scratch).ok_or(NotTaken)?;
    }
    for (item, key) in items.zip(&template.order().keys) {
        fields[key.column].append(item.value, rep, leaves, appending)?;
    }
    Ok(())
}

#[inline(never)]
fn append_object(
    fields: &mut [Column],
    template: &mut Template,
    row: Ref<'_>,
    rep: u8,
    leaves: &mut [Leaf],
    appending: &mut Appending,
) -> Taken {
    let layout = template.layout(row).ok_or(NotTaken)?;
    match layout.look(row).ok_or(NotTaken)? {
        Fields::Attributes(dict) => append_dict(fields, template, dict, rep, leaves, appending),
        Fields::Slots(slots) => append_values(fields, || slots.iter(), rep, leaves, appending),
        Fields::Items(items) => append_values(fields, || items.iter(), rep, leaves, appending),
    }
}

#[inline(always)]
fn append_values<'v, I: Iterator<Item = Option<Ref<'v>>>>(
    fields: &mut [Column],
    values: impl Fn() -> I,
    rep: u8,
    leaves: &mut [Leaf],
    appending: &mut Appending,
) -> Taken {
    values().flatten().for_each(py::prefetch); // they lie all over the heap
    for (field, value) in fields.iter_mut().zip(values()) {
        field.append(value.ok_or(NotTaken)?, rep, leaves, appending)?;
    }
    Ok(())
}

/// Append values in the order of the columns.
pub fn append_tuple(
    fields: &mut [Column],
    row: Ref<'_>,
    rep: u8,
    leaves: &mut [Leaf],
    appending: &mut Appending,
) -> Taken {
    let values = row.items().ok_or(NotTaken)?;
    if values.len() != fields.len() {
        return Err(NotTaken);
    }
    for (field, &value) in fields.iter_mut().zip(values) {
        field.append(value, rep, leaves, appending)?;
    }
    Ok(())
}
