//! The footer of a file that is stitched to others: its row groups, copied with new positions.
//!
//! The rules are those of `lake/stitching/parquet_footer.py` and `lake/stitching/row_groups.py`. What these refuse, and
//! what no known writer writes, is given up. Python reads that footer then, and makes the error.

use super::field_ids::{
    column_chunk, column_meta_data, file_meta_data, key_value, row_group, schema_element,
};
use super::format::MAGIC;
use super::read::thrift::{BINARY, Cursor, I16, I32, I64, LIST, STRUCT};
use super::read::{GaveUp, Read, ensure};
use super::thrift::zigzag;

/// Where the body of every file begins.
const START: i64 = MAGIC.len() as i64;
const ARROW_SCHEMA: &[u8] = b"ARROW:schema";
/// Dates in another calendar, and no other part of the file would say so.
const SPARK_LEGACY: &[u8] = b"org.apache.spark.legacy";

/// Where row groups come from, and where they go.
pub struct Move {
    /// Where the body ends that the positions must lie in.
    pub body_end: i64,
    /// How much positions increase.
    pub shift: i64,
    /// The number of the first row group.
    pub ordinal: i64,
}

/// What a footer says. The schema's elements and the column orders are encoded; what is missing is
/// empty.
#[derive(Default, Debug, PartialEq, Eq)]
pub struct CopiedFooter<'d> {
    pub version: i64,
    pub schema: &'d [u8],
    /// The leaves of the schema.
    pub columns: usize,
    pub rows: i64,
    /// Those that have rows, encoded as they must stand in the new file.
    pub row_groups: Vec<Vec<u8>>,
    pub arrow_schema: Option<&'d [u8]>,
    pub created_by: &'d [u8],
    pub column_orders: &'d [u8],
}

/// Read an encoded footer.
pub fn copy_footer(footer: &[u8], to: Move) -> Read<CopiedFooter<'_>> {
    let ordinal = to.ordinal;
    let mut copier = Copier { footer, to, out: Vec::new(), copied_to: 0, is_misplaced: false };
    let mut copied = CopiedFooter::default();
    let (mut rows, mut group_rows) = (None, 0i64);
    Cursor::new(footer, 0, footer.len()).structure(|fields, id, field| {
        let start = fields.at;
        match (id, field) {
            (file_meta_data::VERSION, I32) => copied.version = fields.i64()?,
            (file_meta_data::SCHEMA, LIST) => {
                copied.columns = count_leaves(fields)?;
                copied.schema = &footer[start..fields.at];
            }
            (file_meta_data::NUM_ROWS, I64) => rows = Some(fields.i64()?),
            (file_meta_data::ROW_GROUPS, LIST) => {
                for _ in 0..fields.list(STRUCT)? {
                    let number = ordinal + copied.row_groups.len() as i64;
                    let (rows, row_group) = copier.row_group(fields, copied.columns, number)?;
                    if rows > 0 {
                        copied.row_groups.push(row_group);
                    }
                    group_rows = group_rows.checked_add(rows).ok_or(GaveUp)?;
                }
            }
            (file_meta_data::KEY_VALUE_METADATA, LIST) => {
                for _ in 0..fields.list(STRUCT)? {
                    let (key, value) = read_pair(fields)?;
                    ensure(!key.starts_with(SPARK_LEGACY))?;
                    if key == ARROW_SCHEMA {
                        ensure(copied.arrow_schema.replace(value).is_none())?;
                    }
                }
            }
            (file_meta_data::CREATED_BY, BINARY) => copied.created_by = fields.binary()?,
            (file_meta_data::COLUMN_ORDERS, LIST) => {
                fields.skip(LIST)?;
                copied.column_orders = &footer[start..fields.at];
            }
            // A field of another type, or one of encryption.
            (file_meta_data::VERSION..=file_meta_data::LAST, _) => return Err(GaveUp),
            _ => fields.skip(field)?,
        }
        Ok(())
    })?;
    ensure(!copied.schema.is_empty() && rows == Some(group_rows))?;
    copied.rows = group_rows;
    Ok(copied)
}

