//! Columns of byte strings, of any length or of one.

use super::column::{Bounds, Choice, Column, DICTIONARIES, Order};
use super::dictionary::{self, Scratch};
use crate::parquet::delta::{self, Widths};
use crate::parquet::format::{Encoding, PhysicalType};
use crate::values::strings::Strings;

/// Longer values are cut in statistics, which hold the least and the greatest one.
const LONGEST_BOUND: usize = 64;

/// Byte strings from one place in a leaf to another.
#[derive(Clone, Copy)]
pub struct ByteStrings<'a> {
    strings: &'a Strings,
    from: usize,
    to: usize,
}

impl<'a> ByteStrings<'a> {
    pub fn new(strings: &'a Strings) -> Self {
        Self { strings, from: 0, to: strings.len() }
    }

    fn iter(self) -> impl Iterator<Item = &'a [u8]> + Clone {
        (self.from..self.to).map(move |i| self.strings.get(i))
    }
}

impl<'a> Column for ByteStrings<'a> {
    type Value = &'a [u8];

    const CANDIDATES: &'static [Choice] = &[
        DICTIONARIES[0],
        DICTIONARIES[1],
        Choice::new(Encoding::DeltaLengthByteArray, Widths::Bits),
        Choice::new(Encoding::DeltaLengthByteArray, Widths::Bytes),
        Choice::new(Encoding::DeltaByteArray, Widths::Bits),
        Choice::new(Encoding::DeltaByteArray, Widths::Bytes),
    ];

    fn physical_type(self) -> PhysicalType {
        PhysicalType::ByteArray
    }

    fn len(self) -> usize {
        self.to - self.from
    }

    fn slice(self, from: usize, to: usize) -> Self {
        Self { from: self.from + from, to: self.from + to, ..self }
    }

    fn plain_size(self) -> usize {
        match self.strings.stretch(self.from, self.to) {
            Some(bytes) => 4 * self.len() + bytes.len(),
            None => self.iter().map(|value| 4 + value.len()).sum(),
        }
    }

    fn least_plain_size(self) -> usize {
        4 * self.len()
    }

    fn put_all(self, values: &[&'a [u8]], out: &mut Vec<u8>) {
        values.iter().for_each(|value| put(value, out));
    }

    fn encode(self, choice: Choice, scratch: &mut Scratch, out: &mut Vec<u8>) -> Encoding {
        let lengths = &mut scratch.lengths;
        match choice.encoding {
            Encoding::DeltaLengthByteArray => {
                delta::put_lengths(self.iter(), choice.widths, lengths, out);
                match self.strings.stretch(self.from, self.to) {
                    Some(bytes) => out.extend_from_slice(bytes),
                    None => self.iter().for_each(|value| out.extend_from_slice(value)),
                }
            }
            Encoding::DeltaByteArray => {
                delta::put_suffixes(self.iter(), choice.widths, lengths, out);
            }
            _ => {
                self.iter().for_each(|value| put(value, out));
                return Encoding::Plain;
            }
        }
        choice.encoding
    }

    fn dictionary(self, most: usize, scratch: &mut Scratch) -> Option<Vec<&'a [u8]>> {
        let Some(indices) = self.strings.indices() else {
            return dictionary::of_bytes(self.iter(), most, scratch);
        };
        dictionary::of_stored(&indices[self.from..self.to], self.strings, most, scratch)
    }

    fn bounds(self, order: Order) -> Option<Bounds> {
        extremes(self.iter(), order)
    }

    fn bounds_of(self, values: &[&'a [u8]], order: Order) -> Option<Bounds> {
        extremes(values.iter().copied(), order)
    }
}

fn put(value: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&(value.len() as u32).to_le_bytes());
    out.extend_from_slice(value);
}

fn extremes<'a>(mut values: impl Iterator<Item = &'a [u8]>, order: Order) -> Option<Bounds> {
    if order != Order::Bytes && order != Order::Text {
        return None;
    }
    let first = values.next()?;
    let (mut min, mut max) = (first, first);
    // Mostly the first bytes tell.
    let (mut min_start, mut max_start) = (start(first), start(first));
    for value in values {
        let this = start(value);
        if this <= min_start && value < min {
            (min, min_start) = (value, this);
        } else if this >= max_start && value > max {
            (max, max_start) = (value, this);
        }
    }
    let (min_start, max_start) = (cut(min, order), cut(max, order));
    let max_is_exact = max_start.len() == max.len();
    let above = if max_is_exact { Some(max.to_vec()) } else { next(max_start, order) };
    Some(Bounds {
        max: above?,
        min: min_start.to_vec(),
        min_is_exact: min_start.len() == min.len(),
        max_is_exact,
    })
}

