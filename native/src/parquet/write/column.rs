//! What the writer needs of a leaf's values, whatever their type.

use super::dictionary::Scratch;
use crate::parquet::delta::Widths;
use crate::parquet::format::{Encoding, PhysicalType};

/// How a leaf's values compare, for its statistics.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    Signed,
    Unsigned,
    Float,
    Bytes,
    /// As bytes; and where a bound is cut, it stays text.
    Text,
    /// The type has no order, or readers differ on it.
    Undefined,
}

/// The least and the greatest of some values, as statistics have them; a long one is cut.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bounds {
    pub min: Vec<u8>,
    pub max: Vec<u8>,
    pub min_is_exact: bool,
    pub max_is_exact: bool,
}

impl Bounds {
    pub fn exact(min: Vec<u8>, max: Vec<u8>) -> Self {
        Self { min, max, min_is_exact: true, max_is_exact: true }
    }
}

/// How values are to be encoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Choice {
    pub encoding: Encoding,
    /// Widths of packed integers: indices into the dictionary, or differences.
    pub widths: Widths,
    /// Whether the compressor is to be tried.
    pub compresses: bool,
}

impl Choice {
    pub const PLAIN: Self = Self::new(Encoding::Plain, Widths::Bits);
    pub const DICTIONARY: Self = Self::new(Encoding::RleDictionary, Widths::Bits);

    pub const fn new(encoding: Encoding, widths: Widths) -> Self {
        Self { encoding, widths, compresses: true }
    }
}

/// Suit values of any type but booleans.
pub const DICTIONARIES: [Choice; 2] =
    [Choice::DICTIONARY, Choice::new(Encoding::RleDictionary, Widths::Bytes)];

/// Values of one physical type, without nulls.
pub trait Column: Copy {
    type Value: Copy;

    /// The choices besides `PLAIN` that may suit values of this type.
    const CANDIDATES: &'static [Choice];

    fn physical_type(self) -> PhysicalType;

    fn len(self) -> usize;

    /// The values from one place to another.
    fn slice(self, from: usize, to: usize) -> Self;

    /// The bytes of the values in `PLAIN`.
    fn plain_size(self) -> usize;

    /// What they take at least, if that is known sooner.
    fn least_plain_size(self) -> usize {
        self.plain_size()
    }

    /// Append values in `PLAIN`.
    fn put_all(self, values: &[Self::Value], out: &mut Vec<u8>);

    /// Append all values; return the encoding, which is `PLAIN` where the type lacks the wanted one.
    fn encode(self, choice: Choice, scratch: &mut Scratch, out: &mut Vec<u8>) -> Encoding;

    /// Find the distinct values, and leave each value's index among them in `scratch`.
    ///
    /// None if there are more than `most` distinct ones.
    fn dictionary(self, most: usize, scratch: &mut Scratch) -> Option<Vec<Self::Value>>;

    /// The bounds of all values; None if there are none, or none that would be true and short.
    fn bounds(self, order: Order) -> Option<Bounds>;

    /// The bounds of the values in a dictionary.
    fn bounds_of(self, values: &[Self::Value], order: Order) -> Option<Bounds>;
}