/// Count the elements of a schema that have no children, except the root.
fn count_leaves(cursor: &mut Cursor<'_>) -> Read<usize> {
    let mut leaves = 0;
    for element in 0..cursor.list(STRUCT)? {
        let mut children = 0;
        cursor.structure(|fields, id, field| match (id, field) {
            (schema_element::NUM_CHILDREN, I32) => {
                children = fields.i64()?;
                Ok(())
            }
            (schema_element::NUM_CHILDREN, _) => Err(GaveUp),
            _ => fields.skip(field),
        })?;
        leaves += usize::from(element > 0 && children == 0);
    }
    Ok(leaves)
}

/// Read an entry of the key-value metadata; what is missing is empty.
fn read_pair<'d>(cursor: &mut Cursor<'d>) -> Read<(&'d [u8], &'d [u8])> {
    let (mut key, mut value) = (&[][..], &[][..]);
    cursor.structure(|fields, id, field| {
        match (id, field) {
            (key_value::KEY, BINARY) => key = fields.binary()?,
            (key_value::VALUE, BINARY) => value = fields.binary()?,
            (key_value::KEY | key_value::VALUE, _) => return Err(GaveUp),
            _ => fields.skip(field)?,
        }
        Ok(())
    })?;
    Ok((key, value))
}

/// Copies row groups, in which a cursor moves: their bytes, around the few integers that change.
struct Copier<'d> {
    footer: &'d [u8],
    to: Move,
    /// The copy so far, of what stands before `copied_to`.
    out: Vec<u8>,
    copied_to: usize,
    /// Whether a position is outside the body: an error, unless the row group has no rows.
    is_misplaced: bool,
}

