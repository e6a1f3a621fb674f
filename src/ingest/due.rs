//! Parses delays and priorities. Errors do not name the field, because headers and JSON name it
//! differently.

use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use crate::domain::{
    Due,
    message::{DELAY_MS_MAX, PRIORITY_MAX},
};

/// The allowed form of a priority.
pub(super) const PRIORITY_FORM: &str = "a priority is a digit from 0 to 9; 9 goes first";

const DELAY_FORM: &str =
    "a delay is a number with a unit (ms, s, m, h or d), such as 1500ms, 15s or 2h";
const TIME_FORM: &str = "a time is written as in RFC 3339, such as 2026-11-21T10:00:00Z";
const TOO_LATE: &str = "a message may be delayed for a year (365d) at most";

/// Reads a delay, in milliseconds.
pub(super) fn parse_delay(text: &str) -> Result<u64, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let unit_ms: u64 = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(DELAY_FORM.to_owned()),
    };
    if number.is_empty() {
        return Err(DELAY_FORM.to_owned());
    }
    // A number too large to parse is also too long a delay.
    let delay_ms = number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit_ms));
    delay_ms.ok_or_else(|| TOO_LATE.to_owned())
}

/// The due time for this delay; `None` if at once.
pub(super) fn after(delay_ms: u64) -> Result<Option<Due>, String> {
    match delay_ms {
        0 => Ok(None),
        1..=DELAY_MS_MAX => Ok(Some(Due::After(delay_ms))),
        _ => Err(TOO_LATE.to_owned()),
    }
}

/// The due time for this earliest time. A time in the past stays as it is: Redis's clock decides
/// whether it has passed.
pub(super) fn at(text: &str, now_ms: u64) -> Result<Option<Due>, String> {
    let time = OffsetDateTime::parse(text, &Rfc3339).map_err(|_| TIME_FORM.to_owned())?;
    // Times before 1970 count as 1970; years of four digits are far below 2^64 ms.
    let at_ms = (time.unix_timestamp_nanos() / 1_000_000).max(0) as u64;
    if at_ms > now_ms.saturating_add(DELAY_MS_MAX) {
        return Err(TOO_LATE.to_owned());
    }
    Ok(Some(Due::At(at_ms)))
}

/// Checks the range of a priority.
pub(super) fn check_priority(number: u64) -> Result<u8, String> {
    u8::try_from(number)
        .ok()
        .filter(|&number| number <= PRIORITY_MAX)
        .ok_or_else(|| PRIORITY_FORM.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delay_is_a_number_with_a_unit() {
        let read = [
            ("0ms", 0),
            ("1500ms", 1_500),
            ("15s", 15_000),
            ("15m", 900_000),
            ("2h", 7_200_000),
            ("1d", 86_400_000),
            ("365d", DELAY_MS_MAX),
            ("007s", 7_000),
        ];
        for (text, ms) in read {
            assert_eq!(parse_delay(text), Ok(ms), "{text}");
        }
        for text in
            ["", "15", "s", "ms", "-1s", "+1s", "1.5s", "1 s", " 1s", "1S", "1min", "1s1s", "٣s"]
        {
            assert_eq!(parse_delay(text), Err(DELAY_FORM.to_owned()), "{text:?}");
        }
        for text in ["99999999999999999999s", "18446744073709551615d"] {
            assert_eq!(parse_delay(text), Err(TOO_LATE.to_owned()), "{text}");
        }
        assert_eq!((after(0), after(1)), (Ok(None), Ok(Some(Due::After(1)))));
        assert_eq!(after(DELAY_MS_MAX), Ok(Some(Due::After(DELAY_MS_MAX))));
        assert_eq!(after(DELAY_MS_MAX + 1), Err(TOO_LATE.to_owned()));
    }

    #[test]
    fn a_time_has_an_offset_and_is_within_a_year() {
        let now_ms = 1_795_255_200_000; // 2026-11-21T10:00:00Z
        let read = [
            ("2026-11-21T10:00:00Z", now_ms),
            ("2026-11-21T11:00:00.5+01:00", now_ms + 500),
            ("2027-11-21T10:00:00Z", now_ms + DELAY_MS_MAX),
            ("2001-09-09T01:46:40Z", 1_000_000_000_000),
            ("1066-10-14T09:00:00Z", 0),
        ];
        for (text, at_ms) in read {
            assert_eq!(at(text, now_ms), Ok(Some(Due::At(at_ms))), "{text}");
        }
        for text in ["", "tomorrow", "2026-11-21", "2026-11-21T10:00:00", "2026-13-01T00:00:00Z"] {
            assert_eq!(at(text, now_ms), Err(TIME_FORM.to_owned()), "{text:?}");
        }
        for text in ["2027-11-21T10:00:00.001Z", "9999-12-31T23:59:59Z"] {
            assert_eq!(at(text, now_ms), Err(TOO_LATE.to_owned()), "{text}");
        }
    }

    #[test]
    fn priorities_are_digits() {
        assert_eq!((check_priority(0), check_priority(9)), (Ok(0), Ok(9)));
        for number in [10, 256, u64::MAX] {
            assert_eq!(check_priority(number), Err(PRIORITY_FORM.to_owned()), "{number}");
        }
    }
}
