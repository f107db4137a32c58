//! The leaves of JSON objects that may differ: values that fit, those that surely do not, and others,
//! which are not taken.

use jiter::{Jiter, NumberAny, NumberInt, Peek};

use crate::plain::json::{text, wrong};
use crate::plain::lenient::Lenient;
use crate::plain::numbers;
use crate::produce::columns::NotTaken;
use crate::produce::from_values::Kind;
use crate::values::json::LONG_NUMBER;
use crate::values::leaf::Values;

/// The days since 1970 of the years from 1 to 9999.
const DAYS: std::ops::Range<i64> = -719_162..2_932_897;

impl<'j> Lenient<'j, '_> {
    /// Append a value that is not null; false: it does not fit.
    #[inline(always)]
    pub fn leaf(
        &mut self,
        first: Peek,
        kind: &Kind,
        leaf: usize,
        values: &mut Values,
    ) -> Result<bool, NotTaken> {
        match (values, kind) {
            (Values::I64(out), Kind::Physical) if first.is_num() => {
                let Some(number) = self.whole(first)? else { return Ok(false) };
                out.push(number);
            }
            (Values::F64(out), _) if first.is_num() => {
                let (number, text) = self.number(first)?;
                match numbers::double_keeps(number, text) {
                    Some(true) if self.rules.reverses && numbers::is_large_whole(number, text) => {
                        return Ok(false);
                    }
                    Some(true) => out.push(number),
                    kept => return kept.ok_or(NotTaken),
                }
            }
            (Values::Strings(out), Kind::Text) if self.rules.json_texts[leaf] => {
                let start = self.reader.json.current_index();
                self.reader.json.known_skip(first).map_err(wrong)?;
                let end = self.rest.text.len();
                self.copy(start)?;
                self.reader.size += out.push_bytes(&self.rest.text[end..]).ok_or(NotTaken)?;
                self.rest.text.truncate(end);
            }
            (Values::Strings(out), Kind::Text) if first == Peek::String => {
                let text = text(&mut self.reader.json, first)?;
                self.reader.size += out.push_bytes(text.as_bytes()).ok_or(NotTaken)?;
            }
            (Values::Bool(out), _) if matches!(first, Peek::True | Peek::False) => {
                out.push(self.reader.json.known_bool(first).map_err(wrong)?);
            }
            (values, kind) => return self.rare(first, kind, leaf, values),
        }
        Ok(true)
    }

    #[inline(never)]
    fn rare(
        &mut self,
        first: Peek,
        kind: &Kind,
        leaf: usize,
        values: &mut Values,
    ) -> Result<bool, NotTaken> {
        if !may_be(first, kind, values) {
            return if self.rules.coerces { self.coerced(first, kind, values) } else { Ok(false) };
        }
        if self.rules.reverses
            && let Some(fits) = self.reversible(first, kind, leaf, values)?
        {
            return Ok(fits);
        }
        match (values, kind) {
            (values, Kind::Timestamp { unit, .. } | Kind::Time { unit }) => {
                let start = self.reader.json.current_index();
                self.reader.rare(first, kind, values)?;
                let text = self.reader.json.slice_to_current(start);
                let is_text = first == Peek::String && !self.rules.coerces;
                let cuts = is_text && has_finer_digits(text, unit.per_second());
                if cuts || !is_readable(kind, values) {
                    return not_taken(values);
                }
            }
            (values, Kind::Date) => {
                self.reader.rare(first, kind, values)?;
                if !is_readable(kind, values) {
                    return not_taken(values);
                }
            }
            (Values::I32(out), Kind::Int { least, most }) => match self.whole(first)? {
                Some(number) if (i64::from(*least)..=i64::from(*most)).contains(&number) => {
                    out.push(number as i32);
                }
                _ => return Ok(false),
            },
            (Values::I32(out), Kind::UnsignedInt) => match self.whole(first)?.map(u32::try_from) {
                Some(Ok(number)) => out.push(number as i32),
                _ => return Ok(false),
            },
            (Values::I64(out), Kind::UnsignedLong) => match self.whole(first)?.map(u64::try_from) {
                Some(Ok(number)) => out.push(number as i64),
                _ => return Ok(false),
            },
            (Values::F32(out), _) => {
                let (number, text) = self.number(first)?;
                match numbers::float_keeps(number as f32, text) {
                    Some(true) if self.rules.reverses && numbers::is_large_whole(number, text) => {
                        return Ok(false);
                    }
                    Some(true) => out.push(number as f32),
                    kept => return kept.ok_or(NotTaken),
                }
            }
            (values, Kind::Half) => {
                let start = self.reader.json.current_index();
                self.reader.rare(first, kind, values)?;
                let text = self.reader.json.slice_to_current(start);
                if numbers::half_keeps(text).is_none() {
                    return not_taken(values);
                }
            }
            (values, kind) => self.reader.rare(first, kind, values)?,
        }
        Ok(true)
    }

    /// Append a text as the number or boolean that it says, or a number as its text.
    fn coerced(&mut self, first: Peek, kind: &Kind, values: &mut Values) -> Result<bool, NotTaken> {
        let json = &mut self.reader.json;
        match (values, kind) {
            (Values::Strings(out), Kind::Text) if first.is_num() => {
                let digits = json.known_number_bytes(first).map_err(wrong)?;
                if digits.len() > LONG_NUMBER {
                    return Err(NotTaken);
                }
                self.reader.size += out.push_bytes(digits).ok_or(NotTaken)?;
                Ok(true)
            }
            (Values::I64(out), Kind::Physical) if first == Peek::String => {
                let Some((number, text)) = number_in(text(json, first)?)? else { return Ok(false) };
                let whole = match number {
                    NumberAny::Int(NumberInt::Int(number)) => Some(number),
                    NumberAny::Float(number) => whole_of(number, text)?,
                };
                out.extend(whole);
                Ok(whole.is_some())
            }
            (Values::F64(out), _) if first == Peek::String => {
                let Some((number, text)) = number_in(text(json, first)?)? else { return Ok(false) };
                let number = float_of(number);
                let is_kept = numbers::double_keeps(number, text).ok_or(NotTaken)?;
                out.extend(is_kept.then_some(number));
                Ok(is_kept)
            }
            (Values::Bool(out), _) if first == Peek::String => {
                let text = text(json, first)?;
                let is_boolean = matches!(text, "true" | "false");
                if is_boolean {
                    out.push(text == "true");
                }
                Ok(is_boolean)
            }
            _ if first == Peek::String || first.is_num() => Err(NotTaken),
            _ => Ok(false),
        }
    }

    /// The next number as an integer; None: it is none.
    #[inline(always)]
    fn whole(&mut self, first: Peek) -> Result<Option<i64>, NotTaken> {
        let start = self.reader.json.current_index();
        match self.reader.json.known_number(first).map_err(wrong)? {
            NumberAny::Int(NumberInt::Int(number)) => Ok(Some(number)),
            NumberAny::Float(number) => whole_of(number, self.reader.json.slice_to_current(start)),
        }
    }

    /// The next number, and its text.
    #[inline(always)]
    fn number(&mut self, first: Peek) -> Result<(f64, &'j [u8]), NotTaken> {
        let start = self.reader.json.current_index();
        let number = float_of(self.reader.json.known_number(first).map_err(wrong)?);
        Ok((number, self.reader.json.slice_to_current(start)))
    }
}

