//! Rows, and records in rows, to the columns of their fields.

use crate::columns::{Appending, Column, NotTaken, Taken};
use crate::layout::{Fields, Layout, Version};
use crate::py::{self, Dict, Item, Owned, Ref};
use crate::strings::ShortText;

/// So many keys ahead are fetched from memory.
const AHEAD: usize = 8;
/// More classes are not known at once; what is forgotten is learned again.
const MAX_CLASSES: usize = 16;

/// The fields of a record. The keys of dicts are known again by their objects: most rows have the
/// same ones in the same order.
pub struct Template {
    names: Vec<Box<str>>,
    /// The keys of the last rows, in their order, and the columns that they name.
    keys: Vec<Key>,
    /// Of the classes whose objects were records here; None: not as these columns need it.
    classes: Vec<(Version, Option<Layout>)>,
}

struct Key {
    object: Option<Owned>,
    column: usize,
    name: Option<ShortText>,
}

impl Key {
    fn new(object: Option<Owned>, column: usize, name: &[u8]) -> Self {
        Self { object, column, name: ShortText::of(name) }
    }
}

impl Template {
    pub fn new<'n>(names: impl Iterator<Item = &'n str>) -> Self {
        let names: Vec<Box<str>> = names.map(Into::into).collect();
        let keys = names.iter().enumerate();
        let keys = keys.map(|(column, name)| Key::new(None, column, name.as_bytes())).collect();
        Self { names, keys, classes: Vec::new() }
    }

    /// The column of the value at a place of the dict that was checked last.
    #[inline(always)]
    pub fn column(&self, place: usize) -> usize {
        self.keys[place].column
    }

    /// Say whether a dict's keys are the names, of which it has as many.
    #[inline(always)]
    pub fn check<'a>(
        &mut self,
        items: impl Iterator<Item = Item<'a>> + Clone,
        scratch: &mut Vec<u8>,
    ) -> bool {
        for (place, item) in items.clone().enumerate() {
            let known = self.keys[place].object.as_ref().map(Owned::as_ptr);
            if known != Some(item.key.as_ptr()) {
                return self.check_others(items, place, scratch);
            }
            py::prefetch(item.value); // they lie all over the heap
        }
        true
    }

    /// Check the keys from a place on, which are other objects: `json.loads` makes new ones for each
    /// row.
    #[inline(never)]
    fn check_others<'a>(
        &mut self,
        items: impl Iterator<Item = Item<'a>> + Clone,
        from: usize,
        scratch: &mut Vec<u8>,
    ) -> bool {
        let mut ahead = items.clone().skip(from + AHEAD);
        for (place, item) in items.clone().enumerate().skip(from) {
            if let Some(next) = ahead.next() {
                py::prefetch(next.key);
            }
            if !self.is_same(place, item.key, scratch) {
                return self.learn(items, scratch);
            }
            py::prefetch(item.value);
        }
        true
    }

    /// Whether a key has the name that is at its place.
    #[inline(always)]
    fn is_same(&mut self, place: usize, key: Ref<'_>, scratch: &mut Vec<u8>) -> bool {
        let known = &mut self.keys[place];
        if known.object.as_ref().map(Owned::as_ptr) == Some(key.as_ptr()) {
            return true;
        }
        let Some(utf8) = key.text().and_then(|text| text.utf8(scratch)) else { return false };
        let same = match ShortText::of(utf8) {
            Some(short) => known.name == Some(short),
            None => *utf8 == *self.names[known.column].as_bytes(),
        };
        if same && key.is_shared() {
            known.object = Some(key.to_owned());
        }
        same
    }

    /// Learn the order of a dict's keys, if they are the names.
    #[cold]
    fn learn<'a>(&mut self, items: impl Iterator<Item = Item<'a>>, scratch: &mut Vec<u8>) -> bool {
        let mut learned = Vec::with_capacity(self.names.len());
        for Item { key, .. } in items {
            let Some(utf8) = key.text().and_then(|text| text.utf8(scratch)) else {
                return false;
            };
            let Some(column) = self.names.iter().position(|name| name.as_bytes() == utf8) else {
                return false;
            };
            learned.push(Key::new(Some(key.to_owned()), column, utf8));
        }
        self.keys = learned;
        true
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
    appending: &mut Appending,
) -> Taken {
    match row.dict() {
        Some(dict) => append_dict(fields, template, dict, rep, appending),
        None => append_object(fields, template, row, rep, appending),
    }
}

#[inline(always)]
fn append_dict(
    fields: &mut [Column],
    template: &mut Template,
    dict: Dict<'_>,
    rep: u8,
    appending: &mut Appending,
) -> Taken {
    if dict.len() != fields.len() {
        return Err(NotTaken); // a default may be missing
    }
    match dict.entries() {
        Some(entries) => append_items(fields, template, entries, rep, appending),
        None => append_items(fields, template, dict.iter(), rep, appending),
    }
}

#[inline(always)]
fn append_items<'a>(
    fields: &mut [Column],
    template: &mut Template,
    items: impl Iterator<Item = Item<'a>> + Clone,
    rep: u8,
    appending: &mut Appending,
) -> Taken {
    if !template.check(items.clone(), &mut appending.scratch) {
        return Err(NotTaken);
    }
    for (place, item) in items.enumerate() {
        fields[template.column(place)].append(item.value, rep, appending)?;
    }
    Ok(())
}

#[inline(never)]
fn append_object(
    fields: &mut [Column],
    template: &mut Template,
    row: Ref<'_>,
    rep: u8,
    appending: &mut Appending,
) -> Taken {
    let layout = template.layout(row).ok_or(NotTaken)?;
    match layout.look(row).ok_or(NotTaken)? {
        Fields::Attributes(dict) => append_dict(fields, template, dict, rep, appending),
        Fields::Slots(slots) => append_values(fields, || slots.iter(), rep, appending),
        Fields::Items(items) => append_values(fields, || items.iter(), rep, appending),
    }
}

#[inline(always)]
fn append_values<'v, I: Iterator<Item = Option<Ref<'v>>>>(
    fields: &mut [Column],
    values: impl Fn() -> I,
    rep: u8,
    appending: &mut Appending,
) -> Taken {
    values().flatten().for_each(py::prefetch); // they lie all over the heap
    for (field, value) in fields.iter_mut().zip(values()) {
        field.append(value.ok_or(NotTaken)?, rep, appending)?;
    }
    Ok(())
}

/// Append values in the order of the columns.
pub fn append_tuple(
    fields: &mut [Column],
    row: Ref<'_>,
    rep: u8,
    appending: &mut Appending,
) -> Taken {
    let values = row.items().ok_or(NotTaken)?;
    if values.len() != fields.len() {
        return Err(NotTaken);
    }
    for (field, &value) in fields.iter_mut().zip(values) {
        field.append(value, rep, appending)?;
    }
    Ok(())
}
