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

use crate::leaf::Leaf;

/// The file is not read here: Arrow has to judge it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GaveUp;

pub type Read<T> = Result<T, GaveUp>;

/// Return an error unless a condition holds.
pub(super) fn ensure(condition: bool) -> Read<()> {
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
    let mut all = Vec::with_capacity(schema.leaves.len());
    read_fields(file, footer, schema, max_values, budget, |leaves| all.extend(leaves))?;
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
    read_fields(file, footer, schema, max_values, budget, drop)
}

/// Read the leaves of one field after the other, and hand them to `take`.
fn read_fields(
    file: &[u8],
    footer: &Footer,
    schema: &Schema,
    max_values: u64,
    mut budget: Budget,
    mut take: impl FnMut(Vec<Leaf>),
) -> Read<()> {
    ensure(footer.chunks.len() == schema.leaves.len())?;
    let mut decompressor = page::Decompressor::default();
    let mut columns = footer.chunks.iter().zip(&schema.leaves);
    for (field, &count) in schema.fields.iter().zip(&schema.leaf_counts) {
        let mut leaves = Vec::with_capacity(count);
        for (chunk, shape) in columns.by_ref().take(count) {
            ensure(chunk.values <= max_values)?;
            let rows = footer.rows;
            leaves.push(chunk::read(file, chunk, shape, rows, &mut budget, &mut decompressor)?);
        }
        structure::check(field, &leaves)?;
        take(leaves);
    }
    Ok(())
}
