//! Ingest: takes messages over HTTP and TCP, and stores them in Redis by group commit.

mod answer;
pub mod commit;
mod copies;
mod draft;
mod due;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod headers;
pub mod http;
pub mod json;
mod keys;
mod memory;
mod message_headers;
mod options;
pub mod rates;
mod raw;
mod recipients;
mod refusal;
mod source;
pub mod tcp;
mod watermark;

pub use commit::{Committer, Session};
pub use draft::Draft;
pub use memory::{MemoryBudget, MemoryPermit};
pub use recipients::Recipients;
pub use refusal::{Outcome, Receipt, Refusal};
pub use watermark::Watermark;
