//! The time by Redis's clock. The clocks of pods may be wrong by any amount.

use std::{
    sync::{
        OnceLock,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use tokio::time::Instant;

/// A sample with a longer round trip is too vague to replace an earlier one.
const ROUND_TRIP_MAX: Duration = Duration::from_millis(100);
/// No sample yet.
const UNKNOWN: i64 = i64::MIN;

/// How far the server's clock is ahead of the time since [`begun`], in ms.
static AHEAD_MS: AtomicI64 = AtomicI64::new(UNKNOWN);

/// The instant of this process that all times here count from.
fn begun() -> Instant {
    static BEGUN: OnceLock<Instant> = OnceLock::new();
    *BEGUN.get_or_init(Instant::now)
}

/// Milliseconds since 1970 by Redis's clock, as this pod estimates it: the last `TIME` plus the
/// time since; before the first `TIME`, this pod's own clock. For display and metrics only; decisions
/// use `TIME` in the scripts.
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

/// Records a sample: Redis, asked at `asked`, has just answered `server_ms`.
pub fn note_server_clock(server_ms: u64, asked: Instant) {
    let base = begun();
    let round_trip = asked.elapsed();
    if round_trip > ROUND_TRIP_MAX && AHEAD_MS.load(Ordering::Relaxed) != UNKNOWN {
        return;
    }
    let said = (asked + round_trip / 2).saturating_duration_since(base).as_millis() as i64;
    AHEAD_MS.store(server_ms as i64 - said, Ordering::Relaxed);
}
