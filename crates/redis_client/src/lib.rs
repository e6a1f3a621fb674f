//! A client for one Redis server, a primary with Sentinel, or a cluster. Each call goes to the server that holds its
//! key. Confirmations wait for replicas and disks, and subscriptions follow slots that move.
//!
//! This crate does not depend on the rest of Reseq: it has no keys, no scripts and no schema. From
//! the top down: `subscribe`, `memory`, `confirm`, `fitness` and `examine` make calls; `coalesce`
//! joins the calls of many callers into one (`blocks`); `call` sends calls to the right server;
//! `client` knows all servers; `cluster` and `sentinel` find their addresses; `node` is one server.

mod blocks;
mod call;
mod channel;
mod client;
mod clock;
mod cluster;
mod coalesce;
mod complete_file;
mod confirm;
mod dial;
pub mod embedded;
mod error;
mod examine;
mod fitness;
mod memory;
mod node;
mod pool;
mod refusal;
mod replication;
mod script;
mod sentinel;
mod slot;
mod subscribe;

pub use call::{Answers, Question, ServerTime, at_once, read, route_of, server_ms, texts};
pub use client::{Deployment, RedisClient};
pub use clock::{note_server_clock, server_clock, server_clock_ms};
pub use confirm::{Confirm, Fsync, FsyncAnswer, NoFsync};
pub use error::{ClientError, unexpected};
pub use examine::{Replica, ServerState};
pub use fitness::{Admitted, Fitness, UnfitServer};
pub use memory::Memory;
pub use refusal::{is_full, refusal_of_writes};
pub use script::{CallArgs, Script, ScriptCall};
pub use sentinel::SentinelState;
pub use subscribe::{Channels, Heard};
