//! Redis as a deployment runs it: one server, one that Sentinel watches over, or a cluster. Calls reach
//! whoever serves a key, confirmations wait for replicas and disks, subscriptions follow what moves.
//!
//! This module knows nothing of Reseq: no keys, no scripts, no schema. Each file uses only those
//! after it in this list (`tests/structure.rs`).

mod subscribe;

mod memory;

mod confirm;

mod fitness;

mod call;

mod client;

mod cluster;

mod pool;

mod node;

mod sentinel;

mod dial;

mod channel;

mod script;

mod replication;

mod slot;

mod error;

mod clock;

pub mod embedded;

pub use call::{Answers, Question, ServerTime, read, route_of, server_ms, texts};
pub use client::{Deployment, RedisClient};
pub use clock::{note_server_clock, server_clock, server_clock_ms};
pub use confirm::{Confirm, Fsync};
pub use error::ClientError;
pub use fitness::{Admitted, Fitness, UnfitServer};
pub use memory::Memory;
pub use script::{Script, ScriptCall};
pub use subscribe::{Channels, Heard};
