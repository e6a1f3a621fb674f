//! Waiting for a state that can be looked at. Nothing waits for time to pass.

use std::time::{Duration, Instant};

/// A state that is not there by then fails the test. Far beyond what any takes.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// How often the state that is waited for is looked at.
pub const LOOK_EVERY: Duration = Duration::from_millis(10);
/// So often it is looked before a test fails: where the machine itself stood still, time passed in
/// which nothing could come.
const LOOKS_MIN: usize = 1000;

/// Looks until there is what is looked for. `look` says what it sees instead.
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

/// Fails the test if `end` does not come.
pub async fn within<T>(what: &str, end: impl Future<Output = T>) -> T {
    let ended = tokio::time::timeout(PATIENCE, end).await;
    ended.unwrap_or_else(|_| panic!("not within {PATIENCE:?}: {what}"))
}
