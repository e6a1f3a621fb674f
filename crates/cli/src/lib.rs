//! The commands, one file or folder each, and what they share.

mod audit;
pub mod completions;
mod context;
mod dead_letters;
mod destinations;
mod doctor;
mod health;
mod lanes;
mod log;
pub mod man;
mod messages;
mod operations;
mod pause;
mod pods;
mod purge;
mod repair;
mod replay;
mod retry_head;
mod send;
mod skip_head;
mod status;
mod tail;
mod tokens;
mod top;
mod topics;
mod verify;
mod versions;
mod why;

mod apply;
mod bulk;
mod client;
mod client_args;
mod commands;
mod confirm;
pub mod durations;
pub mod exit;
mod files;
mod filters;
mod header;
pub mod output;
mod pages;
mod paths;
pub mod style;
pub mod usage;

pub use commands::ClientCommand;
