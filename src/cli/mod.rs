//! The commands: one file each.

pub mod check;
pub mod client;
pub mod demo;
pub mod jq_runner;
pub mod send;
pub mod serve;
pub mod status;
