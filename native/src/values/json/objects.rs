//! Columns and the rest to JSON objects, the same as `JsonValues` makes in the package.
//!
//! What the rest has at a path is left of what stands there: of an object, a map or a list its members,
//! of what is null in its column all of it.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use super::leaves;
use super::text::{self, Member};
use crate::values::cursor::Cursor;
use crate::values::decimal::Decimals;
use crate::values::leaf::{Leaf, Values};
use crate::values::made::MakesValues;
use crate::values::schema::{Field, Type, Unit};
use crate::values::time_form::{Described, TimeForm};

/// A rest, or JSON in a column, is not surely as the package writes it, or an object is too large.
struct GaveUp;

type Written = Result<(), GaveUp>;

/// What a footer says of the objects.
pub struct Said {
    /// The name of the column that has the rest.
    pub rest: Option<String>,
    /// The fields whose null says null; it says of others that there was no such field. None: all.
    pub nulls: Option<HashSet<String>>,
    /// The columns of JSON text.
    pub texts: HashSet<String>,
    /// The columns of bytes that are UUIDs.
    pub uuids: HashSet<String>,
    /// The forms of columns of times.
    pub times: HashMap<String, Described>,
}

impl Said {
    fn time_form(&self, path: &str, has_date: bool, has_zone: bool) -> TimeForm {
        self.times.get(path).map_or(TimeForm::of(has_date, has_zone), TimeForm::read)
    }
}

/// How the objects of some columns are written.
pub struct Template {
    fields: Vec<FieldWriter>,
    /// The leaf that has the rest.
    rest: Option<usize>,
    /// How many leaves the columns have.
    leaves: usize,
}

/// A field of an object.
struct FieldWriter {
    prefix: Prefix,
    says_null: bool,
    value: ValueWriter,
}

/// What stands in front of a field's value: a comma, its name in quotes, and a colon.
struct Prefix {
    /// With a quote after it, and padding, so that short ones are copied fast.
    text: Box<[u8]>,
    len: usize,
}

impl Prefix {
    fn new(name: &str) -> Self {
        let mut text = vec![b','];
        text::push_quoted(name.as_bytes(), &mut text);
        text.push(b':');
        let len = text.len();
        text.push(b'"');
        text.resize(text.len().max(text::SHORT), 0);
        Self { text: text.into(), len }
    }

    /// The name as it is written, without quotes.
    fn name(&self) -> &[u8] {
        &self.text[2..self.len - 2]
    }

    #[inline(always)]
    fn push(&self, out: &mut Vec<u8>) {
        text::push_part(&self.text, 0, self.len, out);
    }

    /// Append it, and the first quote of a text.
    #[inline(always)]
    fn push_with_quote(&self, out: &mut Vec<u8>) {
        text::push_part(&self.text, 0, self.len + 1, out);
    }
}

struct ValueWriter {
    nullable: bool,
    /// The definition level of what is there.
    def: u8,
    /// The first leaf: its levels tell what there is.
    first: usize,
    node: Node,
}

enum Node {
    Leaf(Form),
    List { rep: u8, item: Box<ValueWriter> },
    Map { rep: u8, key: Box<ValueWriter>, value: Box<ValueWriter> },
    Object(Vec<FieldWriter>),
}

/// How the values of a leaf are written, where Parquet's type does not tell.
enum Form {
    AsItIs,
    Unsigned,
    Half,
    Text,
    /// JSON itself.
    Json,
    Uuid,
    Date,
    Timestamp {
        unit: Unit,
        form: TimeForm,
    },
    Time {
        unit: Unit,
        form: TimeForm,
    },
    Decimal(Decimals),
}

impl Template {
    /// For these columns.
    pub fn new(columns: &[Field], said: &Said) -> Self {
        let mut template = Self { fields: Vec::new(), rest: None, leaves: 0 };
        for column in columns {
            if said.rest.as_deref() == Some(&*column.name) {
                template.rest = Some(template.leaves);
                template.leaves += 1;
            } else {
                let field = field(column, "", (0, 0), said, &mut template.leaves);
                template.fields.push(field);
            }
        }
        template
    }
}

