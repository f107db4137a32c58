//! JSON objects to columns, read by jiter. Whatever it does not surely read as Python's `json` does is
//! not taken.

use jiter::{Jiter, JiterError, NumberAny, NumberInt, Peek};

use crate::plain::times;
use crate::produce::columns::{Column, Map, Node, NotTaken, Struct, Taken};
use crate::produce::from_rows::Template;
use crate::produce::from_values::Kind;
use crate::produce::row_format::RowAppender;
use crate::values::half;
use crate::values::json::LONG_NUMBER;
use crate::values::leaf::{Leaf, Values};
use crate::values::size::Size;

/// The names of a longer object are not compared with each other.
pub const MOST_PAIRS: usize = 64;

/// Append an object to the columns of a row; `is_exact`: see `PlainFormat`.
pub fn append_row(
    value: &[u8],
    is_exact: bool,
    appender: &mut RowAppender,
    leaves: &mut [Leaf],
) -> Taken {
    let RowAppender { columns, template, appending, .. } = appender;
    let json = Jiter::with_tape(value, std::mem::take(&mut appending.scratch));
    let mut reader = Reader { json, is_exact, size: Size::default() };
    let taken = reader.row(columns, template, leaves);
    appending.size += reader.size;
    appending.scratch = reader.json.into_tape();
    taken
}

pub struct Reader<'j> {
    pub json: Jiter<'j>,
    pub is_exact: bool,
    pub size: Size,
}

