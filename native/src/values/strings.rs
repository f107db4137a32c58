//! Strings of one column: while it pays, each distinct one is stored once, and rows hold its index.

use crate::python::lookup::Lookup;
use crate::python::text::Text;
use crate::values::size::Size;

/// A dictionary pays while it has at most half as many entries as rows; asked after so many.
const FIRST_LOOK: usize = 2_048;
const MAX_HEAP: usize = i32::MAX as usize;

/// Values of one column: texts as UTF-8, or bytes. What is touched by each value comes first.
#[derive(Default)]
#[repr(C)]
pub struct Strings {
    /// Each value's index in `ends`; None when `ends` has one entry for each value.
    indices: Option<Vec<u32>>,
    next_look: usize,
    /// Needed while the column grows.
    lookup: Option<Box<Lookup>>,
    heap: Vec<u8>,
    ends: Vec<u32>,
}

impl Strings {
    pub fn new(dictionary: bool) -> Self {
        Self { indices: dictionary.then(Vec::new), next_look: FIRST_LOOK, ..Self::default() }
    }

    /// Remove everything, and keep the memory. `lookup` was cleared, if there was one.
    pub fn begin(&mut self, dictionary: bool, lookup: Option<Box<Lookup>>) {
        self.heap.clear();
        self.ends.clear();
        self.indices = dictionary.then(|| {
            let mut indices = self.indices.take().unwrap_or_default();
            indices.clear();
            indices
        });
        self.lookup = lookup;
        self.next_look = FIRST_LOOK;
    }

    /// Strings read elsewhere: `ends[i]` is where the i-th ends in `heap`.
    pub fn from_parts(heap: Vec<u8>, ends: Vec<u32>, indices: Option<Vec<u32>>) -> Self {
        Self { heap, ends, indices, ..Self::default() }
    }

    /// What `from_parts` takes.
    pub fn into_parts(self) -> (Vec<u8>, Vec<u32>, Option<Vec<u32>>) {
        (self.heap, self.ends, self.indices)
    }

