//! The wait before the next attempt.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Exponential backoff with a cap and full jitter: attempt n waits a random time between zero
/// and `min(max, base × 2^(n−1))`. The rule is "full jitter" of Marc Brooker, *Exponential
/// Backoff and Jitter*, AWS Architecture Blog, 2015: it spreads retries best for the least work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backoff {
    /// The upper limit of the first wait, in milliseconds.
    pub base_ms: u64,
    /// The upper limit of all waits, in milliseconds.
    pub max_ms: u64,
}

impl Backoff {
    /// The wait after the failed attempt number `attempt` (from 1). `chance` is a random number
    /// in `[0, 1)`.
    pub fn wait(&self, attempt: u32, chance: f64) -> Duration {
        let doublings = attempt.saturating_sub(1).min(63);
        let ceiling_ms = self.base_ms.saturating_mul(1u64 << doublings).min(self.max_ms);
        Duration::from_millis((ceiling_ms as f64 * chance) as u64)
    }
}

/// Reads a wait that another program wrote as a number of these units, with or without a fraction. A number that is too
/// large gives the longest wait. `None`: the text is not such a number.
pub fn wait_in_units(text: &str, unit: Duration) -> Option<Duration> {
    if !text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return None;
    }
    let seconds = text.parse::<f64>().ok()? * unit.as_secs_f64();
    Some(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_that_is_too_long_is_the_longest() {
        let read = |text| wait_in_units(text, Duration::from_millis(1));
        assert_eq!(read("1500"), Some(Duration::from_millis(1500)));
        assert_eq!(
            (read("1.5"), read("0")),
            (Some(Duration::from_micros(1500)), Some(Duration::ZERO))
        );
        let long = "9".repeat(400);
        for text in ["99999999999999999999999", "99999999999999999999999.9", &long] {
            assert_eq!(wait_in_units(text, Duration::from_secs(1)), Some(Duration::MAX), "{text}");
        }
        for text in ["", ".", "-1", "1.2.3", "1e9", "inf", "NaN", "+1", "1 s"] {
            assert_eq!(read(text), None, "{text:?}");
        }
    }

    const BACKOFF: Backoff = Backoff { base_ms: 200, max_ms: 30_000 };

    #[test]
    fn the_ceiling_doubles_up_to_the_cap() {
        let almost = 1.0 - f64::EPSILON;
        let ceilings: Vec<u64> = [1, 2, 3, 8, 9, 1000]
            .iter()
            .map(|&n| BACKOFF.wait(n, almost).as_millis() as u64 + 1)
            .collect();
        assert_eq!(ceilings, [200, 400, 800, 25_600, 30_000, 30_000]);
        assert_eq!(BACKOFF.wait(5, 0.0), Duration::ZERO);
    }
}
