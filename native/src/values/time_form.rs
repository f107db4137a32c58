//! The form of ISO 8601 in which the times of a column were written: see `segment/time_form.py`.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// A form, as the package has it: what stands between date and time of day, the digits of a fraction,
/// whether a whole second has them, too, and how UTC is written.
pub type Described = (String, Option<u8>, Option<bool>, String);

const ZONES: [&str; 3] = ["", "Z", "+00:00"];
/// The characters of a time of day without a fraction.
const CLOCK: usize = 8;

/// A form, or what is known of it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TimeForm {
    /// None: it is one of times of day.
    pub separator: Option<u8>,
    /// None: nobody knows, or six, or nine if it needs so many.
    pub digits: Option<u8>,
    pub shows_zeros: Option<bool>,
    /// The place of its text.
    zone: u8,
}

impl TimeForm {
    /// The one of columns that were not JSON.
    pub fn of(has_date: bool, has_zone: bool) -> Self {
        let separator = has_date.then_some(b'T');
        Self { separator, digits: None, shows_zeros: None, zone: u8::from(has_zone) }
    }

    pub fn read((separator, digits, shows_zeros, zone): &Described) -> Self {
        let zone = ZONES.iter().position(|text| text == zone).unwrap_or(0) as u8;
        Self {
            separator: separator.bytes().next(),
            digits: *digits,
            shows_zeros: *shows_zeros,
            zone,
        }
    }

    pub fn described(self) -> Described {
        let separator = self.separator.map(char::from).map_or_else(String::new, String::from);
        (separator, self.digits, self.shows_zeros, self.zone().to_owned())
    }

    /// What a time tells of its form, in which all that looks like a digit is one; None: it has one that
    /// is not written.
    pub fn seen(text: &str, has_date: bool) -> Option<Self> {
        let (separator, time) = match (has_date, text.as_bytes().get(10)) {
            (true, Some(&separator @ (b'T' | b' '))) => (Some(separator), &text[11..]),
            (true, _) => return None,
            (false, _) => (None, text),
        };
        let zone = ZONES.iter().rposition(|zone| time.ends_with(zone))?;
        let clock = &time.as_bytes()[..time.len() - ZONES[zone].len()];
        let fraction = match clock.get(CLOCK..)? {
            [] => &[][..],
            [b'.', digits @ ..] if (1..=9).contains(&digits.len()) => digits,
            _ => return None,
        };
        let is_zero = fraction.iter().all(|&digit| digit == b'0');
        Some(Self {
            separator,
            digits: (!fraction.is_empty()).then_some(fraction.len() as u8),
            shows_zeros: is_zero.then_some(!fraction.is_empty()),
            zone: zone as u8,
        })
    }

    pub fn zone(self) -> &'static str {
        ZONES[usize::from(self.zone)]
    }

    /// What is known from both; None if no form is both.
    fn joined(self, other: Self) -> Option<Self> {
        if (self.separator, self.zone) != (other.separator, other.zone) {
            return None;
        }
        let digits = known(self.digits, other.digits)?;
        let shows_zeros = known(self.shows_zeros, other.shows_zeros)?;
        Some(Self { digits, shows_zeros, ..self })
    }

    fn pack(self) -> u32 {
        let zeros = self.shows_zeros.map_or(0, |shows| 1 + u8::from(shows));
        u32::from_le_bytes([
            self.separator.unwrap_or(0),
            self.digits.unwrap_or(0),
            zeros,
            self.zone + 1,
        ])
    }

    fn unpack(packed: u32) -> Option<Self> {
        let [separator, digits, zeros, zone] = packed.to_le_bytes();
        let separator = (separator > 0).then_some(separator);
        let digits = (digits > 0).then_some(digits);
        let shows_zeros = (zeros > 0).then_some(zeros == 2);
        Some(Self { separator, digits, shows_zeros, zone: zone.checked_sub(1)? })
    }
}

/// The one that is known; None: they differ.
fn known<T: PartialEq>(one: Option<T>, other: Option<T>) -> Option<Option<T>> {
    match (one, other) {
        (Some(one), Some(other)) if one != other => None,
        (one, other) => Some(one.or(other)),
    }
}

/// What is known of the form of a column's times; each of them may tell more.
#[derive(Default)]
pub struct KnownForm(AtomicU32);

impl KnownForm {
    /// Whether a time is in the form; if it could be, that is the form from now on.
    pub fn takes(&self, seen: TimeForm) -> bool {
        let mut fits = true;
        let _ = self.0.fetch_update(Relaxed, Relaxed, |packed| {
            let joined = TimeForm::unpack(packed).map_or(Some(seen), |known| known.joined(seen));
            fits = joined.is_some();
            joined.map(TimeForm::pack).filter(|&joined| joined != packed)
        });
        fits
    }

    /// The form, if a time has been seen.
    pub fn get(&self) -> Option<TimeForm> {
        TimeForm::unpack(self.0.load(Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(texts: &[&str]) -> (KnownForm, Vec<bool>) {
        let form = KnownForm::default();
        let takes = |text: &&str| TimeForm::seen(text, true).is_some_and(|seen| form.takes(seen));
        let taken = texts.iter().map(takes).collect();
        (form, taken)
    }

    #[test]
    fn a_time_tells_its_form() {
        assert_eq!(
            TimeForm::seen("2026-01-31 12:00:00.120+00:00", true).unwrap().described(),
            (" ".into(), Some(3), None, "+00:00".into())
        );
        assert_eq!(
            TimeForm::seen("12:00:00.000000", false).unwrap().described(),
            (String::new(), Some(6), Some(true), String::new())
        );
        for text in
            ["2026-01-31t12:00:00", "2026-01-31T12:00", "2026-01-31T12:00:00z", "2026-01-31"]
        {
            assert_eq!(TimeForm::seen(text, true), None, "{text}");
        }
    }

    #[test]
    fn each_time_may_tell_more_until_the_form_is_known() {
        let (form, taken) = known(&[
            "2026-01-31T12:00:00Z",
            "2026-01-31T12:00:00.120Z",
            "2026-01-31T12:00:00.000Z",
            "2026-01-31T12:00:00.12Z",
            "2026-01-31T12:00:00.120",
            "2026-01-31 12:00:00.120Z",
        ]);
        assert_eq!(taken, [true, true, false, false, false, false]);
        assert_eq!(form.get().unwrap().described(), ("T".into(), Some(3), Some(false), "Z".into()));
        let (form, taken) = known(&["2026-01-31T12:00:00.000Z", "2026-01-31T12:00:00Z"]);
        assert_eq!(taken, [true, false]);
        let form = form.get().unwrap();
        assert_eq!(TimeForm::read(&form.described()), form);
    }
}