impl Copier<'_> {
    /// Return the number of rows and the copy of the row group at the cursor, and pass it.
    fn row_group(
        &mut self,
        cursor: &mut Cursor<'_>,
        columns: usize,
        ordinal: i64,
    ) -> Read<(i64, Vec<u8>)> {
        self.out.clear();
        self.copied_to = cursor.at;
        self.is_misplaced = false;
        let (mut rows, mut offset, mut kept) = (-1, START, cursor.at);
        cursor.structure(|fields, id, field| {
            match (id, field) {
                (row_group::COLUMNS, LIST) => {
                    ensure(fields.list(STRUCT)? == columns)?;
                    (0..columns).try_for_each(|_| self.chunk(fields))?;
                }
                (row_group::NUM_ROWS, I64) => rows = fields.i64()?,
                (row_group::FILE_OFFSET, I64) => offset = self.shift(fields, false)?,
                (row_group::TOTAL_COMPRESSED_SIZE, I64) => {
                    let size = fields.i64()?;
                    self.check_within(offset, size);
                }
                (row_group::ORDINAL, I16) => self.replace(fields, ordinal)?,
                (
                    row_group::COLUMNS
                    | row_group::NUM_ROWS
                    | row_group::FILE_OFFSET..=row_group::ORDINAL,
                    _,
                ) => return Err(GaveUp),
                _ => fields.skip(field)?,
            }
            if id <= row_group::LAST {
                kept = fields.at;
            }
            Ok(())
        })?;
        self.end_struct(cursor.at, kept);
        ensure(rows == 0 || rows > 0 && !self.is_misplaced)?;
        self.keep(cursor.at);
        Ok((rows, std::mem::take(&mut self.out)))
    }

    fn chunk(&mut self, cursor: &mut Cursor<'_>) -> Read<()> {
        let (mut has_meta_data, mut kept) = (false, cursor.at);
        cursor.structure(|fields, id, field| {
            match (id, field) {
                (column_chunk::FILE_OFFSET, I64) => self.replace(fields, 0)?,
                (column_chunk::META_DATA, STRUCT) => {
                    self.meta_data(fields)?;
                    has_meta_data = true;
                }
                // A field of another type, a chunk in another file, or an encrypted one.
                (
                    column_chunk::FILE_PATH..=column_chunk::META_DATA
                    | column_chunk::CRYPTO_METADATA
                    | column_chunk::ENCRYPTED_COLUMN_METADATA,
                    _,
                ) => return Err(GaveUp),
                _ => fields.skip(field)?, // the page indexes
            }
            if id <= column_chunk::META_DATA {
                kept = fields.at;
            }
            Ok(())
        })?;
        self.end_struct(cursor.at, kept);
        ensure(has_meta_data)
    }

    fn meta_data(&mut self, cursor: &mut Cursor<'_>) -> Read<()> {
        use column_meta_data::*;
        let (mut size, mut start, mut kept) = (-1, 0, cursor.at);
        cursor.structure(|fields, id, field| {
            match (id, field) {
                (TOTAL_COMPRESSED_SIZE, I64) => size = fields.i64()?,
                (DATA_PAGE_OFFSET, I64) => start = self.shift(fields, false)?,
                (DICTIONARY_PAGE_OFFSET, I64) => match self.shift(fields, true)? {
                    0 => {}
                    dictionary => start = start.min(dictionary),
                },
                (INDEX_PAGE_OFFSET | BLOOM_FILTER_OFFSET, I64) => {
                    self.shift(fields, true)?;
                }
                (
                    TOTAL_COMPRESSED_SIZE
                    | DATA_PAGE_OFFSET..=DICTIONARY_PAGE_OFFSET
                    | BLOOM_FILTER_OFFSET,
                    _,
                ) => return Err(GaveUp),
                _ => fields.skip(field)?,
            }
            if id <= column_meta_data::LAST {
                kept = fields.at;
            }
            Ok(())
        })?;
        self.end_struct(cursor.at, kept);
        self.check_within(start, size);
        Ok(())
    }

    /// Shift the position at the cursor and return the old one. If it is `optional`, 0 stays, by which
    /// some writers mean that there is none.
    fn shift(&mut self, cursor: &mut Cursor<'_>, optional: bool) -> Read<i64> {
        let start = cursor.at;
        let position = cursor.i64()?;
        if position != 0 || !optional {
            self.check_within(position, 1);
            let shifted = position.checked_add(self.to.shift).ok_or(GaveUp)?;
            self.put(start, cursor.at, shifted);
        }
        Ok(position)
    }

    fn check_within(&mut self, start: i64, size: i64) {
        let end = start.checked_add(size).filter(|&end| end <= self.to.body_end);
        self.is_misplaced |= start < START || size < 0 || end.is_none();
    }

    fn replace(&mut self, cursor: &mut Cursor<'_>, value: i64) -> Read<()> {
        let start = cursor.at;
        cursor.i64()?;
        self.put(start, cursor.at, value);
        Ok(())
    }

    /// Put `value` in the place of an integer.
    fn put(&mut self, start: usize, end: usize, value: i64) {
        self.keep(start);
        zigzag(&mut self.out, value);
        self.copied_to = end;
    }

    /// Cut off the fields after `kept` of the struct that ends here.
    fn end_struct(&mut self, end: usize, kept: usize) {
        if end > kept + 1 {
            self.keep(kept);
            self.out.push(0);
            self.copied_to = end;
        }
    }

    /// Copy what stands before `end`.
    fn keep(&mut self, end: usize) {
        self.out.extend_from_slice(&self.footer[self.copied_to..end]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parquet::thrift::Struct;

    const BODY_END: i64 = 1000;
    const SCHEMA: &[u8] = &[0x2c, 0x55, 2, 0, 0]; // a root with one child; the child
    const ORDERS: &[u8] = &[0x1c, 0x1c, 0, 0];

    /// A footer of two row groups, of which the second has `rows` rows and its first page at `page`.
    fn footer(rows: i64, page: i64) -> Vec<u8> {
        let mut out = Vec::new();
        Struct::append(&mut out, |file| {
            file.i32(file_meta_data::VERSION, 2);
            file.encoded_list(file_meta_data::SCHEMA, SCHEMA);
            file.i64(file_meta_data::NUM_ROWS, 10 + rows);
            file.structs(
                file_meta_data::ROW_GROUPS,
                &[(10, 4), (rows, page)],
                |group, &(rows, page)| {
                    put_row_group(group, rows, page);
                },
            );
            file.structs(
                file_meta_data::KEY_VALUE_METADATA,
                &[b"owner".as_slice(), ARROW_SCHEMA],
                |pair, key| {
                    pair.binary(key_value::KEY, key);
                    pair.binary(key_value::VALUE, b"arrow");
                },
            );
            file.binary(file_meta_data::CREATED_BY, b"somebody");
            file.encoded_list(file_meta_data::COLUMN_ORDERS, ORDERS);
        });
        out
    }

    fn put_row_group(group: &mut Struct<'_>, rows: i64, page: i64) {
        group.structs(row_group::COLUMNS, &[()], |chunk, ()| {
            chunk.i64(column_chunk::FILE_OFFSET, 0);
            chunk.structure(column_chunk::META_DATA, |meta_data| {
                meta_data.binaries(column_meta_data::PATH_IN_SCHEMA, &["n"]);
                meta_data.i64(column_meta_data::TOTAL_COMPRESSED_SIZE, 300);
                meta_data.i64(column_meta_data::DATA_PAGE_OFFSET, page + 100);
                meta_data.i64(column_meta_data::DICTIONARY_PAGE_OFFSET, page);
            });
        });
        group.i64(row_group::NUM_ROWS, rows);
        group.i64(row_group::FILE_OFFSET, page);
        group.i64(row_group::TOTAL_COMPRESSED_SIZE, 300);
    }

    fn row_group(rows: i64, page: i64) -> Vec<u8> {
        let mut out = Vec::new();
        Struct::append(&mut out, |group| put_row_group(group, rows, page));
        out
    }

    fn copied(footer: &[u8], shift: i64) -> Read<CopiedFooter<'_>> {
        copy_footer(footer, Move { body_end: BODY_END, shift, ordinal: 0 })
    }

    #[test]
    fn row_groups_are_copied_with_their_positions_shifted() {
        let expected = CopiedFooter {
            version: 2,
            schema: SCHEMA,
            columns: 1,
            rows: 30,
            row_groups: vec![row_group(10, 5004), row_group(20, 5304)],
            arrow_schema: Some(b"arrow"),
            created_by: b"somebody",
            column_orders: ORDERS,
        };
        assert_eq!(copied(&footer(20, 304), 5000), Ok(expected));
    }

    #[test]
    fn positions_must_lie_in_the_body() {
        for page in [4, 700] {
            assert!(copied(&footer(20, page), 0).is_ok());
        }
        for page in [i64::MIN, 3, 701, i64::MAX - 100] {
            assert_eq!(copied(&footer(20, page), 0), Err(GaveUp));
        }
    }

    #[test]
    fn row_groups_without_rows_are_left_out_wherever_they_are() {
        let footer = footer(0, 701);
        assert_eq!(copied(&footer, 0).unwrap().row_groups, [row_group(10, 4)]);
    }

    #[test]
    fn damage_is_given_up_or_copied_into_few_bytes() {
        let whole = footer(20, 304);
        for end in 0..whole.len() {
            assert_eq!(copied(&whole[..end], 5000), Err(GaveUp));
        }
        for place in 0..whole.len() {
            for value in 0..=255 {
                let mut damaged = whole.clone();
                damaged[place] = value;
                if let Ok(copy) = copied(&damaged, i64::MAX / 2) {
                    let nbytes: usize = copy.row_groups.iter().map(Vec::len).sum();
                    assert!(nbytes < 2 * whole.len(), "{place} {value}");
                }
            }
        }
    }
}