    /// How many values there are.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.indices.as_ref().map_or(self.ends.len(), Vec::len)
    }

    /// The indices of the values among the `distinct` ones, if there is a dictionary.
    pub fn indices(&self) -> Option<&[u32]> {
        self.indices.as_deref()
    }

    /// How many strings are stored: the distinct ones, or all.
    pub fn distinct(&self) -> usize {
        self.ends.len()
    }

    /// A stored string.
    #[inline(always)]
    pub fn stored(&self, index: usize) -> &[u8] {
        stored(&self.heap, &self.ends, index)
    }

    /// Where the string of one value begins and ends in the heap.
    #[inline(always)]
    pub fn place(&self, value: usize) -> (usize, usize) {
        let index = self.indices.as_ref().map_or(value, |indices| indices[value] as usize);
        let start = if index == 0 { 0 } else { self.ends[index - 1] as usize };
        (start, self.ends[index] as usize)
    }

    /// The string of one value.
    #[inline(always)]
    pub fn get(&self, value: usize) -> &[u8] {
        self.stored(self.indices.as_ref().map_or(value, |indices| indices[value] as usize))
    }

    /// The bytes of the values from one to another, if every value is stored.
    pub fn stretch(&self, from: usize, to: usize) -> Option<&[u8]> {
        let start = |value: usize| if value == 0 { 0 } else { self.ends[value - 1] as usize };
        self.indices.is_none().then(|| &self.heap[start(from)..start(to)])
    }

    /// The bytes of all strings that are stored.
    pub fn stored_bytes(&self) -> usize {
        self.heap.len()
    }

    /// All strings that are stored, one after the other.
    pub fn heap(&self) -> &[u8] {
        &self.heap
    }

    /// What all this takes in memory.
    pub fn nbytes(&self) -> usize {
        let indices = self.indices.as_ref().map_or(0, Vec::len);
        let lookup = self.lookup.as_ref().map_or(0, |lookup| lookup.nbytes());
        self.heap.len() + 4 * (self.ends.len() + indices) + lookup
    }

    /// The memory that the strings have, however much is used.
    pub fn capacity(&self) -> usize {
        let indices = self.indices.as_ref().map_or(0, Vec::capacity);
        self.heap.capacity() + 4 * (self.ends.capacity() + indices)
    }

    /// Append a text; returns what it takes besides its place, or None if it is no UTF-8 or not
    /// `allowed`.
    #[inline(always)]
    pub fn push_text(
        &mut self,
        text: Text<'_>,
        scratch: &mut Vec<u8>,
        allowed: impl Fn(&[u8]) -> bool,
    ) -> Option<Size> {
        let Some(indices) = &mut self.indices else {
            return self.push_stored(text.utf8(scratch)?, allowed);
        };
        let object = text.object();
        // Otherwise nobody else has this object, so it does not come again.
        let is_shared = object.is_shared();
        if is_shared
            && let Some(index) = self.lookup.as_ref().and_then(|lookup| lookup.known(object))
        {
            indices.push(index);
            let decoded = stored(&self.heap, &self.ends, index as usize).len();
            return Some(Size { nbytes: 0, decoded });
        }
        let bytes = text.utf8(scratch)?;
        let (index, nbytes) = self.intern(bytes, allowed)?;
        if is_shared && let Some(lookup) = &mut self.lookup {
            lookup.know(object, index);
        }
        self.push_index(index);
        Some(Size { nbytes, decoded: bytes.len() })
    }

    /// Append bytes; returns what they take besides their place, or None if there is no room.
    #[inline(always)]
    pub fn push_bytes(&mut self, bytes: &[u8]) -> Option<Size> {
        if self.indices.is_none() {
            return self.push_stored(bytes, |_| true);
        }
        let (index, nbytes) = self.intern(bytes, |_| true)?;
        self.push_index(index);
        Some(Size { nbytes, decoded: bytes.len() })
    }

    /// Append the values of another column; return whether there was room.
    pub fn extend(&mut self, other: &Self) -> bool {
        (0..other.len()).all(|value| self.push_bytes(other.get(value)).is_some())
    }

    #[inline(always)]
    fn push_stored(&mut self, bytes: &[u8], allowed: impl Fn(&[u8]) -> bool) -> Option<Size> {
        if self.heap.len() + bytes.len() > MAX_HEAP || !allowed(bytes) {
            return None;
        }
        self.heap.extend_from_slice(bytes);
        self.ends.push(self.heap.len() as u32);
        Some(Size { nbytes: bytes.len(), decoded: bytes.len() })
    }

    #[inline(always)]
    fn push_index(&mut self, index: u32) {
        let Some(indices) = &mut self.indices else { unreachable!("there is a dictionary") };
        indices.push(index);
        if indices.len() >= self.next_look {
            self.look();
        }
    }

    /// Give the dictionary up where it does not pay.
    #[cold]
    fn look(&mut self) {
        self.next_look *= 2;
        if self.pays() {
            return;
        }
        let mut plain = Self::new(false);
        plain.heap.reserve(2 * self.heap.len());
        plain.ends.reserve(2 * self.len());
        for value in 0..self.len() {
            if plain.push_stored(self.get(value), |_| true).is_none() {
                return; // as a dictionary they fit
            }
        }
        *self = plain;
    }

    /// Whether a dictionary has at most half as many entries as there are values. Others are found
    /// more cheaply when the column is encoded.
    fn pays(&self) -> bool {
        2 * self.distinct() <= self.len()
    }

    /// Find a string's index, or store it; returns the index and the bytes that are new.
    #[inline(always)]
    fn intern(&mut self, bytes: &[u8], allowed: impl Fn(&[u8]) -> bool) -> Option<(u32, usize)> {
        let hash = (hash(bytes) >> 32) as u32;
        let lookup = self.lookup.get_or_insert_default();
        let (heap, ends) = (&self.heap, &self.ends);
        match lookup.find(hash, |index| is_equal(stored(heap, ends, index as usize), bytes)) {
            Ok(index) => Some((index, 0)),
            Err(slot) => {
                let index = self.ends.len() as u32;
                self.push_stored(bytes, allowed)?;
                self.lookup.as_mut()?.insert(slot, hash, index);
                Some((index, bytes.len() + 28)) // its end, and about three slots
            }
        }
    }

    /// Remove all but the first `len` values, and the strings that no other value has.
    pub fn truncate(&mut self, len: usize) {
        let stored = match (&mut self.indices, &mut self.lookup) {
            (Some(indices), Some(lookup)) => {
                let last = (self.ends.len() as u32).wrapping_sub(1);
                // Mostly it is one that many rows have.
                let is_used = |indices: &[u32]| indices.iter().rev().any(|&index| index == last);
                let is_new = is_used(&indices[len..]) && !is_used(&indices[..len]);
                indices.truncate(len);
                if !is_new {
                    return;
                }
                // Strings are stored in the order in which values first have them.
                let stored = indices.iter().max().map_or(0, |&most| most as usize + 1);
                for index in stored..self.ends.len() {
                    let hash = (hash(self::stored(&self.heap, &self.ends, index)) >> 32) as u32;
                    lookup.remove(hash, index as u32);
                }
                lookup.forget_objects(stored as u32);
                stored
            }
            // There is no string yet.
            (Some(indices), None) => {
                indices.truncate(len);
                0
            }
            // What an earlier batch has looked up is not looked up here.
            (None, _) => len,
        };
        self.ends.truncate(stored);
        self.heap.truncate(self.ends.last().map_or(0, |&end| end as usize));
    }

    /// Give away what only appending needs, and say whether the dictionary has paid.
    pub fn finish(&mut self) -> (bool, Option<Box<Lookup>>) {
        (self.indices.is_some() && self.pays(), self.lookup.take())
    }
}

#[inline(always)]
fn stored<'h>(heap: &'h [u8], ends: &[u32], index: usize) -> &'h [u8] {
    let start = if index == 0 { 0 } else { ends[index - 1] as usize };
    &heap[start..ends[index] as usize]
}

