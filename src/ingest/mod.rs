//! Taking messages in: over HTTP and TCP, by group commit into Redis.

pub mod commit;
mod due;
mod headers;
pub mod http;
pub mod json;
mod memory;
mod raw;
mod recipients;
mod refusal;
mod said;
pub mod tcp;
mod watermark;

pub use commit::{Committer, Session};
pub use memory::{MemoryBudget, MemoryPermit};
pub use recipients::Recipients;
pub use refusal::{Outcome, Receipt, Refusal};
pub use watermark::Watermark;