/// A field whose leaves come next, at these definition and repetition levels.
fn field(
    field: &Field,
    above: &str,
    levels: (u8, u8),
    said: &Said,
    leaves: &mut usize,
) -> FieldWriter {
    let path = format!("{above}{}", field.name);
    let says_null = said.nulls.as_ref().is_none_or(|nulls| nulls.contains(&path));
    let value = value(field, &path, levels, said, leaves);
    FieldWriter { prefix: Prefix::new(&field.name), says_null, value }
}

fn value(
    field: &Field,
    path: &str,
    (def, rep): (u8, u8),
    said: &Said,
    leaves: &mut usize,
) -> ValueWriter {
    let def = def + u8::from(field.nullable);
    let first = *leaves;
    let mut inner = |child: &Field, name: &str| {
        Box::new(value(child, &format!("{path}.{name}"), (def + 1, rep + 1), said, leaves))
    };
    let node = match &field.data_type {
        Type::List(item) | Type::FixedList(item, _) => {
            Node::List { rep: rep + 1, item: inner(item, "item") }
        }
        Type::Map(key, value) => {
            Node::Map { rep: rep + 1, key: inner(key, "key"), value: inner(value, "value") }
        }
        Type::Struct(fields) => {
            let above = format!("{path}.");
            let field = |child: &Field| self::field(child, &above, (def, rep), said, leaves);
            Node::Object(fields.iter().map(field).collect())
        }
        leaf => {
            *leaves += 1;
            Node::Leaf(Form::of(leaf, path, said))
        }
    };
    ValueWriter { nullable: field.nullable, def, first, node }
}

impl Form {
    fn of(data_type: &Type, path: &str, said: &Said) -> Self {
        match data_type {
            Type::UnsignedInt | Type::UnsignedLong => Self::Unsigned,
            Type::Half => Self::Half,
            Type::Text { .. } if said.texts.contains(path) => Self::Json,
            Type::Text { .. } => Self::Text,
            Type::Fixed { width: 16 } if said.uuids.contains(path) => Self::Uuid,
            Type::Date => Self::Date,
            Type::Timestamp { unit, has_zone } => {
                Self::Timestamp { unit: *unit, form: said.time_form(path, true, *has_zone) }
            }
            Type::ZonedTimestamp { unit, .. } => {
                Self::Timestamp { unit: *unit, form: said.time_form(path, true, true) }
            }
            Type::Time { unit } => {
                Self::Time { unit: *unit, form: said.time_form(path, false, false) }
            }
            Type::Decimal(decimals) => Self::Decimal(decimals.clone()),
            _ => Self::AsItIs,
        }
    }
}

/// Writes the objects of some rows one after the other.
pub struct ObjectReader {
    template: Arc<Template>,
    writer: Writer,
}

impl ObjectReader {
    /// Read from row `start` on. `leaves` are those of all columns, in order; so many are taken. No
    /// object may have more than `most` bytes.
    pub fn new(
        template: &Arc<Template>,
        leaves: &mut impl Iterator<Item = Box<Leaf>>,
        start: usize,
        most: usize,
    ) -> Self {
        let leaves = leaves.take(template.leaves).map(|leaf| LeafCursor::new(leaf, start));
        let writer = Writer { leaves: leaves.collect(), out: Vec::new(), most };
        Self { template: Arc::clone(template), writer }
    }
}

impl MakesValues for ObjectReader {
    fn next(&mut self) -> Option<&[u8]> {
        let Self { template, writer } = self;
        writer.out.clear();
        writer.row(template).and_then(|()| writer.check_size()).ok()?;
        Some(&writer.out)
    }
}

