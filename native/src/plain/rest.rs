//! The rest of a row: compact JSON text of what found no column.

use crate::values::json::{LONG_NUMBER, MOST_LEVELS};

/// The names of a larger object are not compared with each other.
pub const MOST_NAMES: usize = 64;

/// Text that is put together. An object is opened by its first member.
pub struct Rest {
    pub text: Vec<u8>,
    /// Where the containers begin in which a value is copied: of an object its first name.
    levels: Vec<Option<usize>>,
    /// Where the names of these objects are in the copied text.
    names: Vec<(usize, usize)>,
}

/// What a member stands under.
#[derive(Clone, Copy)]
pub enum Name<'j> {
    /// As in the message, without escapes.
    Text(&'j [u8]),
    Index(usize),
}

/// An object of the rest, before and after its first member.
#[derive(Clone, Copy, Default)]
pub struct Object {
    pub is_open: bool,
}

impl Rest {
    /// Nothing yet, in the memory of this text.
    pub fn new(mut text: Vec<u8>) -> Self {
        text.clear();
        Self { text, levels: Vec::new(), names: Vec::new() }
    }

    /// Append the name of a member; returns where it begins.
    pub fn begin(&mut self, object: &mut Object, name: Name<'_>) -> usize {
        let begun = self.text.len();
        self.text.push(if object.is_open { b',' } else { b'{' });
        object.is_open = true;
        self.text.push(b'"');
        match name {
            Name::Text(name) => self.text.extend_from_slice(name),
            Name::Index(index @ 0..=9) => self.text.push(b'0' + index as u8),
            Name::Index(index) => self.text.extend_from_slice(index.to_string().as_bytes()),
        }
        self.text.extend_from_slice(b"\":");
        begun
    }

    /// End a member that is an object, or take its name back if that has no members.
    pub fn end(&mut self, object: &mut Object, begun: usize, member: Object) {
        self.close(member);
        if !member.is_open {
            object.is_open = self.text[begun] == b',';
            self.text.truncate(begun);
        }
    }

    pub fn close(&mut self, object: Object) {
        if object.is_open {
            self.text.push(b'}');
        }
    }

    /// Append a value of valid JSON, without blanks, that stands at a level; None: it may not be as
    /// Python writes it, or not be allowed.
    pub fn value(&mut self, value: &[u8], level: usize) -> Option<()> {
        std::str::from_utf8(value).ok()?;
        self.levels.clear();
        self.names.clear();
        let (mut at, mut names_next) = (0, false);
        while let Some(&byte) = value.get(at) {
            let start = at;
            at += 1;
            match byte {
                b' ' | b'\n' | b'\r' | b'\t' => continue,
                b'"' => {
                    let is_plain;
                    (at, is_plain) = self.copy_text(value, start)?;
                    if names_next {
                        self.note_name(value, start, at).filter(|()| is_plain)?;
                        names_next = false;
                    }
                    continue;
                }
                b'{' | b'[' => {
                    names_next = byte == b'{';
                    self.levels.push(names_next.then_some(self.names.len()));
                    if level + self.levels.len() > MOST_LEVELS {
                        return None;
                    }
                }
                b'}' | b']' => {
                    if let Some(first) = self.levels.pop()? {
                        self.names.truncate(first);
                    }
                    names_next = false;
                }
                b',' => names_next = self.levels.last()?.is_some(),
                b'-' | b'0'..=b'9' => {
                    let is_number =
                        |byte: &u8| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E');
                    at = start + value[start..].iter().take_while(|byte| is_number(byte)).count();
                    let has_exponent = |byte: &u8| matches!(byte, b'e' | b'E');
                    if at - start > LONG_NUMBER && value[start..at].iter().any(has_exponent) {
                        return None;
                    }
                }
                _ => {} // a colon, or a letter of a constant
            }
            self.text.extend_from_slice(&value[start..at]);
        }
        Some(())
    }

