//! The rest of a row: compact JSON text of what found no column.

/// The names of a larger object are not compared with each other.
pub const MOST_NAMES: usize = 64;
/// How deep objects and lists may be nested.
pub const MOST_LEVELS: usize = 200;
/// A number as long as this may have an exponent that no `Decimal` has.
const LONG_NUMBER: usize = 18;

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
                    at = end_of_text(value, at)?;
                    if names_next {
                        self.note_name(value, start, at)?;
                        names_next = false;
                    }
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

/// Where a text ends that begins before `at`; None: it has an escape that is written otherwise.
fn end_of_text(value: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match value.get(at)? {
            b'"' => return Some(at + 1),
            b'\\'
                if matches!(
                    value.get(at + 1)?,
                    b'"' | b'\\' | b'n' | b'r' | b't' | b'b' | b'f'
                ) =>
            {
                at += 2;
            }
            b'\\' => return None,
            _ => at += 1,
        }
    }
}
