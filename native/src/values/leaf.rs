//! A Parquet leaf in memory: its values without nulls, and its levels.

use crate::values::strings::Strings;

/// Bits, the first in the lowest place of the first byte, as Arrow and Parquet have them.
#[derive(Default, Clone)]
pub struct Bits {
    bytes: Vec<u8>,
    len: usize,
}

impl Bits {
    pub fn with_capacity(bits: usize) -> Self {
        Self { bytes: Vec::with_capacity(bits.div_ceil(8)), len: 0 }
    }

    /// The first `len` bits of these bytes, which are just enough.
    pub fn from_bytes(bytes: Vec<u8>, len: usize) -> Self {
        let mut bits = Self { len: 8 * bytes.len(), bytes };
        bits.truncate(len);
        bits
    }

    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    #[inline(always)]
    pub fn push(&mut self, bit: bool) {
        let place = self.len % 8;
        if place == 0 {
            self.bytes.push(u8::from(bit));
        } else if let Some(last) = self.bytes.last_mut() {
            *last |= u8::from(bit) << place;
        }
        self.len += 1;
    }

    #[inline(always)]
    pub fn get(&self, i: usize) -> bool {
        self.bytes[i / 8] >> (i % 8) & 1 == 1
    }

    pub fn extend(&mut self, other: &Self) {
        (0..other.len).for_each(|i| self.push(other.get(i)));
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub fn truncate(&mut self, len: usize) {
        if len >= self.len {
            return;
        }
        self.len = len;
        self.bytes.truncate(len.div_ceil(8));
        if !len.is_multiple_of(8)
            && let Some(last) = self.bytes.last_mut()
        {
            *last &= (1 << (len % 8)) - 1;
        }
    }
}

/// The values of a leaf, without its nulls, in Parquet's physical types.
#[repr(u8)]
pub enum Values {
    Bool(Bits),
    I32(Vec<i32>),
    I64(Vec<i64>),
    F32(Vec<f32>),
    F64(Vec<f64>),
    Strings(Strings),
    Fixed { width: usize, bytes: Vec<u8> },
}

impl Values {
    pub fn len(&self) -> usize {
        match self {
            Self::Bool(bits) => bits.len(),
            Self::I32(values) => values.len(),
            Self::I64(values) => values.len(),
            Self::F32(values) => values.len(),
            Self::F64(values) => values.len(),
            Self::Strings(strings) => strings.len(),
            Self::Fixed { width, bytes } => bytes.len() / width,
        }
    }

    /// No values of the same type.
    pub fn none(&self) -> Self {
        match self {
            Self::Bool(_) => Self::Bool(Bits::default()),
            Self::I32(_) => Self::I32(Vec::new()),
            Self::I64(_) => Self::I64(Vec::new()),
            Self::F32(_) => Self::F32(Vec::new()),
            Self::F64(_) => Self::F64(Vec::new()),
            Self::Strings(_) => Self::Strings(Strings::new(true)),
            Self::Fixed { width, .. } => Self::Fixed { width: *width, bytes: Vec::new() },
        }
    }

    /// Append values of the same type; return whether there was room.
    fn extend(&mut self, other: &Self) -> bool {
        match (self, other) {
            (Self::Bool(bits), Self::Bool(more)) => bits.extend(more),
            (Self::I32(values), Self::I32(more)) => values.extend_from_slice(more),
            (Self::I64(values), Self::I64(more)) => values.extend_from_slice(more),
            (Self::F32(values), Self::F32(more)) => values.extend_from_slice(more),
            (Self::F64(values), Self::F64(more)) => values.extend_from_slice(more),
            (Self::Strings(strings), Self::Strings(more)) => return strings.extend(more),
            (Self::Fixed { bytes, .. }, Self::Fixed { bytes: more, .. }) => {
                bytes.extend_from_slice(more)
            }
            _ => unreachable!("values of another type"),
        }
        true
    }