/// The start of a value that is too long for statistics: of a text, whole characters.
fn cut(value: &[u8], order: Order) -> &[u8] {
    if value.len() <= LONGEST_BOUND {
        return value;
    }
    let mut end = LONGEST_BOUND;
    while order == Order::Text && end > 0 && value[end] & 0xC0 == 0x80 {
        end -= 1;
    }
    &value[..end]
}

/// The least value, of no more characters or bytes, that is above all that begin with `start`.
fn next(start: &[u8], order: Order) -> Option<Vec<u8>> {
    if order == Order::Bytes {
        let last = start.iter().rposition(|&byte| byte < u8::MAX)?;
        return Some([&start[..last], &[start[last] + 1]].concat());
    }
    let text = std::str::from_utf8(start).ok()?;
    let (at, last) = text.char_indices().rfind(|&(_, character)| character < char::MAX)?;
    // No surrogate is a character.
    let after = (last as u32 + 1..).find_map(char::from_u32)?;
    Some(format!("{}{after}", &text[..at]).into_bytes())
}

/// The first eight bytes, which compare as the values do unless they are equal.
fn start(value: &[u8]) -> u64 {
    match value.first_chunk::<8>() {
        Some(first) => u64::from_be_bytes(*first),
        None => (0..8).fold(0, |all, i| all << 8 | u64::from(value.get(i).copied().unwrap_or(0))),
    }
}

/// The first sixteen bytes, which compare as the values do unless they are equal.
pub fn long_start(value: &[u8]) -> u128 {
    let rest = value.get(8..).map_or(0, start);
    u128::from(start(value)) << 64 | u128::from(rest)
}

/// Byte strings of one length.
#[derive(Clone, Copy)]
pub struct FixedBytes<'a> {
    width: usize,
    bytes: &'a [u8],
}

impl<'a> FixedBytes<'a> {
    pub fn new(width: usize, bytes: &'a [u8]) -> Self {
        Self { width: width.max(1), bytes }
    }
}

impl<'a> Column for FixedBytes<'a> {
    type Value = &'a [u8];

    const CANDIDATES: &'static [Choice] = &DICTIONARIES;

    fn physical_type(self) -> PhysicalType {
        PhysicalType::FixedLenByteArray
    }

    fn len(self) -> usize {
        self.bytes.len() / self.width
    }

    fn slice(self, from: usize, to: usize) -> Self {
        Self { bytes: &self.bytes[self.width * from..self.width * to], ..self }
    }

    fn plain_size(self) -> usize {
        self.bytes.len()
    }

    fn put_all(self, values: &[&'a [u8]], out: &mut Vec<u8>) {
        values.iter().for_each(|value| out.extend_from_slice(value));
    }

    fn encode(self, _: Choice, _: &mut Scratch, out: &mut Vec<u8>) -> Encoding {
        out.extend_from_slice(self.bytes);
        Encoding::Plain
    }

    fn dictionary(self, most: usize, scratch: &mut Scratch) -> Option<Vec<&'a [u8]>> {
        dictionary::of_bytes(self.bytes.chunks_exact(self.width), most, scratch)
    }

    fn bounds(self, order: Order) -> Option<Bounds> {
        match order {
            Order::Bytes | Order::Text => extremes(self.bytes.chunks_exact(self.width), order),
            Order::Signed => signed_extremes(self.bytes.chunks_exact(self.width)),
            Order::Unsigned | Order::Float | Order::Undefined => None,
        }
    }

    fn bounds_of(self, values: &[&'a [u8]], order: Order) -> Option<Bounds> {
        match order {
            Order::Bytes | Order::Text => extremes(values.iter().copied(), order),
            Order::Signed => signed_extremes(values.iter().copied()),
            Order::Unsigned | Order::Float | Order::Undefined => None,
        }
    }
}

/// The bounds of big-endian numbers.
fn signed_extremes<'a>(values: impl Iterator<Item = &'a [u8]> + Clone) -> Option<Bounds> {
    let key = |value: &&'a [u8]| value.split_first().map(|(&first, rest)| (first as i8, rest));
    let (min, max) = (values.clone().min_by_key(key)?, values.max_by_key(key)?);
    Some(Bounds::exact(min.to_vec(), max.to_vec()))
}

/// One byte string in each row.
#[derive(Clone, Copy)]
pub struct Constant<'a> {
    value: &'a [u8],
    rows: usize,
}

impl<'a> Constant<'a> {
    pub fn new(value: &'a [u8], rows: usize) -> Self {
        Self { value, rows }
    }
}

