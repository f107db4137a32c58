//! Values that are written in more than one form: those that come back equal.

use jiter::Peek;

use crate::plain::json::text;
use crate::plain::lenient::Lenient;
use crate::plain::lenient_leaves::{has_finer_digits, not_taken};
use crate::plain::{numbers, times};
use crate::produce::columns::NotTaken;
use crate::produce::from_values::Kind;
use crate::values::leaf::Values;
use crate::values::schema::Unit;
use crate::values::time_form::{KnownForm, TimeForm};

/// All integers of so many digits are doubles.
const FEW_DIGITS: usize = 15;

impl Lenient<'_, '_> {
    /// Append a value of a kind that has more than one form; false: it does not fit. None: of another.
    pub fn reversible(
        &mut self,
        first: Peek,
        kind: &Kind,
        leaf: usize,
        values: &mut Values,
    ) -> Result<Option<bool>, NotTaken> {
        match kind {
            Kind::Date | Kind::Timestamp { .. } | Kind::Time { .. } => {
                self.written_time(first, kind, leaf, values).map(Some)
            }
            Kind::Decimal(decimals) => {
                self.decimal(first, kind, values, decimals.scale == 0).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Append a number to decimals, which are written as integers or not.
    fn decimal(
        &mut self,
        first: Peek,
        kind: &Kind,
        values: &mut Values,
        are_whole: bool,
    ) -> Result<bool, NotTaken> {
        if first == Peek::String {
            return Ok(false);
        }
        let start = self.reader.json.current_index();
        self.reader.rare(first, kind, values)?;
        let text = self.reader.json.slice_to_current(start);
        if text.len() > FEW_DIGITS && numbers::is_whole(text) != are_whole {
            return not_taken(values);
        }
        Ok(true)
    }

    /// Append a date or a time that is in the form in which such are written.
    fn written_time(
        &mut self,
        first: Peek,
        kind: &Kind,
        leaf: usize,
        values: &mut Values,
    ) -> Result<bool, NotTaken> {
        if first != Peek::String {
            return Ok(false);
        }
        let text = text(&mut self.reader.json, first)?;
        let form = &self.rules.time_forms[leaf];
        let number = match *kind {
            Kind::Timestamp { unit, has_zone } => {
                let ticks = times::ticks(text, unit, has_zone);
                if ticks.is_none() && unit == Unit::Nano {
                    return Err(NotTaken); // those of the first day are too far for a product
                }
                ticks.filter(|_| is_kept(text, unit, form, true))
            }
            Kind::Time { unit } => {
                times::time_of_day(text, unit).filter(|_| is_kept(text, unit, form, false))
            }
            Kind::Date => times::days(text),
            _ => None,
        };
        match (number, values) {
            (Some(number), Values::I64(out)) => out.push(number),
            (Some(number), Values::I32(out)) => {
                out.push(i32::try_from(number).map_err(|_| NotTaken)?);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// Whether a time is in the form in which it will be written, and of no finer unit.
fn is_kept(time: &str, unit: Unit, form: &KnownForm, has_date: bool) -> bool {
    !has_finer_digits(time.as_bytes(), unit.per_second())
        && TimeForm::seen(time, has_date).is_some_and(|seen| form.takes(seen))
}