struct LeafCursor {
    cursor: Cursor<Box<Leaf>>,
    /// Whether no text in it has to be escaped.
    is_plain: bool,
}

impl LeafCursor {
    fn new(leaf: Box<Leaf>, start: usize) -> Self {
        let is_plain = match &leaf.values {
            Values::Strings(strings) => text::is_plain(strings.heap()),
            _ => true,
        };
        Self { cursor: Cursor::new(leaf, start), is_plain }
    }
}

/// The members that are left of an object, a map, or a list: of that the names are numbers.
#[derive(Default)]
struct Left<'t> {
    members: Vec<Member<'t>>,
    /// Which of them were taken.
    taken: Vec<bool>,
    /// Where each is, if they are many.
    places: Option<HashMap<&'t [u8], usize>>,
}

impl<'t> Left<'t> {
    const MANY: usize = 16;

    fn new(members: Vec<Member<'t>>) -> Self {
        let place = |(place, &(name, _)): (usize, &Member<'t>)| (name, place);
        let are_many = members.len() > Self::MANY;
        let places = are_many.then(|| members.iter().enumerate().map(place).collect());
        Self { taken: vec![false; members.len()], members, places }
    }

    /// What is left of what stands in a place, if anything is. It has members only if it is an object.
    fn of(left: Option<&'t [u8]>) -> Result<Self, GaveUp> {
        match left {
            Some(text) if text.first() == Some(&b'{') => {
                Ok(Self::new(text::members(text).ok_or(GaveUp)?))
            }
            _ => Ok(Self::default()),
        }
    }

    fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    fn take(&mut self, name: &[u8]) -> Option<&'t [u8]> {
        let place = match &self.places {
            Some(places) => *places.get(name)?,
            None => self.members.iter().position(|&(other, _)| other == name)?,
        };
        self.taken[place] = true;
        Some(self.members[place].1)
    }

    fn others(&self) -> impl Iterator<Item = Member<'t>> {
        let members = self.members.iter().zip(&self.taken);
        members.filter(|&(_, is_taken)| !is_taken).map(|(&member, _)| member)
    }
}

struct Writer {
    leaves: Vec<LeafCursor>,
    out: Vec<u8>,
    most: usize,
}

impl Writer {
    fn row(&mut self, template: &Template) -> Written {
        let Some(leaf) = template.rest else {
            return self.object(&template.fields, Left::default());
        };
        let LeafCursor { cursor, .. } = &mut self.leaves[leaf];
        let Some(value) = cursor.next() else {
            return self.object(&template.fields, Left::default());
        };
        let Values::Strings(strings) = &cursor.leaf.values else { return Err(GaveUp) };
        let rest = strings.get(value).to_vec(); // while other leaves are passed
        let members = text::members(&rest).ok_or(GaveUp)?;
        self.object(&template.fields, Left::new(members))
    }

    fn object(&mut self, fields: &[FieldWriter], mut left: Left<'_>) -> Written {
        let start = self.out.len();
        if left.is_empty() {
            for field in fields {
                self.field(field, None)?;
            }
        } else {
            for field in fields {
                self.field(field, left.take(field.prefix.name()))?;
            }
            self.others(&left);
        }
        self.end(start);
        Ok(())
    }

    /// Append the members that are left and were not taken.
    fn others(&mut self, left: &Left<'_>) {
        for (name, value) in left.others() {
            self.out.extend_from_slice(b",\"");
            self.out.extend_from_slice(name);
            self.out.extend_from_slice(b"\":");
            self.out.extend_from_slice(value);
        }
    }

    /// End an object, of which each member has a comma in front.
    #[inline(always)]
    fn end(&mut self, start: usize) {
        match self.out.get_mut(start) {
            Some(first) => *first = b'{',
            None => self.out.push(b'{'),
        }
        self.out.push(b'}');
    }

