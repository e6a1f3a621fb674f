//! The commands, one file or folder each.

pub mod cancel;
pub mod check;
pub mod client;
pub mod common;
pub mod dead_letters;
pub mod demo;
pub mod destinations;
pub mod jq_runner;
pub mod log;
pub mod messages;
pub mod migrate;
pub mod pause;
pub mod purge;
pub mod repair;
pub mod replay;
pub mod retry_head;
pub mod send;
pub mod serve;
pub mod show;
pub mod skip_head;
pub mod status;
pub mod topics;
