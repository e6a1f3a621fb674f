//! Durations in arguments: `500ms`, `15s`, `2h`.

use std::time::Duration;

use domain::duration::{InvalidDuration, parse_ms};

/// Reads a duration.
pub fn duration(text: &str) -> Result<Duration, InvalidDuration> {
    parse_ms(text).map(Duration::from_millis)
}

/// A parser for durations from `min` to `max`, which are durations as text.
pub fn duration_within(
    min: &'static str,
    max: &'static str,
) -> impl Fn(&str) -> Result<Duration, String> + Clone {
    move |text| {
        let read = |text| duration(text).map_err(|error| error.to_string());
        let (given, range) = (read(text)?, read(min)?..=read(max)?);
        match range.contains(&given) {
            true => Ok(given),
            false => Err(format!("give {min} to {max}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_may_have_limits() {
        let parse = duration_within("1ms", "1m");
        assert_eq!(parse("60s"), Ok(Duration::from_secs(60)));
        assert_eq!(parse("61s"), Err("give 1ms to 1m".to_owned()));
        assert_eq!(parse("0ms"), Err("give 1ms to 1m".to_owned()));
        assert!(parse("60").unwrap_err().contains("a number with a unit"));
        assert_eq!(duration("2h"), Ok(Duration::from_secs(7200)));
    }
}