    #[inline(always)]
    fn field(&mut self, field: &FieldWriter, left: Option<&[u8]>) -> Written {
        let value = &field.value;
        if let Node::Leaf(form) = &value.node {
            let Some(at) = self.leaves[value.first].cursor.next() else {
                self.missing(field, left);
                return Ok(());
            };
            if let Form::Text = form {
                field.prefix.push_with_quote(&mut self.out);
                self.text(value.first, at);
                return Ok(());
            }
            field.prefix.push(&mut self.out);
            return self.leaf(value.first, form, at);
        }
        if self.is_null(value) {
            self.skip(value);
            self.missing(field, left);
            return Ok(());
        }
        field.prefix.push(&mut self.out);
        self.nested(value, left)
    }

    /// Few bytes of a file become many where each item of a list repeats long names.
    #[inline(always)]
    fn check_size(&self) -> Written {
        if self.out.len() > self.most { Err(GaveUp) } else { Ok(()) }
    }

    /// Append a field that is null in its column: what is left of it, null, or nothing. A null that is
    /// left says the opposite of what the column's null says.
    fn missing(&mut self, field: &FieldWriter, left: Option<&[u8]>) {
        let is_null = match left {
            None => field.says_null,
            Some(b"null") => !field.says_null,
            Some(value) => {
                field.prefix.push(&mut self.out);
                self.out.extend_from_slice(value);
                return;
            }
        };
        if is_null {
            field.prefix.push(&mut self.out);
            self.out.extend_from_slice(b"null");
        }
    }

    fn is_null(&self, value: &ValueWriter) -> bool {
        value.nullable && self.leaves[value.first].cursor.def() < value.def
    }

    /// Append an item of a list, or the value of a pair.
    fn item(&mut self, value: &ValueWriter, left: Option<&[u8]>) -> Written {
        if let Node::Leaf(form) = &value.node {
            match self.leaves[value.first].cursor.next() {
                Some(at) => self.leaf(value.first, form, at)?,
                None => self.out.extend_from_slice(left.unwrap_or(b"null")),
            }
        } else if self.is_null(value) {
            self.skip(value);
            self.out.extend_from_slice(left.unwrap_or(b"null"));
        } else {
            self.nested(value, left)?;
        }
        Ok(())
    }

    /// Append an object, a map, or a list.
    fn nested(&mut self, value: &ValueWriter, left: Option<&[u8]>) -> Written {
        let is_empty = self.leaves[value.first].cursor.def() == value.def;
        let mut left = Left::of(left)?;
        match &value.node {
            Node::Leaf(_) => unreachable!("leaves are written before"),
            Node::Object(fields) => self.object(fields, left)?,
            Node::List { item, .. } if is_empty => {
                self.skip(item);
                self.out.extend_from_slice(b"[]");
            }
            Node::List { rep, item } => {
                self.out.push(b'[');
                for index in 0_usize.. {
                    let left = match left.is_empty() {
                        true => None,
                        false => left.take(index.to_string().as_bytes()),
                    };
                    self.item(item, left)?;
                    self.check_size()?;
                    if self.leaves[item.first].cursor.rep() != Some(*rep) {
                        break;
                    }
                    self.out.push(b',');
                }
                self.out.push(b']');
            }
            Node::Map { rep, key, value } => self.map(*rep, key, value, left, is_empty)?,
        }
        Ok(())
    }

    fn map(
        &mut self,
        rep: u8,
        key: &ValueWriter,
        value: &ValueWriter,
        mut left: Left<'_>,
        is_empty: bool,
    ) -> Written {
        let start = self.out.len();
        if is_empty {
            self.skip(key);
            self.skip(value);
        } else {
            loop {
                self.out.push(b',');
                let name = self.name(key)?;
                self.out.push(b':');
                let left = left.take(&self.out[name]);
                self.item(value, left)?;
                self.check_size()?;
                if self.leaves[key.first].cursor.rep() != Some(rep) {
                    break;
                }
            }
        }
        self.others(&left);
        self.end(start);
        Ok(())
    }

