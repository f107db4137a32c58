//! The keys of dicts, known again by their objects: most rows have the same ones in the same order.

use crate::py::{self, Item, Owned, Ref};

pub struct Template {
    names: Vec<Box<str>>,
    /// The keys of the last rows, in their order, and the columns that they name.
    keys: Vec<(Option<Owned>, usize)>,
}

impl Template {
    pub fn new<'n>(names: impl Iterator<Item = &'n str>) -> Self {
        let names: Vec<Box<str>> = names.map(Into::into).collect();
        let keys = (0..names.len()).map(|column| (None, column)).collect();
        Self { names, keys }
    }

    /// The column of the value at a place of the dict that was checked last.
    #[inline(always)]
    pub fn column(&self, place: usize) -> usize {
        self.keys[place].1
    }

    /// Say whether a dict's keys are the names, of which it has as many.
    #[inline(always)]
    pub fn check<'a>(
        &mut self,
        items: impl Iterator<Item = Item<'a>> + Clone,
        scratch: &mut Vec<u8>,
    ) -> bool {
        for (place, item) in items.clone().enumerate() {
            let known = self.keys[place].0.as_ref().map(Owned::as_ptr);
            if known != Some(item.key.as_ptr()) && !self.is_same(place, item.key, scratch) {
                return self.learn(items, scratch);
            }
            py::prefetch(item.value); // they lie all over the heap
        }
        true
    }

    /// Whether a key has the name that is at its place, though it is another object: `json.loads`
    /// makes new keys for each row.
    #[inline(never)]
    fn is_same(&mut self, place: usize, key: Ref<'_>, scratch: &mut Vec<u8>) -> bool {
        let (known, column) = &mut self.keys[place];
        let same = key.text().is_some_and(|text| text.is(self.names[*column].as_bytes(), scratch));
        if same && key.is_shared() {
            *known = Some(key.to_owned());
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
            learned.push((Some(key.to_owned()), column));
        }
        self.keys = learned;
        true
    }
}
