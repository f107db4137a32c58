//! JSON text: how a text is quoted, and what text that is written as the package does says.

use crate::values::json::{LONG_NUMBER, MOST_LEVELS};

/// The names of a larger object are sorted to find one that is repeated.
const FEW_NAMES: usize = 16;

/// A member of an object: name and value as they are written, the name without quotes.
pub type Member<'t> = (&'t [u8], &'t [u8]);

/// Whether no byte of a text has to be escaped.
pub fn is_plain(text: &[u8]) -> bool {
    // Without a branch for each byte, many are compared at once.
    let has_special = |chunk: &[u8]| chunk.iter().fold(false, |any, &byte| any | is_special(byte));
    !text.chunks(256).any(has_special)
}

#[inline(always)]
fn is_special(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

/// A short text is copied with what is behind it, of a fixed size, which takes no call.
pub const SHORT: usize = 32;

/// Append the part of a text that begins here, and is so long.
#[inline(always)]
pub fn push_part(text: &[u8], start: usize, len: usize, out: &mut Vec<u8>) {
    match text[start..].first_chunk::<SHORT>() {
        Some(chunk) if len <= SHORT => {
            let end = out.len() + len;
            out.extend_from_slice(chunk);
            out.truncate(end);
        }
        _ => out.extend_from_slice(&text[start..start + len]),
    }
}

/// Append a text in quotes, in which nothing is escaped but what has to be.
pub fn push_quoted(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    push_escaped(text, out);
    out.push(b'"');
}

pub fn push_escaped(text: &[u8], out: &mut Vec<u8>) {
    let mut copied = 0;
    for (at, &byte) in text.iter().enumerate() {
        if !is_special(byte) {
            continue;
        }
        out.extend_from_slice(&text[copied..at]);
        copied = at + 1;
        match short_escape(byte) {
            Some(short) => out.extend_from_slice(&[b'\\', short]),
            None => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
        }
    }
    out.extend_from_slice(&text[copied..]);
}

fn short_escape(byte: u8) -> Option<u8> {
    Some(match byte {
        b'"' | b'\\' => byte,
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        0x08 => b'b',
        0x0c => b'f',
        _ => return None,
    })
}

/// The members of an object; None: this is none, or not written as the package writes it.
pub fn members(text: &[u8]) -> Option<Vec<Member<'_>>> {
    let mut reader = Reader { text, at: 0 };
    if text.first() != Some(&b'{') {
        return None;
    }
    let members = reader.object(MOST_LEVELS)?;
    (reader.at == text.len()).then_some(members)
}

/// Whether this is a value, written as the package writes it.
pub fn is_value(text: &[u8]) -> bool {
    let mut reader = Reader { text, at: 0 };
    reader.value(MOST_LEVELS).is_some() && reader.at == text.len()
}

/// Reads compact JSON in UTF-8, in which only what has to be is escaped.
struct Reader<'t> {
    text: &'t [u8],
    at: usize,
}

impl<'t> Reader<'t> {
    fn next(&mut self) -> Option<u8> {
        let byte = *self.text.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    fn has(&mut self, byte: u8) -> bool {
        let is_next = self.text.get(self.at) == Some(&byte);
        self.at += usize::from(is_next);
        is_next
    }

    /// Pass a value in which so many levels may be nested.
    fn value(&mut self, levels: usize) -> Option<()> {
        match self.text.get(self.at)? {
            b'"' => self.string().map(drop),
            b'{' => self.object(levels).map(drop),
            b'[' => self.list(levels),
            b'n' => self.word(b"null"),
            b't' => self.word(b"true"),
            b'f' => self.word(b"false"),
            _ => self.number(),
        }
    }

    fn object(&mut self, levels: usize) -> Option<Vec<Member<'t>>> {
        let levels = levels.checked_sub(1)?;
        self.at += 1;
        let mut members = Vec::new();
        if self.has(b'}') {
            return Some(members);
        }
        loop {
            let name = self.string()?;
            if !self.has(b':') {
                return None;
            }
            let start = self.at;
            self.value(levels)?;
            members.push((name, &self.text[start..self.at]));
            match self.next()? {
                b',' => {}
                b'}' => return differ(&members).then_some(members),
                _ => return None,
            }
        }
    }

    fn list(&mut self, levels: usize) -> Option<()> {
        let levels = levels.checked_sub(1)?;
        self.at += 1;
        if self.has(b']') {
            return Some(());
        }
        loop {
            self.value(levels)?;
            match self.next()? {
                b',' => {}
                b']' => return Some(()),
                _ => return None,
            }
        }
    }

    fn word(&mut self, word: &[u8]) -> Option<()> {
        let is_it = self.text[self.at..].starts_with(word);
        self.at += word.len();
        is_it.then_some(())
    }