impl<'a> Column for Constant<'a> {
    type Value = &'a [u8];

    const CANDIDATES: &'static [Choice] = &[];

    fn physical_type(self) -> PhysicalType {
        PhysicalType::ByteArray
    }

    fn len(self) -> usize {
        self.rows
    }

    fn slice(self, from: usize, to: usize) -> Self {
        Self { rows: to - from, ..self }
    }

    fn plain_size(self) -> usize {
        self.rows * (4 + self.value.len())
    }

    fn put_all(self, values: &[&'a [u8]], out: &mut Vec<u8>) {
        values.iter().for_each(|value| put(value, out));
    }

    fn encode(self, _: Choice, _: &mut Scratch, out: &mut Vec<u8>) -> Encoding {
        (0..self.rows).for_each(|_| put(self.value, out));
        Encoding::Plain
    }

    fn dictionary(self, most: usize, scratch: &mut Scratch) -> Option<Vec<&'a [u8]>> {
        scratch.indices.set(1, std::iter::repeat_n(0, self.rows));
        (self.rows > 0 && most > 0).then(|| vec![self.value])
    }

    fn bounds(self, order: Order) -> Option<Bounds> {
        let values = [self.value];
        self.bounds_of(&values[..self.rows.min(1)], order)
    }

    fn bounds_of(self, values: &[&'a [u8]], order: Order) -> Option<Bounds> {
        extremes(values.iter().copied(), order)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds(values: &[&[u8]]) -> Option<(Vec<u8>, Vec<u8>)> {
        extremes(values.iter().copied(), Order::Bytes).map(|bounds| (bounds.min, bounds.max))
    }

    #[test]
    fn byte_strings_compare_as_unsigned_bytes() {
        let (ascii, latin, empty) = (&b"z"[..], &b"\xc3\xa4"[..], &b""[..]);
        assert_eq!(bounds(&[latin, ascii]), Some((ascii.into(), latin.into())));
        assert_eq!(bounds(&[ascii, empty]), Some((empty.into(), ascii.into())));
        assert_eq!(bounds(&[b"\0", empty]), Some((empty.into(), b"\0".into())));
        assert_eq!(bounds(&[b"\0", empty, b"\0\0"]), Some((empty.into(), b"\0\0".into())));
        assert_eq!(
            bounds(&[b"12345678b", b"12345678", b"12345678a"]),
            Some((b"12345678".into(), b"12345678b".into()))
        );
        assert_eq!(bounds(&[]), None);
    }

    #[test]
    fn numbers_of_a_fixed_width_compare_by_their_sign_first() {
        let bytes = [0, 1, 0xFF, 0xFF, 0x7F, 0xFF, 0xFF, 0xFE];
        let bounds = FixedBytes::new(2, &bytes).bounds(Order::Signed).unwrap();
        assert_eq!((bounds.min, bounds.max), (vec![0xFF, 0xFE], vec![0x7F, 0xFF]));
    }

    #[test]
    fn long_bounds_are_cut_and_the_greatest_is_rounded_up() {
        let (long, cut) = (vec![b'b'; 65], vec![b'b'; 64]);
        let above = [&cut[..63], b"c"].concat();
        assert_eq!(bounds(&[&cut, b"a"]), Some((b"a".into(), cut.clone())));
        assert_eq!(bounds(&[b"a", &long, b"c"]), Some((b"a".into(), b"c".into())));
        assert_eq!(bounds(&[&long]), Some((cut, above)));
        assert_eq!(bounds(&[&[&[7], &[0xFF; 64][..]].concat()]).unwrap().1, [8]);
        assert_eq!(bounds(&[&[0xFF; 65]]), None);
        let long_bounds = extremes([&long[..], b"c"].into_iter(), Order::Bytes).unwrap();
        assert_eq!((long_bounds.min_is_exact, long_bounds.max_is_exact), (false, true));
    }

    #[test]
    fn texts_are_cut_between_characters() {
        let of = |text: String| {
            let bounds = extremes([text.as_bytes()].into_iter(), Order::Text)?;
            Some([bounds.min, bounds.max].map(|bound| String::from_utf8(bound).unwrap()))
        };
        let (a, most) = ("a".repeat(63), char::MAX.to_string());
        assert_eq!(of(format!("{a}ü")), Some([a.clone(), format!("{}b", &a[1..])]));
        assert_eq!(
            of(format!("{}\u{D7FF}b", &a[..61])).unwrap()[1],
            format!("{}\u{E000}", &a[..61])
        );
        assert_eq!(of(format!("b{}", most.repeat(16))).unwrap()[1], "c");
        assert_eq!(of(most.repeat(17)), None);
    }
}