    pub fn truncate(&mut self, len: usize) {
        match self {
            Self::Bool(bits) => bits.truncate(len),
            Self::I32(values) => values.truncate(len),
            Self::I64(values) => values.truncate(len),
            Self::F32(values) => values.truncate(len),
            Self::F64(values) => values.truncate(len),
            Self::Strings(strings) => strings.truncate(len),
            Self::Fixed { width, bytes } => bytes.truncate(*width * len),
        }
    }

    fn memory(&self, of: Memory) -> usize {
        match self {
            Self::Bool(bits) => of.vec(&bits.bytes),
            Self::I32(values) => of.vec(values),
            Self::I64(values) => of.vec(values),
            Self::F32(values) => of.vec(values),
            Self::F64(values) => of.vec(values),
            Self::Strings(strings) => match of {
                Memory::Used => strings.nbytes(),
                Memory::All => strings.capacity(),
            },
            Self::Fixed { bytes, .. } => of.vec(bytes),
        }
    }
}

/// Which memory is counted, in bytes.
#[derive(Clone, Copy)]
enum Memory {
    Used,
    /// However much is used.
    All,
}

impl Memory {
    fn vec<T>(self, values: &Vec<T>) -> usize {
        size_of::<T>()
            * match self {
                Self::Used => values.len(),
                Self::All => values.capacity(),
            }
    }
}

/// Where a leaf's values stand in its rows, and where there are none.
#[repr(u8)]
pub enum Levels {
    /// One value in each row.
    Required,
    /// One value in each row but these, in ascending order: a nullable column at the top.
    Flat { nulls: Vec<u32> },
    /// The definition levels, and the repetition levels of a leaf inside a list or map.
    Nested { def: Vec<u8>, rep: Option<Vec<u8>> },
}

/// One leaf of some rows. What appending touches is in its first two cache lines.
#[repr(C, align(64))]
pub struct Leaf {
    pub levels: Levels,
    pub rows: usize,
    pub values: Values,
    /// The definition level of a value.
    pub max_def: u8,
    pub max_rep: u8,
}

impl Leaf {
    pub fn new(values: Values, max_def: u8, max_rep: u8, is_top: bool) -> Self {
        let levels = match (max_def, is_top) {
            (0, _) => Levels::Required,
            (_, true) => Levels::Flat { nulls: Vec::new() },
            _ => Levels::Nested { def: Vec::new(), rep: (max_rep > 0).then(Vec::new) },
        };
        Self { values, levels, max_def, max_rep, rows: 0 }
    }

    /// Remove all rows, and keep the memory.
    pub fn begin(&mut self) {
        self.values.truncate(0);
        match &mut self.levels {
            Levels::Required => {}
            Levels::Flat { nulls } => nulls.clear(),
            Levels::Nested { def, rep } => {
                def.clear();
                rep.iter_mut().for_each(Vec::clear);
            }
        }
        self.rows = 0;
    }

    /// The memory that this has, however much is used.
    pub fn capacity(&self) -> usize {
        self.memory(Memory::All)
    }

    /// A leaf of the same column without rows.
    pub fn none(&self) -> Self {
        let is_top = !matches!(self.levels, Levels::Nested { .. });
        Self::new(self.values.none(), self.max_def, self.max_rep, is_top)
    }

    /// Note that a value was appended to `values`.
    #[inline(always)]
    pub fn present(&mut self, rep: u8) {
        match &mut self.levels {
            Levels::Required | Levels::Flat { .. } => self.rows += 1,
            Levels::Nested { def, rep: reps } => {
                def.push(self.max_def);
                self.rows += usize::from(rep == 0);
                if let Some(reps) = reps {
                    reps.push(rep);
                }
            }
        }
    }