    /// Pass a text; returns what is in its quotes.
    fn string(&mut self) -> Option<&'t [u8]> {
        if !self.has(b'"') {
            return None;
        }
        let start = self.at;
        loop {
            match self.next()? {
                b'"' => return Some(&self.text[start..self.at - 1]),
                b'\\' => self.escape()?,
                0..0x20 => return None,
                _ => {}
            }
        }
    }

    fn escape(&mut self) -> Option<()> {
        let is_needed = match self.next()? {
            b'"' | b'\\' | b'n' | b'r' | b't' | b'b' | b'f' => true,
            b'u' => match self.code_unit()? {
                unit @ 0..0x20 => short_escape(unit as u8).is_none(),
                0xD800..0xDC00 => {
                    let mut after = Reader { text: self.text, at: self.at };
                    let is_pair = after.has(b'\\')
                        && after.has(b'u')
                        && matches!(after.code_unit(), Some(0xDC00..0xE000));
                    !is_pair
                }
                0xDC00..0xE000 => true,
                _ => false,
            },
            _ => false,
        };
        is_needed.then_some(())
    }

    fn code_unit(&mut self) -> Option<u16> {
        (0..4).try_fold(0, |unit, _| {
            let digit = match self.next()? {
                byte @ b'0'..=b'9' => byte - b'0',
                byte @ b'a'..=b'f' => byte - b'a' + 10,
                _ => return None,
            };
            Some(16 * unit + u16::from(digit))
        })
    }

    fn number(&mut self) -> Option<()> {
        let start = self.at;
        self.has(b'-');
        if !self.has(b'0') {
            self.digits()?;
        }
        if self.has(b'.') {
            self.digits()?;
        }
        if self.has(b'e') || self.has(b'E') {
            let _ = self.has(b'+') || self.has(b'-');
            self.digits()?;
            return (self.at - start <= LONG_NUMBER).then_some(());
        }
        Some(())
    }

    fn digits(&mut self) -> Option<()> {
        let count = self.text[self.at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += count;
        (count > 0).then_some(())
    }
}

/// Whether no name is repeated.
fn differ(members: &[Member<'_>]) -> bool {
    if members.len() <= FEW_NAMES {
        let mut after = members.iter();
        return members.iter().all(|(name, _)| {
            after.next();
            after.as_slice().iter().all(|(other, _)| other != name)
        });
    }
    let mut names: Vec<_> = members.iter().map(|(name, _)| name).collect();
    names.sort_unstable();
    names.windows(2).all(|pair| pair[0] != pair[1])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quoted(text: &str) -> String {
        let mut out = Vec::new();
        push_quoted(text.as_bytes(), &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn only_what_has_to_be_is_escaped() {
        assert_eq!(quoted("a/é😀\x7f"), "\"a/é😀\x7f\"");
        assert_eq!(quoted("\"\\\n\r\t\x08\x0c\0\x1f"), r#""\"\\\n\r\t\b\f\u0000\u001f""#);
        assert!(is_plain("a/é😀\x7f".repeat(100).as_bytes()));
        for text in ["\"", "\\", "\x1f"] {
            assert!(!is_plain(("a".repeat(300) + text + "a").as_bytes()));
        }
    }

    #[test]
    fn an_object_has_its_members_as_they_are_written() {
        let text = r#"{"a":[1,{"b":-0.5e+3}],"\"":"\u001f\ud800","é":{},"n":null,"l":[]}"#;
        let expected = [
            ("a", r#"[1,{"b":-0.5e+3}]"#),
            (r#"\""#, r#""\u001f\ud800""#),
            ("é", "{}"),
            ("n", "null"),
            ("l", "[]"),
        ];
        let expected: Vec<_> =
            expected.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
        assert_eq!(members(text.as_bytes()), Some(expected));
        assert_eq!(members(b"{}"), Some(vec![]));
    }

    #[test]
    fn other_text_is_python_s_to_judge() {
        for text in [
            "",
            "{",
            "{}x",
            " {}",
            "[]",
            "{\"a\":1 }",
            "{\"a\" :1}",
            "{\"a\":1,}",
            "{a:1}",
            "{\"a\"}",
            "null",
            "{\"a\":nul",
            "{\"a\":tru}",
        ] {
            assert_eq!(members(text.as_bytes()), None, "{text}");
        }
        for text in [
            "01",
            "1.",
            ".5",
            "-",
            "+1",
            "1e",
            "1e+",
            "NaN",
            "-Infinity",
            "1e99999999999999999",
            "[1,]",
            "\"\x1f\"",
            "\"",
            r#""\/""#,
            r#""\u0041""#,
            r#""\u001F""#,
            r#""\u000a""#,
            r#""\x""#,
            r#""\ud83d\ude00""#,
            r#""\u00""#,
            "[1 ]",
            "[1",
            "true ",
            "{\"a\":1,\"a\":2}",
        ] {
            assert!(!is_value(text.as_bytes()), "{text}");
        }
        for text in ["0", "-0", "10.50", "1E5", "true", r#""\udc00\ud800x""#, r#""\ud83d\ud83d""#] {
            assert!(is_value(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn names_differ_however_many_there_are() {
        for count in [3, FEW_NAMES, FEW_NAMES + 1, 100] {
            let object = |last: usize| {
                let names = (0..count).map(|name| format!("\"{name}\":0,")).collect::<String>();
                format!("{{{names}\"{last}\":1}}")
            };
            assert!(is_value(object(count).as_bytes()));
            assert!(!is_value(object(count / 2).as_bytes()));
        }
    }

    #[test]
    fn levels_are_limited() {
        let nested = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
        assert!(is_value(nested(MOST_LEVELS).as_bytes()));
        assert!(!is_value(nested(MOST_LEVELS + 1).as_bytes()));
    }
}