impl Reader<'_> {
    fn row(
        &mut self,
        fields: &mut [Column],
        template: &mut Template,
        leaves: &mut [Leaf],
    ) -> Taken {
        let first = self.json.peek().map_err(wrong)?;
        self.record(first, fields, template, 0, leaves)?;
        self.json.finish().map_err(wrong)
    }

    fn record(
        &mut self,
        first: Peek,
        fields: &mut [Column],
        template: &mut Template,
        rep: u8,
        leaves: &mut [Leaf],
    ) -> Taken {
        if first != Peek::Object {
            return Err(NotTaken);
        }
        template.begin();
        let mut count = 0;
        // Names as they come: one with an escape is none of the fields'.
        let mut name = self.json.next_object_bytes().map_err(wrong)?;
        while let Some(bytes) = name {
            let column = template.next(bytes).ok_or(NotTaken)?;
            let first = self.json.peek().map_err(wrong)?;
            self.value(first, &mut fields[column], rep, leaves)?;
            count += 1;
            name = self.json.next_key_bytes().map_err(wrong)?;
        }
        // A default may be missing.
        if count == fields.len() { Ok(()) } else { Err(NotTaken) }
    }

    #[inline]
    fn value(&mut self, first: Peek, column: &mut Column, rep: u8, leaves: &mut [Leaf]) -> Taken {
        if first == Peek::Null {
            self.json.known_null().map_err(wrong)?;
            self.size.nbytes += column.append_null(rep, leaves)?;
            return Ok(());
        }
        let def = column.def;
        match &mut column.node {
            Node::Leaf { kind, leaf } => {
                let leaf = &mut leaves[*leaf];
                self.leaf(first, kind, &mut leaf.values)?;
                leaf.present(rep);
                Ok(())
            }
            Node::List { rep: item_rep, item, item_size, size } => {
                let count = self.list(first, item, (rep, *item_rep), def, leaves)?;
                self.size += *item_size * count;
                if size.is_some_and(|size| size != count) { Err(NotTaken) } else { Ok(()) }
            }
            Node::Map(map) => self.map(first, map, rep, def, leaves),
            Node::Struct(inner) => {
                let Struct { template, fields } = &mut **inner;
                self.record(first, fields, template, rep, leaves)
            }
        }
    }

    /// Append a list, and return how many items it has. `reps` are the first one's and the others'.
    fn list(
        &mut self,
        first: Peek,
        item: &mut Column,
        reps: (u8, u8),
        def: u8,
        leaves: &mut [Leaf],
    ) -> Result<usize, NotTaken> {
        if first != Peek::Array {
            return Err(NotTaken);
        }
        let mut count = 0;
        let mut next = self.json.known_array().map_err(wrong)?;
        while let Some(first) = next {
            let rep = if count == 0 { reps.0 } else { reps.1 };
            self.value(first, item, rep, leaves)?;
            count += 1;
            next = self.json.array_step().map_err(wrong)?;
        }
        if count == 0 {
            self.size.nbytes += item.append_absent(reps.0, def, leaves);
        }
        Ok(count)
    }

    fn map(&mut self, first: Peek, map: &mut Map, rep: u8, def: u8, leaves: &mut [Leaf]) -> Taken {
        let Node::Leaf { kind: Kind::Text, leaf: keys } = map.key.node else {
            return Err(NotTaken);
        };
        if first != Peek::Object {
            return Err(NotTaken);
        }
        let mut count = 0;
        let mut name = self.json.known_object().map_err(wrong)?;
        while let Some(text) = name {
            let Values::Strings(strings) = &mut leaves[keys].values else { return Err(NotTaken) };
            let pushed = strings.len();
            let is_name = |value| strings.get(value) == text.as_bytes();
            if count == MOST_PAIRS || (pushed - count..pushed).any(is_name) {
                return Err(NotTaken);
            }
            self.size += strings.push_bytes(text.as_bytes()).ok_or(NotTaken)?;
            let rep = if count == 0 { rep } else { map.rep };
            leaves[keys].present(rep);
            let first = self.json.peek().map_err(wrong)?;
            self.value(first, &mut map.value, rep, leaves)?;
            count += 1;
            name = self.json.next_key().map_err(wrong)?;
        }
        if count == 0 {
            self.size.nbytes += map.append_absent(rep, def, leaves);
        }
        self.size += map.pair_size * count;
        Ok(())
    }

    /// Append a value that is not null.
    #[inline(always)]
    fn leaf(&mut self, first: Peek, kind: &Kind, values: &mut Values) -> Taken {
        match (values, kind) {
            (Values::I64(out), Kind::Physical) => out.push(self.int(first)?),
            (Values::F64(out), _) => out.push(self.float(first)?),
            (Values::Strings(out), Kind::Text) => {
                let text = text(&mut self.json, first)?;
                self.size += out.push_bytes(text.as_bytes()).ok_or(NotTaken)?;
            }
            (Values::Bool(out), _) => out.push(self.json.known_bool(first).map_err(wrong)?),
            (values, kind) => return self.rare(first, kind, values),
        }
        Ok(())
    }

    #[inline(never)]
    pub fn rare(&mut self, first: Peek, kind: &Kind, values: &mut Values) -> Taken {
        match (values, kind) {
            (values, Kind::Date | Kind::Timestamp { .. } | Kind::Time { .. }) => {
                return self.time(first, kind, values);
            }
            (Values::I32(out), Kind::Int { least, most }) => {
                let number = self.int(first)?;
                if !(i64::from(*least)..=i64::from(*most)).contains(&number) {
                    return Err(NotTaken);
                }
                out.push(number as i32);
            }
            (Values::I32(out), Kind::UnsignedInt) => {
                out.push(u32::try_from(self.int(first)?).map_err(|_| NotTaken)? as i32);
            }
            (Values::I64(out), Kind::UnsignedLong) => {
                out.push(u64::try_from(self.int(first)?).map_err(|_| NotTaken)? as i64);
            }
            (Values::I64(out), Kind::Duration { .. }) => out.push(self.int(first)?),
            (Values::F32(out), _) => {
                let short = self.float(first)? as f32; // rounded, but not to infinity
                out.push(if short.is_finite() { short } else { return Err(NotTaken) });
            }
            (Values::Strings(out), Kind::Symbol(symbols)) => {
                let text = text(&mut self.json, first)?;
                if symbols.binary_search_by(|symbol| (**symbol).cmp(text)).is_err() {
                    return Err(NotTaken);
                }
                self.size += out.push_bytes(text.as_bytes()).ok_or(NotTaken)?;
            }
            (Values::Fixed { bytes: out, .. }, Kind::Decimal(decimals)) => {
                let digits = match first {
                    Peek::String => text(&mut self.json, first)?.as_bytes(),
                    _ => self.json.known_number_bytes(first).map_err(wrong)?,
                };
                if !is_plain_decimal(digits) || !decimals.append(digits, out) {
                    return Err(NotTaken);
                }
            }
            (Values::Fixed { bytes: out, .. }, Kind::Half) => {
                let bits = half::narrow(self.float(first)?).ok_or(NotTaken)?;
                out.extend_from_slice(&bits.to_le_bytes());
            }
            _ => return Err(NotTaken), // bytes come in base64
        }
        Ok(())
    }

    /// Append a date or a time, from text or from the number of its units.
    fn time(&mut self, first: Peek, kind: &Kind, values: &mut Values) -> Taken {
        let number = match (first, kind) {
            (Peek::String, kind) => {
                let text = text(&mut self.json, first)?;
                match kind {
                    Kind::Timestamp { unit, has_zone } => times::ticks(text, *unit, *has_zone),
                    Kind::Time { unit } => times::time_of_day(text, *unit),
                    _ => times::days(text),
                }
                .ok_or(NotTaken)?
            }
            _ => self.int(first)?,
        };
        if let Kind::Time { unit } = kind
            && !(0..86_400 * unit.per_second()).contains(&number)
        {
            return Err(NotTaken);
        }
        match values {
            Values::I32(out) => out.push(i32::try_from(number).map_err(|_| NotTaken)?),
            Values::I64(out) => out.push(number),
            _ => return Err(NotTaken),
        }
        Ok(())
    }

    #[inline(always)]
    fn int(&mut self, first: Peek) -> Result<i64, NotTaken> {
        match self.json.known_number(first).map_err(wrong)? {
            NumberAny::Int(NumberInt::Int(number)) => Ok(number),
            _ => Err(NotTaken),
        }
    }

    #[inline(always)]
    fn float(&mut self, first: Peek) -> Result<f64, NotTaken> {
        let start = self.json.current_index();
        let number = match self.json.known_number(first).map_err(wrong)? {
            NumberAny::Int(NumberInt::Int(number)) => number as f64,
            NumberAny::Float(number) => number,
        };
        let is_long = self.json.current_index() - start > LONG_NUMBER;
        if !number.is_finite() || (self.is_exact && is_long) {
            return Err(NotTaken);
        }
        Ok(number)
    }
}

#[inline(always)]
pub fn text<'r>(json: &'r mut Jiter<'_>, first: Peek) -> Result<&'r str, NotTaken> {
    if first == Peek::String { json.known_str().map_err(wrong) } else { Err(NotTaken) }
}

#[cold]
pub fn wrong(_: JiterError) -> NotTaken {
    NotTaken
}

/// Whether this is a number such as -12.50, without an exponent.
fn is_plain_decimal(text: &[u8]) -> bool {
    let text = text.strip_prefix(b"-").unwrap_or(text);
    let mut parts = text.splitn(2, |&byte| byte == b'.');
    parts.all(|digits| !digits.is_empty() && digits.iter().all(u8::is_ascii_digit))
}
