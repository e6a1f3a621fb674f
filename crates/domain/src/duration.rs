//! Durations as people write them: `500ms`, `15s`, `15m`, `2h`, `1d`.

/// The text is not a duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidDuration {
    /// The text is not a number with a unit.
    #[error("write a number with a unit (ms, s, m, h or d), such as 500ms, 15s or 2h")]
    Form,
    /// 2^64 milliseconds or more.
    #[error("this is too long")]
    TooLong,
}

/// Reads a duration, in milliseconds.
pub fn parse_ms(text: &str) -> Result<u64, InvalidDuration> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let unit_ms: u64 = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(InvalidDuration::Form),
    };
    if number.is_empty() {
        return Err(InvalidDuration::Form);
    }
    // A number that is too large to parse is also too long a duration.
    let duration_ms = number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit_ms));
    duration_ms.ok_or(InvalidDuration::TooLong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_a_number_with_a_unit() {
        let read = [
            ("0ms", 0),
            ("1500ms", 1_500),
            ("15s", 15_000),
            ("15m", 900_000),
            ("2h", 7_200_000),
            ("1d", 86_400_000),
            ("365d", 31_536_000_000),
            ("007s", 7_000),
        ];
        for (text, ms) in read {
            assert_eq!(parse_ms(text), Ok(ms), "{text}");
        }
        for text in
            ["", "15", "s", "ms", "-1s", "+1s", "1.5s", "1 s", " 1s", "1S", "1min", "1s1s", "٣s"]
        {
            assert_eq!(parse_ms(text), Err(InvalidDuration::Form), "{text:?}");
        }
        for text in ["99999999999999999999s", "18446744073709551615d"] {
            assert_eq!(parse_ms(text), Err(InvalidDuration::TooLong), "{text}");
        }
    }
}
