//! The commands, one file or folder each, and what they share.

pub mod check;
pub mod completions;
pub mod dead_letters;
pub mod demo;
pub mod destinations;
pub mod jq_runner;
pub mod log;
pub mod man;
pub mod messages;
pub mod migrate;
pub mod operations;
pub mod pause;
pub mod purge;
pub mod repair;
pub mod replay;
pub mod retry_head;
pub mod send;
pub mod serve;
pub mod skip_head;
pub mod status;
pub mod tokens;
pub mod topics;

mod apply;
mod bulk;
mod client;
mod client_args;
mod confirm;
mod durations;
pub mod exit;
mod files;
mod filters;
mod header;
mod output;
mod paths;
mod usage;