/// Mostly strings are short, and compared without a call.
#[inline(always)]
pub fn is_equal(a: &[u8], b: &[u8]) -> bool {
    let len = a.len();
    if len != b.len() {
        return false;
    }
    match len {
        8..=16 => word(&a[..8]) == word(&b[..8]) && word(&a[len - 8..]) == word(&b[len - 8..]),
        4..=7 => half(&a[..4]) == half(&b[..4]) && half(&a[len - 4..]) == half(&b[len - 4..]),
        _ => a == b,
    }
}

/// A hash that is as good as its speed demands. It is seeded by chance once a process, so that
/// nobody can choose strings that collide.
#[inline(always)]
pub fn hash(bytes: &[u8]) -> u64 {
    const A: u64 = 0xA076_1D64_78BD_642F;
    const B: u64 = 0xE703_7ED1_A0B4_28DB;
    const C: u64 = 0x8EBC_6AF0_9C88_C6E3;
    let len = bytes.len();
    let mut state = *SEED ^ (len as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    if len >= 8 {
        let mut rest = bytes;
        while let Some((head, tail)) = rest.split_first_chunk::<16>() {
            let (low, high) = (word(&head[..8]), word(&head[8..]));
            state = fold(low ^ state, high ^ A);
            rest = tail;
        }
        if rest.len() >= 8 {
            state = fold(word(&rest[..8]) ^ state, B);
        }
        fold(state ^ word(&bytes[len - 8..]), C)
    } else if len >= 4 {
        let (low, high) = (half(&bytes[..4]), half(&bytes[len - 4..]));
        fold(state ^ (low << 32 | high), C)
    } else if len > 0 {
        let (first, middle, last) = (bytes[0], bytes[len / 2], bytes[len - 1]);
        fold(state ^ (u64::from(first) << 16 | u64::from(middle) << 8 | u64::from(last)), C)
    } else {
        fold(state, C)
    }
}

/// A string of at most 16 bytes, to be compared without a look at memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ShortText {
    len: usize,
    head: u64,
    tail: u64,
}

impl ShortText {
    #[inline(always)]
    pub fn of(bytes: &[u8]) -> Option<Self> {
        let len = bytes.len();
        let (head, tail) = match len {
            8..=16 => (word(&bytes[..8]), word(&bytes[len - 8..])),
            4..=7 => (half(&bytes[..4]), half(&bytes[len - 4..])),
            1..=3 => {
                (u64::from(bytes[0]), u64::from(bytes[len / 2]) << 8 | u64::from(bytes[len - 1]))
            }
            0 => (0, 0),
            _ => return None,
        };
        Some(Self { len, head, tail })
    }

    /// Whether the string is this one.
    #[inline(always)]
    pub fn is(self, bytes: &[u8]) -> bool {
        self.len == bytes.len() && Self::of(bytes) == Some(self)
    }
}

static SEED: std::sync::LazyLock<u64> = std::sync::LazyLock::new(|| {
    use std::hash::{BuildHasher, Hasher, RandomState};
    RandomState::new().build_hasher().finish() | 1
});

#[inline(always)]
pub fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

#[inline(always)]
fn word(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().expect("8 bytes"))
}

#[inline(always)]
fn half(bytes: &[u8]) -> u64 {
    u64::from(u32::from_le_bytes(bytes.try_into().expect("4 bytes")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_removed_where_an_earlier_batch_had_a_dictionary() {
        let mut strings = Strings::new(true);
        strings.push_bytes(b"earlier").unwrap();
        let (_, mut lookup) = strings.finish();
        lookup.as_mut().unwrap().clear();
        strings.begin(false, lookup);
        for text in [b"a", b"b", b"c"] {
            strings.push_bytes(text).unwrap();
        }
        strings.truncate(1);
        assert_eq!((strings.len(), strings.get(0)), (1, &b"a"[..]));
    }

    #[test]
    fn a_dictionary_that_does_not_pay_is_given_up_whichever_value_is_in_the_way() {
        let mut strings = Strings::new(true);
        for n in 0..2 * FIRST_LOOK {
            strings.push_bytes(format!("text {n}").as_bytes()).unwrap();
            if n == FIRST_LOOK - 2 {
                // As `push_text` does with an object that it knows.
                strings.indices.as_mut().unwrap().push(0);
            }
        }
        assert!(strings.indices.is_none());
    }

    #[test]
    fn a_string_that_only_removed_values_had_is_stored_no_more() {
        let mut strings = Strings::new(true);
        let text = |n: usize| format!("text {n}").into_bytes();
        for n in 0..100 {
            strings.push_bytes(&text(n % 50)).unwrap();
        }
        let stored = strings.stored_bytes();
        for n in 0..500 {
            strings.push_bytes(&text(n)).unwrap(); // the table grows
        }
        strings.truncate(100);
        assert_eq!((strings.len(), strings.distinct(), strings.stored_bytes()), (100, 50, stored));
        for n in 0..200 {
            let is_new = n >= 50;
            assert_eq!(strings.push_bytes(&text(n)).unwrap().nbytes > 0, is_new, "{n}");
            assert_eq!(strings.get(100 + n), text(n));
        }
    }
}
