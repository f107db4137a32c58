//! JSON objects that may differ from their schema, to its columns and the rest. What is not surely as
//! the package has it is not taken: it has every rule, in `plain/lenient_rows.py`.

use jiter::{Jiter, Peek};

use crate::plain::json::{MOST_PAIRS, Reader, wrong};
use crate::plain::rest::{MOST_NAMES, Name, Object, Rest};
use crate::produce::columns::{Column, Map, Node, NotTaken, NullSays, Struct, Taken};
use crate::produce::from_rows::Template;
use crate::produce::from_values::Kind;
use crate::produce::row_format::{Decoder, RowAppender};
use crate::values::json::MOST_LEVELS;
use crate::values::leaf::{Leaf, Values};
use crate::values::size::Size;
use crate::values::time_form::KnownForm;

/// What becomes of what differs: see `Lenient` in the package.
pub struct Rules {
    /// The names on the path to the row.
    pub path: Vec<String>,
    pub keeps_unknown: bool,
    /// Whether the package wants to see what has a field that is unknown.
    pub grows: bool,
    pub keeps_misfits: bool,
    pub coerces: bool,
    /// Whether equal objects can be made again: see `plain/reversible.py`.
    pub reverses: bool,
    /// Of each leaf, whether it is JSON text.
    pub json_texts: Vec<bool>,
    /// Of each leaf, the form of its times.
    pub time_forms: Vec<KnownForm>,
}

impl Decoder for Rules {
    fn has_rest(&self) -> bool {
        self.have_rest()
    }

    fn append(&self, value: &[u8], appender: &mut RowAppender, leaves: &mut [Leaf]) -> Taken {
        append_row(value, self, appender, leaves)
    }

    fn time_forms(&self) -> &[KnownForm] {
        &self.time_forms
    }
}

impl Rules {
    /// Those of objects that can be made again; without a rest none may differ.
    pub fn reversible(has_rest: bool, json_texts: Vec<bool>) -> Self {
        Self {
            path: Vec::new(),
            keeps_unknown: has_rest,
            grows: false,
            keeps_misfits: has_rest,
            coerces: false,
            reverses: true,
            time_forms: json_texts.iter().map(|_| KnownForm::default()).collect(),
            json_texts,
        }
    }

    /// Whether the last column is the rest.
    fn have_rest(&self) -> bool {
        self.keeps_unknown || self.keeps_misfits
    }
}

/// Append an object to the columns of a row, and what is left of it.
pub fn append_row(
    value: &[u8],
    rules: &Rules,
    appender: &mut RowAppender,
    leaves: &mut [Leaf],
) -> Taken {
    let RowAppender { columns, template, appending, .. } = appender;
    let json = Jiter::with_tape(value, std::mem::take(&mut appending.scratch));
    let rest = Rest::new(std::mem::take(&mut appending.text));
    let reader = Reader { json, is_exact: true, size: Size::default() };
    let (unknown, level) = (Vec::new(), 0);
    let (grows, decides) = (false, false);
    let mut lenient = Lenient { reader, value, rules, rest, unknown, level, grows, decides };
    let taken = lenient.row(columns, template, leaves);
    appending.decides |= lenient.decides;
    appending.size += lenient.reader.size;
    appending.scratch = lenient.reader.json.into_tape();
    appending.text = lenient.rest.text;
    taken
}

pub struct Lenient<'j, 'r> {
    pub reader: Reader<'j>,
    value: &'j [u8],
    pub rules: &'r Rules,
    pub rest: Rest,
    /// The names of the open objects that are no columns.
    unknown: Vec<&'j [u8]>,
    /// How many objects and lists are open.
    level: usize,
    /// Whether a table may get columns for what is unknown here: not in maps, nor beside the row.
    grows: bool,
    /// See `Appending`.
    decides: bool,
}

