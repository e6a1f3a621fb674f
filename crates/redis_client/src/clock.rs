//! The time by Redis's clock. The clocks of pods may be wrong by any amount.

use std::{
    sync::{
        OnceLock,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use tokio::time::Instant;

/// If a sample has a longer round trip than this, it replaces the estimate only if it contradicts the estimate.
const ROUND_TRIP_MAX: Duration = Duration::from_millis(100);
/// The value of `AHEAD_MS` before the first sample.
const UNKNOWN: i64 = i64::MIN;

/// How far the server's clock is ahead of the time since [`begun`], in ms.
static AHEAD_MS: AtomicI64 = AtomicI64::new(UNKNOWN);

/// The zero point of all instants in this module.
fn begun() -> Instant {
    static BEGUN: OnceLock<Instant> = OnceLock::new();
    *BEGUN.get_or_init(Instant::now)
}

/// Milliseconds since 1970 by Redis's clock, as this pod estimates it: the last `TIME` plus the time since. Before
/// the first `TIME`, this pod's own clock. Code outside of Redis uses it to decide whether tokens, sessions,
/// signatures and call numbers have expired. For decisions about messages, the scripts use `TIME`.
pub fn server_clock_ms() -> u64 {
    match AHEAD_MS.load(Ordering::Relaxed) {
        UNKNOWN => {
            SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
        }
        ahead_ms => (begun().elapsed().as_millis() as i64).saturating_add(ahead_ms).max(0) as u64,
    }
}

/// Like `server_clock_ms`, as a `SystemTime`.
pub fn server_clock() -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(server_clock_ms())
}

/// Records a sample: a query of the time, sent at `asked`, has just returned `server_ms`.
pub fn note_server_clock(server_ms: u64, asked: Instant) {
    let at = |instant: Instant| instant.saturating_duration_since(begun()).as_millis() as i64;
    let ahead_ms = AHEAD_MS.load(Ordering::Relaxed);
    let ahead_ms = sampled(ahead_ms, server_ms as i64, at(asked), at(Instant::now()));
    AHEAD_MS.store(ahead_ms, Ordering::Relaxed);
}

/// How far the server's clock is ahead, from the earlier estimate and a sample: the query was sent at `asked_ms` and
/// answered at `answered_ms`.
fn sampled(known_ms: i64, server_ms: i64, asked_ms: i64, answered_ms: i64) -> i64 {
    let possible = server_ms - answered_ms..=server_ms - asked_ms;
    let is_vague = answered_ms - asked_ms > ROUND_TRIP_MAX.as_millis() as i64;
    // A vague sample that contradicts the earlier estimate shows that the clock has stepped.
    if is_vague && possible.contains(&known_ms) {
        return known_ms;
    }
    server_ms - (asked_ms + answered_ms) / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vague_samples_replace_only_what_they_contradict() {
        assert_eq!(sampled(UNKNOWN, 5_000, 1_000, 3_000), 3_000, "it is the first");
        assert_eq!(sampled(2_500, 5_000, 1_000, 3_000), 2_500, "it may be right");
        assert_eq!(sampled(2_500, 5_000, 1_000, 1_100), 3_950, "this one is exact");
        assert_eq!(sampled(2_500, 605_000, 1_000, 3_000), 603_000, "the clock has stepped forward");
        assert_eq!(sampled(602_500, 5_000, 1_000, 3_000), 3_000, "and back");
    }
}