    /// Append the text that begins here; returns where it ends, and whether it has no escapes.
    fn copy_text(&mut self, value: &[u8], start: usize) -> Option<(usize, bool)> {
        let (mut copied, mut at, mut is_plain) = (start, start + 1, true);
        loop {
            let byte = *value.get(at)?;
            at += 1;
            if byte == b'"' {
                self.text.extend_from_slice(&value[copied..at]);
                return Some((at, is_plain));
            }
            if byte != b'\\' {
                continue;
            }
            is_plain = false;
            let escape = *value.get(at)?;
            if matches!(escape, b'/' | b'u') {
                self.text.extend_from_slice(&value[copied..at - 1]);
                let (character, length) =
                    if escape == b'u' { unescaped(&value[at..])? } else { ('/', 1) };
                self.push(character);
                (copied, at) = (at + length, at + length);
            } else {
                at += 1; // it is written so
            }
        }
    }

    /// Append a character of a text as Python writes it.
    fn push(&mut self, character: char) {
        let short = match character {
            '"' => b'"',
            '\\' => b'\\',
            '\n' => b'n',
            '\r' => b'r',
            '\t' => b't',
            '\x08' => b'b',
            '\x0c' => b'f',
            '\0'..='\x1f' => {
                let text = format!("\\u{:04x}", character as u32);
                return self.text.extend_from_slice(text.as_bytes());
            }
            _ => {
                let mut bytes = [0; 4];
                let text = character.encode_utf8(&mut bytes);
                return self.text.extend_from_slice(text.as_bytes());
            }
        };
        self.text.extend_from_slice(&[b'\\', short]);
    }

    /// Note a name of the innermost object; None: the object has had it, or has too many.
    fn note_name(&mut self, value: &[u8], start: usize, end: usize) -> Option<()> {
        let first = (*self.levels.last()?)?;
        let others = &self.names[first..];
        let is_name =
            |&(start_of, end_of): &(usize, usize)| value[start_of..end_of] == value[start..end];
        if others.len() == MOST_NAMES || others.iter().any(is_name) {
            return None;
        }
        self.names.push((start, end));
        Some(())
    }
}

/// The character of an escape such as u00e9, and how many bytes it takes.
fn unescaped(escape: &[u8]) -> Option<(char, usize)> {
    let unit = |digits: &[u8]| {
        u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok().map(u32::from)
    };
    let first = unit(escape.get(1..5)?)?;
    if let Some(character) = char::from_u32(first) {
        return Some((character, 5));
    }
    let second = unit(escape.get(7..11)?)?;
    let code = 0x1_0000 + (first.checked_sub(0xD800)? << 10) + second.checked_sub(0xDC00)?;
    Some((char::from_u32(code)?, 11))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copied(value: &str) -> Option<String> {
        let mut rest = Rest::new(Vec::new());
        rest.value(value.as_bytes(), 1)?;
        Some(String::from_utf8(rest.text).unwrap())
    }

    #[test]
    fn a_value_has_no_blanks_and_no_escapes_but_those_it_needs() {
        let value = r#" { "a" : [ 1.0 , "x \u00e9\/\n\u000A\ud83d\ude00" ] , "b" : { } } "#;
        let expected = "{\"a\":[1.0,\"x é/\\n\\n😀\"],\"b\":{}}";
        assert_eq!(copied(value).as_deref(), Some(expected));
        assert_eq!(
            copied(r#""\u0022\u005c\u001F\u007f""#).as_deref(),
            Some(concat!(r#""\"\\\u001f"#, "\x7f\""))
        );
    }

    #[test]
    fn a_name_that_is_repeated_is_python_s_to_judge() {
        assert_eq!(copied(r#"[{"a": 1, "b": {"a": {"a": 2}}, "a": 3}]"#), None);
        assert_eq!(copied(r#"{"\u0061": 1}"#), None);
        assert!(copied(r#"[{"a": "a"}, {"a": ["a", {"a": 1}]}]"#).is_some());
    }

    #[test]
    fn levels_and_exponents_are_limited() {
        let nested = |levels: usize| copied(&("[".repeat(levels) + &"]".repeat(levels)));
        assert!(nested(MOST_LEVELS - 1).is_some());
        assert_eq!(nested(MOST_LEVELS), None);
        assert_eq!(copied("[1e99999999999999999999]"), None);
        assert!(copied(&"9".repeat(400)).is_some());
    }
}
