//! Taking messages in: over HTTP and TCP, by group commit into Redis.

pub mod commit;
mod headers;
pub mod http;
pub mod json;
pub mod tcp;

pub use commit::{Committer, Receipt, Refusal, Session};

/// The wall clock, in ms since 1970: for people and metrics, nothing is decided by it.
fn now_ms() -> u64 {
    use std::time::{SystemTime, UNIX_EPOCH};
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}
