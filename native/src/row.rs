//! Rows, and records in rows, to the columns of their fields.

use std::collections::HashMap;

use crate::columns::{Appending, Column, NotTaken, Taken};
use crate::dict_items::{Dict, Item};
use crate::layout::{Fields, Layout, Version};
use crate::leaf::Leaf;
use crate::py::{self, Owned, Ref};
use crate::strings::ShortText;

/// So many values ahead are fetched from memory.
const AHEAD: usize = 16;
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
    /// Of the classes whose objects were records here; None: not as these columns need it.
    classes: Vec<(Version, Option<Layout>)>,
}

/// The keys of a dict, in its order.
struct Order {
    keys: Vec<Key>,
    /// The same keys' names, where they are short.
    names: Vec<Option<ShortText>>,
}

struct Key {
    object: Option<Owned>,
    column: usize,
}

impl Key {
    #[inline(always)]
    fn is(&self, object: Ref<'_>) -> bool {
        self.object.as_ref().map(Owned::as_ptr) == Some(object.as_ptr())
    }
}

impl Order {
    fn new(keys: Vec<Key>, names: &[Box<str>]) -> Self {
        let names = keys.iter().map(|key| ShortText::of(names[key.column].as_bytes())).collect();
        Self { keys, names }
    }

    /// Whether a dict's keys from a place on are these, perhaps as other objects: `json.loads` makes
    /// new ones for each row.
    fn is_order_of<'a>(
        &mut self,
        items: impl Iterator<Item = Item<'a>> + Clone,
        from: usize,
        names: &[Box<str>],
        scratch: &mut Vec<u8>,
    ) -> bool {
        let mut ahead = items.clone().skip(from + AHEAD);
        for (place, item) in items.enumerate().skip(from) {
            if let Some(next) = ahead.next() {
                py::prefetch(next.key);
            }
            if !self.is_same(place, item.key, names, scratch) {
                return false;
            }
            py::prefetch(item.value);
        }
        true
    }

    /// Whether a key has the name that is at its place.
    #[inline(always)]
    fn is_same(
        &mut self,
        place: usize,
        key: Ref<'_>,
        names: &[Box<str>],
        scratch: &mut Vec<u8>,
    ) -> bool {
        let known = &mut self.keys[place];
        if known.is(key) {
            return true;
        }
        let Some(utf8) = key.text().and_then(|text| text.utf8(scratch)) else { return false };
        let same = match ShortText::of(utf8) {
            Some(short) => self.names[place] == Some(short),
            None => *utf8 == *names[known.column].as_bytes(),
        };
        if same && key.is_shared() {
            known.object = Some(key.to_owned());
        }
        same
    }
}

impl Template {
    pub fn new<'n>(names: impl Iterator<Item = &'n str>) -> Self {
        let names: Vec<Box<str>> = names.map(Into::into).collect();
        let columns = (0..).zip(&names).map(|(column, name)| (name.clone(), column)).collect();
        let keys = (0..names.len()).map(|column| Key { object: None, column }).collect();
        let orders = vec![Order::new(keys, &names)];
        Self { names, columns, orders, last: 0, classes: Vec::new() }
    }

    /// Find the order of a dict's keys, which are as in the last one before a place; None if they are
    /// not the names.
    #[inline(never)]
    fn find<'a>(
        &mut self,
        items: impl Iterator<Item = Item<'a>> + Clone,
        place: usize,
        scratch: &mut Vec<u8>,
    ) -> Option<()> {
        let last = self.last;
        if self.orders[last].is_order_of(items.clone(), place, &self.names, scratch) {
            return Some(());
        }
        for (index, order) in self.orders.iter_mut().enumerate().filter(|(i, _)| *i != last) {
            if order.is_order_of(items.clone(), 0, &self.names, scratch) {
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
            keys.push(Key { object: Some(key.to_owned()), column });
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

/// Append a record's values to the columns of its fields.
#[inline(always)]
pub fn append_record(
    fields: &mut [Column],
    template: &mut Template,
    row: Ref<'_>,
    rep: u8,
    leaves: &mut [Leaf],
    appending: &mut Appending,
) -> Taken {
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
        Some(entries) => append_items(fields, template, entries, rep, leaves, appending),
        None => append_items(fields, template, dict.iter(), rep, leaves, appending),
    }
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
    let mut ahead = items.clone();
    ahead.by_ref().take(AHEAD).for_each(|item| py::prefetch(item.value));
    let mut is_known = false;
    for (place, item) in items.clone().enumerate() {
        if let Some(next) = ahead.next() {
            py::prefetch(next.value); // they lie all over the heap
        }
        if !is_known && !template.order().keys[place].is(item.key) {
            template.find(items.clone(), place, &mut appending.scratch).ok_or(NotTaken)?;
            is_known = true;
        }
        let column = template.order().keys[place].column;
        fields[column].append(item.value, rep, leaves, appending)?;
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
