//! Thrift's compact protocol, as much as page headers and footers need. It only writes.

pub const FALSE: u8 = 2;
pub const I32: u8 = 5;
pub const I64: u8 = 6;
pub const BINARY: u8 = 8;
pub const LIST: u8 = 9;
pub const STRUCT: u8 = 12;
/// List heads with this count have the real one after them.
pub const LONG_LIST: u8 = 15;

/// One struct, whose fields are appended to `out` in ascending order of their ids.
pub struct Struct<'o> {
    out: &'o mut Vec<u8>,
    last_id: u8,
}

impl<'o> Struct<'o> {
    /// Append a whole struct: the fields that `write` writes, and the stop byte.
    pub fn append(out: &'o mut Vec<u8>, write: impl FnOnce(&mut Struct<'_>)) {
        write(&mut Struct { out, last_id: 0 });
        out.push(0);
    }

    /// Append a field that is false: its type says so.
    pub fn denied(&mut self, id: u8) {
        self.head(id, FALSE);
    }

    pub fn i32(&mut self, id: u8, value: i32) {
        self.head(id, I32);
        zigzag(self.out, i64::from(value));
    }

    pub fn i64(&mut self, id: u8, value: i64) {
        self.head(id, I64);
        zigzag(self.out, value);
    }

    pub fn binary(&mut self, id: u8, value: &[u8]) {
        self.head(id, BINARY);
        append_binary(self.out, value);
    }

    pub fn structure(&mut self, id: u8, write: impl FnOnce(&mut Struct<'_>)) {
        self.head(id, STRUCT);
        Struct::append(self.out, write);
    }

    pub fn i32s(&mut self, id: u8, values: &[i32]) {
        self.list_head(id, I32, values.len());
        values.iter().for_each(|&value| zigzag(self.out, i64::from(value)));
    }

    pub fn binaries<B: AsRef<[u8]>>(&mut self, id: u8, values: &[B]) {
        self.list_head(id, BINARY, values.len());
        values.iter().for_each(|value| append_binary(self.out, value.as_ref()));
    }

    /// Append a list with a struct for each item.
    pub fn structs<T>(&mut self, id: u8, items: &[T], mut write: impl FnMut(&mut Struct<'_>, &T)) {
        self.list_head(id, STRUCT, items.len());
        for item in items {
            Struct::append(self.out, |fields| write(fields, item));
        }
    }

    /// Append a list that is encoded already, its head included.
    pub fn encoded_list(&mut self, id: u8, list: &[u8]) {
        self.head(id, LIST);
        self.out.extend_from_slice(list);
    }

    fn list_head(&mut self, id: u8, element: u8, count: usize) {
        self.head(id, LIST);
        if count < usize::from(LONG_LIST) {
            self.out.push((count as u8) << 4 | element);
        } else {
            self.out.push(LONG_LIST << 4 | element);
            varint(self.out, count as u64);
        }
    }

    /// No two ids that follow each other in Parquet's structs are more than 15 apart.
    fn head(&mut self, id: u8, field_type: u8) {
        debug_assert!(id > self.last_id && id - self.last_id <= 15);
        self.out.push((id - self.last_id) << 4 | field_type);
        self.last_id = id;
    }
}

fn append_binary(out: &mut Vec<u8>, value: &[u8]) {
    varint(out, value.len() as u64);
    out.extend_from_slice(value);
}

/// Append an unsigned integer, seven bits a byte.
pub fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Append a signed integer, so that small ones of either sign are short.
pub fn zigzag(out: &mut Vec<u8>, value: i64) {
    varint(out, (value << 1 ^ value >> 63) as u64);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structs_have_deltas_of_ids_and_a_stop_byte() {
        let mut out = Vec::new();
        Struct::append(&mut out, |fields| {
            fields.i32(1, -1);
            fields.structure(7, |inner| inner.binary(2, b"ab"));
            fields.i64(9, 300);
        });
        assert_eq!(out, [0x15, 1, 0x6c, 0x28, 2, b'a', b'b', 0, 0x26, 0xd8, 4, 0]);
    }

    #[test]
    fn lists_of_fifteen_have_their_count_after_the_head() {
        let mut out = Vec::new();
        Struct::append(&mut out, |fields| {
            fields.i32s(1, &[0; 14]);
            fields.structs(2, &[(); 15], |_, ()| ());
            fields.binaries(3, &["a"]);
        });
        assert_eq!(out[..2], [0x19, 0xe5]);
        assert_eq!(out[16..19], [0x19, 0xfc, 15]);
        assert_eq!(out[34..], [0x19, 0x18, 1, b'a', 0]);
    }
}
