//! Waits for states that can be checked. Tests never wait for time to pass.

use std::time::{Duration, Instant};

/// A state that is not reached within this time fails the test. Every state takes far less time.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// The time between two checks for an awaited state.
pub const LOOK_EVERY: Duration = Duration::from_millis(10);
/// The fewest checks before a test fails: while the machine was suspended, the state could not change.
const LOOKS_MIN: usize = 1000;

/// Checks until `look` succeeds. Its error describes the current state.
pub async fn eventually<T>(what: &str, mut look: impl AsyncFnMut() -> Result<T, String>) -> T {
    let (begun, mut looks) = (Instant::now(), 0);
    loop {
        let seen = match look().await {
            Ok(found) => return found,
            Err(seen) => seen,
        };
        looks += 1;
        let is_over = begun.elapsed() > PATIENCE && looks >= LOOKS_MIN;
        assert!(!is_over, "never, in {looks} looks: {what}; instead: {seen}");
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Fails the test if `end` does not resolve in time.
pub async fn within<T>(what: &str, end: impl Future<Output = T>) -> T {
    let ended = tokio::time::timeout(PATIENCE, end).await;
    ended.unwrap_or_else(|_| panic!("not within {PATIENCE:?}: {what}"))
}
