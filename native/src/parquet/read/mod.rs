//! Parquet files to columns: those that our own writers write, and no others.
//!
//! Nothing is trusted: each count and length is checked before memory is taken for it. What is
//! damaged, unknown or merely unusual is given up, and Arrow judges that file: so all errors have one
//! text, and whatever is read here has the values that Arrow would read.
//!
//! `footer` says where the pages are, `schema` what they hold. `chunk` reads a leaf's pages, from
//! `page`, by way of `packing`, `delta`, `values` and `strings`. `structure` compares the leaves of
//! nested columns.

mod chunk;
mod delta;
mod footer;
mod packing;
mod page;
mod schema;
mod strings;
mod structure;
#[cfg(test)]
mod tests;
pub(super) mod thrift;
mod values;

pub use footer::Footer;
pub use schema::Schema;

use crate::values::leaf::Leaf;
use crate::values::schema::Field;
use footer::ColumnChunk;
use schema::LeafShape;

/// The file is not read here: Arrow has to judge it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GaveUp;

pub type Read<T> = Result<T, GaveUp>;

/// Return an error unless a condition holds.
pub fn ensure(condition: bool) -> Read<()> {
    if condition { Ok(()) } else { Err(GaveUp) }
}

/// The bytes that the columns may take in memory. What is counted here is never less than what the
/// package counts for Arrow.
pub struct Budget {
    left: u64,
}

impl Budget {
    pub fn new(nbytes: u64) -> Self {
        Self { left: nbytes }
    }

    fn has(&self, nbytes: u64) -> bool {
        nbytes <= self.left
    }

    fn take(&mut self, nbytes: u64) -> Read<()> {
        self.left = self.left.checked_sub(nbytes).ok_or(GaveUp)?;
        Ok(())
    }
}

/// Read all leaves of a file, at most `max_values` values of each.
pub fn read_leaves(
    file: &[u8],
    footer: &Footer,
    schema: &Schema,
    max_values: u64,
    budget: Budget,
) -> Read<Vec<Leaf>> {
    let mut reader = LeafReader::new(file, footer, schema, max_values, budget)?;
    let mut all = Vec::with_capacity(schema.leaves.len());
    for (field, leaves) in schema.columns() {
        all.extend(reader.read(field, leaves, Keys::Differ)?);
    }
    Ok(all)
}

/// Check all leaves as `read_leaves` does, and keep none. The memory of one field's is used again for
/// the next: new memory costs more than what is written into it.
pub fn check_leaves(
    file: &[u8],
    footer: &Footer,
    schema: &Schema,
    max_values: u64,
    budget: Budget,
) -> Read<()> {
    let mut reader = LeafReader::new(file, footer, schema, max_values, budget)?;
    schema.columns().try_for_each(|(field, leaves)| {
        reader.read(field, leaves, Keys::Differ)?;
        Ok(())
    })
}

/// What is known of the keys of a map.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Keys {
    /// No map has one twice: it can be a dict.
    Differ,
    Any,
}

/// Reads the leaves of a file, field by field, in order.
pub struct LeafReader<'f> {
    file: &'f [u8],
    footer: &'f Footer,
    schema: &'f Schema,
    max_values: u64,
    budget: Budget,
    decompressor: page::Decompressor,
    /// The leaf after the last one that was read.
    next: usize,
}

impl Drop for LeafReader<'_> {
    fn drop(&mut self) {
        std::mem::take(&mut self.decompressor).give_back();
    }
}

impl<'f> LeafReader<'f> {
    pub fn new(
        file: &'f [u8],
        footer: &'f Footer,
        schema: &'f Schema,
        max_values: u64,
        budget: Budget,
    ) -> Read<Self> {
        ensure(footer.chunks.len() == schema.leaves.len())?;
        let decompressor = page::Decompressor::take();
        Ok(Self { file, footer, schema, max_values, budget, decompressor, next: 0 })
    }

    /// Read these leaves, which are all that a field has. Those before them are passed over.
    pub fn read(
        &mut self,
        field: &Field,
        leaves: impl ExactSizeIterator<Item = usize>,
        keys: Keys,
    ) -> Read<Vec<Leaf>> {
        let mut read = Vec::with_capacity(leaves.len());
        for leaf in leaves {
            self.skip_to(leaf)?;
            let (chunk, shape) = self.leaf()?;
            let rows = self.footer.rows;
            let (budget, decompressor) = (&mut self.budget, &mut self.decompressor);
            read.push(chunk::read(self.file, chunk, shape, rows, budget, decompressor)?);
            self.next += 1;
        }
        structure::check(field, &read, keys)?;
        Ok(read)
    }

    /// Pass over the leaves that are left.
    pub fn finish(mut self) -> Read<()> {
        self.skip_to(self.schema.leaves.len())
    }

    /// A file that exceeds a limit does so whatever is read of it.
    fn skip_to(&mut self, leaf: usize) -> Read<()> {
        while self.next < leaf {
            let (chunk, shape) = self.leaf()?;
            chunk::skip(self.file, chunk, shape, self.footer.rows, &mut self.budget)?;
            self.next += 1;
        }
        Ok(())
    }

    fn leaf(&self) -> Read<(&'f ColumnChunk, &'f LeafShape)> {
        let chunk = self.footer.chunks.get(self.next).ok_or(GaveUp)?;
        let shape = self.schema.leaves.get(self.next).ok_or(GaveUp)?;
        ensure(chunk.values <= self.max_values)?;
        Ok((chunk, shape))
    }
}