impl<'j> Lenient<'j, '_> {
    fn row(
        &mut self,
        columns: &mut [Column],
        template: &mut Template,
        leaves: &mut [Leaf],
    ) -> Taken {
        if !self.rules.have_rest() {
            return self.object(columns, template, leaves);
        }
        let (rest, fields) = columns.split_last_mut().ok_or(NotTaken)?;
        self.object(fields, template, leaves)?;
        if self.rest.text.is_empty() {
            return rest.append_null(0, leaves).map(drop);
        }
        let Node::Leaf { leaf, .. } = rest.node else { return Err(NotTaken) };
        let Values::Strings(out) = &mut leaves[leaf].values else { return Err(NotTaken) };
        self.reader.size += out.push_bytes(&self.rest.text).ok_or(NotTaken)?;
        leaves[leaf].present(0);
        Ok(())
    }

    /// Append the row that the message has at the path.
    fn object(
        &mut self,
        fields: &mut [Column],
        template: &mut Template,
        leaves: &mut [Leaf],
    ) -> Taken {
        let object = self.below(0, fields, template, leaves)?;
        self.rest.close(object);
        self.reader.json.finish().map_err(wrong)
    }

    /// Append the row that this object has on the path behind so many names.
    fn below(
        &mut self,
        depth: usize,
        fields: &mut [Column],
        template: &mut Template,
        leaves: &mut [Leaf],
    ) -> Result<Object, NotTaken> {
        if self.reader.json.peek().map_err(wrong)? != Peek::Object {
            return Err(NotTaken);
        }
        let rules = self.rules;
        let Some(token) = rules.path.get(depth) else {
            self.grows = rules.grows;
            let row = self.record(fields, template, 0, leaves);
            self.grows = false;
            return row;
        };
        let mut object = Object::default();
        let mut is_found = false;
        let outer = self.enter()?;
        let mut next = self.first_name()?;
        while let Some(name) = next {
            if name != token.as_bytes() {
                self.unknown(name, outer, &mut object)?;
            } else if std::mem::replace(&mut is_found, true) {
                return Err(NotTaken);
            } else {
                let begun = self.rest.begin(&mut object, Name::Text(name));
                let inner = self.below(depth + 1, fields, template, leaves)?;
                self.rest.end(&mut object, begun, inner);
            }
            next = self.next_name()?;
        }
        self.leave(outer);
        if is_found { Ok(object) } else { Err(NotTaken) }
    }

    fn record(
        &mut self,
        fields: &mut [Column],
        template: &mut Template,
        rep: u8,
        leaves: &mut [Leaf],
    ) -> Result<Object, NotTaken> {
        let mut object = Object::default();
        let mut found = 0;
        template.begin();
        let outer = self.enter()?;
        let mut next = self.first_name()?;
        while let Some(name) = next {
            match template.find_next(name) {
                Some(None) => return Err(NotTaken), // the record has had it
                Some(Some(column)) if column < fields.len() => {
                    found += 1;
                    let first = self.reader.json.peek().map_err(wrong)?;
                    let place = (&mut object, Name::Text(name));
                    self.member(first, place, &mut fields[column], rep, leaves)?;
                }
                _ => self.unknown(name, outer, &mut object)?,
            }
            next = self.next_name()?;
        }
        self.leave(outer);
        if found < fields.len() {
            if self.rules.reverses && !self.rules.keeps_unknown {
                return Err(NotTaken);
            }
            for (column, field) in fields.iter_mut().enumerate() {
                if template.is_missing(column) {
                    self.reader.size.nbytes += field.append_null(rep, leaves)?;
                    if self.rules.reverses && !field.says(NullSays::Absent, &mut self.decides) {
                        let name = Name::Text(template.name(column).as_bytes());
                        self.leave_null(&mut object, name);
                    }
                }
            }
        }
        Ok(object)
    }

    /// Say in the rest what null in a column does not.
    #[cold]
    fn leave_null(&mut self, object: &mut Object, name: Name<'_>) {
        self.rest.begin(object, name);
        self.rest.text.extend_from_slice(b"null");
    }

    /// Append the next value, or null and leave it to the rest; `place` is where it stands there.
    #[inline]
    fn member(
        &mut self,
        first: Peek,
        place: (&mut Object, Name<'_>),
        column: &mut Column,
        rep: u8,
        leaves: &mut [Leaf],
    ) -> Taken {
        if first == Peek::Null {
            self.reader.json.known_null().map_err(wrong)?;
            self.reader.size.nbytes += column.append_null(rep, leaves)?;
            if !column.says(NullSays::Null, &mut self.decides) {
                self.leave_null(place.0, place.1);
            }
            return Ok(());
        }
        let start = self.reader.json.current_index();
        let fits = match &column.node {
            Node::Leaf { kind, leaf } => {
                if self.leaf(first, kind, *leaf, &mut leaves[*leaf].values)? {
                    leaves[*leaf].present(rep);
                    return Ok(());
                }
                false
            }
            Node::List { .. } => first == Peek::Array,
            Node::Map(_) | Node::Struct(_) => first == Peek::Object,
        };
        let (object, name) = place;
        if fits {
            let begun = self.rest.begin(object, name);
            let inner = self.nested(column, rep, leaves)?;
            self.rest.end(object, begun, inner);
            return Ok(());
        }
        if !self.rules.keeps_misfits {
            return Err(NotTaken);
        }
        if self.reader.json.current_index() == start {
            self.reader.json.known_skip(first).map_err(wrong)?;
        }
        self.reader.size.nbytes += column.append_null(rep, leaves)?;
        self.rest.begin(object, name);
        self.copy(start)
    }

    /// Append to the rest what the message has from `start` to here.
    pub fn copy(&mut self, start: usize) -> Taken {
        let value = self.reader.json.slice_to_current(start);
        self.rest.value(value, self.level).ok_or(NotTaken)
    }

    /// Leave the next value, which has no column.
    #[inline(never)]
    fn unknown(&mut self, name: &'j [u8], outer: usize, object: &mut Object) -> Taken {
        let others = &self.unknown[outer..];
        if !is_plain(name) || others.len() == MOST_NAMES || others.contains(&name) {
            return Err(NotTaken);
        }
        self.unknown.push(name);
        let first = self.reader.json.peek().map_err(wrong)?;
        let start = self.reader.json.current_index();
        self.reader.json.known_skip(first).map_err(wrong)?;
        let rules = self.rules;
        if first == Peek::Null && !rules.reverses {
            return Ok(());
        }
        let grows = self.grows && may_be_column(name);
        if grows || (rules.reverses && !rules.keeps_unknown) {
            return Err(NotTaken);
        }
        let before = *object;
        let begun = self.rest.begin(object, Name::Text(name));
        self.copy(start)?; // also if it is ignored: it may not be allowed
        if !rules.keeps_unknown {
            *object = before;
            self.rest.text.truncate(begun);
        }
        Ok(())
    }

    fn nested(
        &mut self,
        column: &mut Column,
        rep: u8,
        leaves: &mut [Leaf],
    ) -> Result<Object, NotTaken> {
        let def = column.def;
        match &mut column.node {
            Node::Leaf { .. } => Err(NotTaken),
            Node::List { rep: item_rep, item, item_size, size } => {
                let mut object = Object::default();
                let (mut count, mut rep) = (0, rep);
                let outer = self.enter()?;
                let mut next = self.reader.json.known_array().map_err(wrong)?;
                if next.is_none() {
                    self.reader.size.nbytes += item.append_absent(rep, def, leaves);
                }
                while let Some(first) = next {
                    self.member(first, (&mut object, Name::Index(count)), item, rep, leaves)?;
                    (count, rep) = (count + 1, *item_rep);
                    next = self.reader.json.array_step().map_err(wrong)?;
                }
                self.leave(outer);
                self.reader.size += *item_size * count;
                if size.is_some_and(|size| size != count) { Err(NotTaken) } else { Ok(object) }
            }
            Node::Map(map) => self.map(map, rep, def, leaves),
            Node::Struct(inner) => {
                let Struct { template, fields } = &mut **inner;
                self.record(fields, template, rep, leaves)
            }
        }
    }

    fn map(
        &mut self,
        map: &mut Map,
        rep: u8,
        def: u8,
        leaves: &mut [Leaf],
    ) -> Result<Object, NotTaken> {
        let Node::Leaf { kind: Kind::Text, leaf: keys } = map.key.node else {
            return Err(NotTaken);
        };
        let mut object = Object::default();
        let mut count = 0;
        let grows = std::mem::take(&mut self.grows);
        let outer = self.enter()?;
        let mut next = self.first_name()?;
        while let Some(name) = next {
            let Values::Strings(strings) = &mut leaves[keys].values else { return Err(NotTaken) };
            let pushed = strings.len();
            let is_name = |value| strings.get(value) == name;
            if !is_plain(name) || count == MOST_PAIRS || (pushed - count..pushed).any(is_name) {
                return Err(NotTaken);
            }
            self.reader.size += strings.push_bytes(name).ok_or(NotTaken)?;
            let rep = if count == 0 { rep } else { map.rep };
            leaves[keys].present(rep);
            let first = self.reader.json.peek().map_err(wrong)?;
            self.member(first, (&mut object, Name::Text(name)), &mut map.value, rep, leaves)?;
            count += 1;
            next = self.next_name()?;
        }
        self.leave(outer);
        self.grows = grows;
        if count == 0 {
            self.reader.size.nbytes += map.append_absent(rep, def, leaves);
        }
        self.reader.size += map.pair_size * count;
        Ok(object)
    }

    fn enter(&mut self) -> Result<usize, NotTaken> {
        self.level += 1;
        if self.level > MOST_LEVELS { Err(NotTaken) } else { Ok(self.unknown.len()) }
    }

    fn leave(&mut self, outer: usize) {
        self.level -= 1;
        self.unknown.truncate(outer);
    }

    /// The first name of the next object.
    #[inline(always)]
    fn first_name(&mut self) -> Result<Option<&'j [u8]>, NotTaken> {
        let name = self.reader.json.next_object_bytes().map_err(wrong)?;
        Ok(part_of(self.value, name))
    }

    #[inline(always)]
    fn next_name(&mut self) -> Result<Option<&'j [u8]>, NotTaken> {
        let name = self.reader.json.next_key_bytes().map_err(wrong)?;
        Ok(part_of(self.value, name))
    }
}

/// A name, in which there may be escapes, as a part of the message that lives as long as that.
#[inline(always)]
fn part_of<'j>(value: &'j [u8], name: Option<&[u8]>) -> Option<&'j [u8]> {
    let name = name?;
    let start = name.as_ptr() as usize - value.as_ptr() as usize;
    Some(&value[start..start + name.len()])
}

/// Whether a name is one without escapes.
fn is_plain(name: &[u8]) -> bool {
    !name.contains(&b'\\') && std::str::from_utf8(name).is_ok()
}

/// Whether a column may have this name: see `Inference` in the package.
fn may_be_column(name: &[u8]) -> bool {
    let is_refused = |byte: &u8| {
        byte.is_ascii_control()
            || matches!(byte, b' ' | b',' | b';' | b'{' | b'}' | b'(' | b')' | b'=' | b'.')
    };
    (1..=255).contains(&name.len()) && !name.iter().any(is_refused)
}
