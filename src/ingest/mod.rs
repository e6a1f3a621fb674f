//! Taking messages in: over HTTP and TCP, by group commit into Redis.

pub mod commit;
mod due;
mod headers;
pub mod http;
pub mod json;
mod raw;
mod recipients;
mod refusal;
pub mod tcp;
mod watermark;

pub use commit::{Committer, Session};
pub use recipients::Recipients;
pub use refusal::{Outcome, Receipt, Refusal};
pub use watermark::Watermark;

/// The wall clock, in ms since 1970: for people and metrics, nothing is decided by it.
fn now_ms() -> u64 {
    use std::time::{SystemTime, UNIX_EPOCH};
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}
