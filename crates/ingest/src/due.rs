//! Parses delays and priorities. Errors do not name the field, because headers and JSON use different names.

use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use domain::{
    Due,
    duration::{self, InvalidDuration},
    message::{DELAY_MS_MAX, PRIORITY_MAX},
};

/// The allowed form of a priority.
pub(super) const PRIORITY_FORM: &str = "a priority is a digit from 0 to 9; 9 goes first";

const DELAY_FORM: &str =
    "a delay is a number with a unit (ms, s, m, h or d), such as 1500ms, 15s or 2h";
const TIME_FORM: &str = "a time is written as in RFC 3339, such as 2026-11-21T10:00:00Z";
const TOO_LATE: &str = "a message may be delayed for a year (365d) at most";

/// Parses a delay into milliseconds.
pub(super) fn parse_delay(text: &str) -> Result<u64, String> {
    duration::parse_ms(text).map_err(|error| match error {
        InvalidDuration::Form => DELAY_FORM.to_owned(),
        InvalidDuration::TooLong => TOO_LATE.to_owned(),
    })
}

/// The due time for this delay; `None` without a delay.
pub(super) fn after(delay_ms: u64) -> Result<Option<Due>, String> {
    match delay_ms {
        0 => Ok(None),
        1..=DELAY_MS_MAX => Ok(Some(Due::After(delay_ms))),
        _ => Err(TOO_LATE.to_owned()),
    }
}

/// Parses the earliest time of processing into a due time. Keeps a time in the past: the clock of Redis decides whether
/// it has passed.
pub(super) fn at(text: &str, now_ms: u64) -> Result<Option<Due>, String> {
    let time = OffsetDateTime::parse(text, &Rfc3339).map_err(|_| TIME_FORM.to_owned())?;
    // Times before 1970 count as 1970. Years of four digits are far below 2^64 ms.
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
    fn a_delay_is_a_duration_of_at_most_a_year() {
        assert_eq!(parse_delay("365d"), Ok(DELAY_MS_MAX));
        assert_eq!(parse_delay("15"), Err(DELAY_FORM.to_owned()));
        assert_eq!(parse_delay("99999999999999999999s"), Err(TOO_LATE.to_owned()));
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