fn float_of(number: NumberAny) -> f64 {
    match number {
        NumberAny::Int(NumberInt::Int(number)) => number as f64,
        NumberAny::Float(number) => number,
    }
}

/// A number with a point or an exponent as an integer; None: it is none.
fn whole_of(number: f64, text: &[u8]) -> Result<Option<i64>, NotTaken> {
    let whole = numbers::whole(number, text);
    if whole.is_none() && number.fract() == 0.0 { Err(NotTaken) } else { Ok(whole) }
}

/// The number that a text is, as JSON has it; None: it is none.
fn number_in(text: &str) -> Result<Option<(NumberAny, &[u8])>, NotTaken> {
    let text = text.as_bytes();
    let (Some(b'-' | b'0'..=b'9'), Some(b'0'..=b'9')) = (text.first(), text.last()) else {
        return Ok(None);
    };
    let mut json = Jiter::new(text);
    match json.next_number() {
        Ok(number) if json.current_index() == text.len() => Ok(Some((number, text))),
        Ok(_) => Ok(None),
        Err(_) if text.len() > LONG_NUMBER => Err(NotTaken), // maybe for its many digits
        Err(_) => Ok(None),
    }
}

/// Do not take a row whose last value has no level yet.
pub fn not_taken<T>(values: &mut Values) -> Result<T, NotTaken> {
    values.truncate(values.len() - 1);
    Err(NotTaken)
}

/// Whether values that begin so may be some of a leaf.
fn may_be(first: Peek, kind: &Kind, values: &Values) -> bool {
    let is_time = matches!(kind, Kind::Date | Kind::Timestamp { .. } | Kind::Time { .. });
    let is_bytes =
        matches!((values, kind), (Values::Strings(_) | Values::Fixed { .. }, Kind::Physical));
    let is_text = is_bytes || matches!(kind, Kind::Text | Kind::Symbol(_));
    match first {
        Peek::String => is_time || is_text,
        Peek::True | Peek::False => matches!(values, Values::Bool(_)),
        _ if first.is_num() => !is_text && !matches!(values, Values::Bool(_)),
        _ => false,
    }
}

/// Whether the last date or time is in the years from 1 to 9999.
fn is_readable(kind: &Kind, values: &Values) -> bool {
    match (values, kind) {
        (Values::I32(out), Kind::Date) => {
            out.last().is_none_or(|&days| DAYS.contains(&i64::from(days)))
        }
        (Values::I64(out), Kind::Timestamp { unit, .. }) => {
            let day = 86_400 * unit.per_second();
            out.last().is_none_or(|time| DAYS.contains(&time.div_euclid(day)))
        }
        _ => true,
    }
}

/// Whether a time in JSON has digits that its column has not; maybe if there is an escape in it.
pub fn has_finer_digits(text: &[u8], per_second: i64) -> bool {
    let kept = per_second.ilog10() as usize;
    let mut fraction = text.splitn(2, |&byte| byte == b'.').nth(1).unwrap_or_default().iter();
    text.contains(&b'\\')
        || fraction.by_ref().take(kept).all(u8::is_ascii_digit)
            && fraction.take_while(|byte| byte.is_ascii_digit()).any(|&digit| digit != b'0')
}
