//! Thrift's compact protocol, read: with short heads of fields, as all known writers write it.

use super::{GaveUp, Read, ensure};
use crate::parquet::thrift::LONG_LIST;
pub use crate::parquet::thrift::{BINARY, I32, I64, LIST, STRUCT};

pub const TRUE: u8 = 1;
pub const FALSE: u8 = 2;
const BYTE: u8 = 3;
pub const I16: u8 = 4;

const MAX_DEPTH: usize = 16;

pub struct Cursor<'d> {
    data: &'d [u8],
    pub at: usize,
    /// The most elements of a list.
    max_elements: usize,
}

impl<'d> Cursor<'d> {
    pub fn new(data: &'d [u8], at: usize, max_elements: usize) -> Self {
        Self { data, at, max_elements }
    }

    fn byte(&mut self) -> Read<u8> {
        let byte = *self.data.get(self.at).ok_or(GaveUp)?;
        self.at += 1;
        Ok(byte)
    }

    /// An unsigned integer of at most 64 bits.
    pub fn varint(&mut self) -> Read<u64> {
        let mut value = 0;
        for shift in (0..70).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            ensure(shift < 63 || bits <= 1)?;
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(GaveUp)
    }

    pub fn i64(&mut self) -> Read<i64> {
        let value = self.varint()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    pub fn i32(&mut self) -> Read<i32> {
        i32::try_from(self.i64()?).map_err(|_| GaveUp)
    }

    /// An i32 or i64 that counts something.
    pub fn count(&mut self) -> Read<usize> {
        usize::try_from(self.i64()?).map_err(|_| GaveUp)
    }

    /// An i32 that counts something.
    pub fn count32(&mut self) -> Read<usize> {
        usize::try_from(self.i32()?).map_err(|_| GaveUp)
    }

    pub fn binary(&mut self) -> Read<&'d [u8]> {
        let size = usize::try_from(self.varint()?).map_err(|_| GaveUp)?;
        let end = self.at.checked_add(size).ok_or(GaveUp)?;
        let bytes = self.data.get(self.at..end).ok_or(GaveUp)?;
        self.at = end;
        Ok(bytes)
    }

    /// The number of elements of a list, which follow and have this type.
    pub fn list(&mut self, element: u8) -> Read<usize> {
        let (element_type, count) = self.list_head()?;
        ensure(count == 0 || element_type == element)?;
        Ok(count)
    }

    fn list_head(&mut self) -> Read<(u8, usize)> {
        let head = self.byte()?;
        let count = match head >> 4 {
            LONG_LIST => usize::try_from(self.varint()?).map_err(|_| GaveUp)?,
            count => usize::from(count),
        };
        // Each element takes at least one byte.
        ensure(count <= self.max_elements && count <= self.data.len() - self.at)?;
        Ok((head & 15, count))
    }

    /// Read a struct: `read` gets the id and type of each field, and reads its value.
    pub fn structure(&mut self, mut read: impl FnMut(&mut Self, u8, u8) -> Read<()>) -> Read<()> {
        let mut id = 0u8;
        loop {
            let head = self.byte()?;
            if head == 0 {
                return Ok(());
            }
            ensure(head >> 4 != 0)?;
            id = id.checked_add(head >> 4).ok_or(GaveUp)?;
            read(self, id, head & 15)?;
        }
    }

    /// Skip a value.
    pub fn skip(&mut self, value_type: u8) -> Read<()> {
        self.skip_nested(value_type, 0)
    }

    fn skip_nested(&mut self, value_type: u8, depth: usize) -> Read<()> {
        ensure(depth < MAX_DEPTH)?;
        match value_type {
            TRUE | FALSE => Ok(()), // as a field; there are no lists of them
            BYTE => self.byte().map(drop),
            I16 | I32 | I64 => self.varint().map(drop),
            BINARY => self.binary().map(drop),
            LIST => {
                let (element, count) = self.list_head()?;
                ensure(element != TRUE && element != FALSE)?;
                (0..count).try_for_each(|_| self.skip_nested(element, depth + 1))
            }
            STRUCT => self.structure(|fields, _, field| fields.skip_nested(field, depth + 1)),
            _ => Err(GaveUp),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parquet::thrift::Struct;

    #[test]
    fn what_is_written_is_read() {
        let mut out = Vec::new();
        Struct::append(&mut out, |fields| {
            fields.i32(1, -1);
            fields.structure(7, |inner| inner.binary(2, b"ab"));
            fields.i64(9, i64::MIN);
            fields.i32s(10, &[0; 20]);
        });
        let mut headers = Vec::new();
        let mut cursor = Cursor::new(&out, 0, 20);
        let read = cursor.structure(|fields, id, field| {
            headers.push((id, field));
            match id {
                1 => ensure(fields.i32()? == -1),
                9 => ensure(fields.i64()? == i64::MIN),
                10 => {
                    let count = fields.list(I32)?;
                    (0..count).try_for_each(|_| ensure(fields.i32()? == 0))
                }
                _ => fields.skip(field),
            }
        });
        assert_eq!(read, Ok(()));
        assert_eq!(cursor.at, out.len());
        assert_eq!(headers, [(1, I32), (7, STRUCT), (9, I64), (10, LIST)]);
        assert_eq!(Cursor::new(&out, 0, 19).skip(STRUCT), Err(GaveUp));
        for end in 0..out.len() {
            assert_eq!(Cursor::new(&out[..end], 0, 20).skip(STRUCT), Err(GaveUp));
        }
    }

    #[test]
    fn integers_have_at_most_64_bits() {
        let read = |bytes: &[u8]| Cursor::new(bytes, 0, 1).varint();
        assert_eq!(read(&[255, 255, 255, 255, 255, 255, 255, 255, 255, 1]), Ok(u64::MAX));
        assert_eq!(read(&[255, 255, 255, 255, 255, 255, 255, 255, 255, 2]), Err(GaveUp));
        assert_eq!(read(&[128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 0]), Err(GaveUp));
    }
}