    /// Append no value: something is null, or a list empty, at this definition level.
    #[inline(always)]
    pub fn absent(&mut self, rep: u8, def: u8) {
        match &mut self.levels {
            Levels::Required => unreachable!("a required leaf has no nulls"),
            Levels::Flat { nulls } => {
                nulls.push(self.rows as u32);
                self.rows += 1;
            }
            Levels::Nested { def: defs, rep: reps } => {
                defs.push(def);
                self.rows += usize::from(rep == 0);
                if let Some(reps) = reps {
                    reps.push(rep);
                }
            }
        }
    }

    /// Append rows in which something is null at this definition level.
    pub fn append_nulls(&mut self, rows: usize, def: u8) {
        match &mut self.levels {
            Levels::Required | Levels::Flat { .. } => {
                (0..rows).for_each(|_| self.absent(0, def));
            }
            Levels::Nested { def: defs, rep } => {
                defs.resize(defs.len() + rows, def);
                if let Some(rep) = rep {
                    rep.resize(rep.len() + rows, 0);
                }
                self.rows += rows;
            }
        }
    }

    /// Append all rows of a leaf of the same column; return whether there was room. If not, this is
    /// damaged.
    pub fn extend(&mut self, other: &Self) -> bool {
        match (&mut self.levels, &other.levels) {
            (Levels::Required, Levels::Required) => {}
            (Levels::Flat { nulls }, Levels::Flat { nulls: more }) => {
                nulls.extend(more.iter().map(|&null| self.rows as u32 + null));
            }
            (Levels::Nested { def, rep }, Levels::Nested { def: more_def, rep: more_rep }) => {
                def.extend_from_slice(more_def);
                if let (Some(rep), Some(more)) = (rep, more_rep) {
                    rep.extend_from_slice(more);
                }
            }
            _ => unreachable!("a leaf of another column"),
        }
        self.rows += other.rows;
        self.values.extend(&other.values)
    }

    /// Remove all but the first `rows` rows.
    pub fn truncate(&mut self, rows: usize) {
        let values = match &mut self.levels {
            Levels::Required => rows,
            Levels::Flat { nulls } => {
                nulls.truncate(nulls.partition_point(|&null| (null as usize) < rows));
                rows - nulls.len()
            }
            Levels::Nested { def, rep } => {
                let mut values = self.values.len();
                let mut left = self.rows;
                while left > rows {
                    values -= usize::from(def.pop() == Some(self.max_def));
                    left -= usize::from(rep.as_mut().is_none_or(|rep| rep.pop() == Some(0)));
                }
                values
            }
        };
        self.values.truncate(values);
        self.rows = self.rows.min(rows);
    }

    /// The slot and the value at which a row begins.
    pub fn position(&self, row: usize) -> (usize, usize) {
        match &self.levels {
            Levels::Required => (row, row),
            Levels::Flat { nulls } => {
                (row, row - nulls.partition_point(|&null| (null as usize) < row))
            }
            Levels::Nested { def, rep } => {
                let slot = match rep {
                    None => row,
                    Some(rep) => {
                        let starts = rep.iter().enumerate().filter(|&(_, &level)| level == 0);
                        starts.map(|(slot, _)| slot).nth(row).unwrap_or(rep.len())
                    }
                };
                (slot, def[..slot].iter().filter(|&&level| level == self.max_def).count())
            }
        }
    }

    /// How many levels there are, and so slots of values and nulls.
    pub fn slots(&self) -> usize {
        match &self.levels {
            Levels::Required | Levels::Flat { .. } => self.rows,
            Levels::Nested { def, .. } => def.len(),
        }
    }

    /// What this takes in memory.
    pub fn nbytes(&self) -> usize {
        self.memory(Memory::Used)
    }

    fn memory(&self, of: Memory) -> usize {
        let levels = match &self.levels {
            Levels::Required => 0,
            Levels::Flat { nulls } => of.vec(nulls),
            Levels::Nested { def, rep } => of.vec(def) + rep.as_ref().map_or(0, |rep| of.vec(rep)),
        };
        self.values.memory(of) + levels
    }
}