    /// Append the key of a pair, in quotes; returns where it stands in them.
    fn name(&mut self, key: &ValueWriter) -> Result<Range<usize>, GaveUp> {
        let Node::Leaf(form) = &key.node else { return Err(GaveUp) };
        let at = self.leaves[key.first].cursor.next().ok_or(GaveUp)?;
        let start = self.out.len();
        self.leaf(key.first, form, at)?;
        if self.out[start] != b'"' {
            self.out.insert(start, b'"');
            self.out.push(b'"');
        }
        Ok(start + 1..self.out.len() - 1)
    }

    /// Append a value of a leaf.
    #[inline(always)]
    fn leaf(&mut self, leaf: usize, form: &Form, at: usize) -> Written {
        let LeafCursor { cursor, .. } = &self.leaves[leaf];
        let out = &mut self.out;
        match &cursor.leaf.values {
            Values::Bool(bits) => {
                out.extend_from_slice(if bits.get(at) { b"true" } else { b"false" });
            }
            Values::I32(values) => match (form, values[at]) {
                (Form::Date, days) => leaves::push_date(days.into(), out),
                (Form::Time { unit, form }, ticks) => {
                    leaves::push_time(ticks.into(), *unit, *form, out);
                }
                (Form::Unsigned, number) => leaves::push_unsigned((number as u32).into(), out),
                (_, number) => leaves::push_int(number.into(), out),
            },
            Values::I64(values) => match (form, values[at]) {
                (Form::Timestamp { unit, form }, ticks) => {
                    leaves::push_timestamp(ticks, *unit, *form, out);
                }
                (Form::Time { unit, form }, ticks) => {
                    leaves::push_time(ticks, *unit, *form, out);
                }
                (Form::Unsigned, number) => leaves::push_unsigned(number as u64, out),
                (_, number) => leaves::push_int(number, out),
            },
            Values::F32(values) => leaves::push_float(values[at], out),
            Values::F64(values) => leaves::push_double(values[at], out),
            Values::Fixed { width, bytes } => {
                let bytes = &bytes[width * at..][..*width];
                match form {
                    Form::Decimal(decimals) => decimals.push_number(bytes, out),
                    Form::Half => leaves::push_half(u16::from_le_bytes([bytes[0], bytes[1]]), out),
                    Form::Uuid => leaves::push_uuid(bytes, out),
                    _ => leaves::push_bytes(bytes, out),
                }
            }
            Values::Strings(strings) => match form {
                Form::Text => {
                    out.push(b'"');
                    self.text(leaf, at);
                }
                Form::Json if !text::is_value(strings.get(at)) => return Err(GaveUp),
                Form::Json => out.extend_from_slice(strings.get(at)),
                _ => leaves::push_bytes(strings.get(at), out),
            },
        }
        Ok(())
    }

    /// Append what follows the first quote of a text.
    #[inline(always)]
    fn text(&mut self, leaf: usize, at: usize) {
        let LeafCursor { cursor, is_plain } = &self.leaves[leaf];
        let Values::Strings(strings) = &cursor.leaf.values else { unreachable!("it is a text") };
        if *is_plain {
            let (start, end) = strings.place(at);
            text::push_part(strings.heap(), start, end - start, &mut self.out);
        } else {
            text::push_escaped(strings.get(at), &mut self.out);
        }
        self.out.push(b'"');
    }

    /// Pass one slot, which has no value, in all leaves.
    fn skip(&mut self, value: &ValueWriter) {
        match &value.node {
            Node::Leaf(_) => self.leaves[value.first].cursor.skip(),
            Node::List { item, .. } => self.skip(item),
            Node::Map { key, value, .. } => {
                self.skip(key);
                self.skip(value);
            }
            Node::Object(fields) => fields.iter().for_each(|field| self.skip(&field.value)),
        }
    }
}
