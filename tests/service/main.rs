//! Tests the whole service from outside: real pods, real Redis servers, real receivers. All in one program, so
//! that the product is linked only once. `cargo test --test service interfaces` runs one part.

use reseq_testing::{scripts, support};

mod access;
mod alerts;
mod audit;
mod clock_steps;
mod clocks;
mod command_line;
#[path = "../common/mod.rs"]
mod common;
mod console;
mod consumers;
mod consumers_storm;
mod delivery_http;
mod delivery_tcp;
mod drills;
mod durability;
mod embedded;
mod interfaces;
mod journey_faults;
mod journey_order;
mod library;
mod logs;
mod node_worker;
mod openapi;
mod operations;
mod outgoing;
mod packages;
mod policies;
mod rebalance;
mod reference;
mod secrets;
mod shares;
mod strangers;
mod tls;
mod topics;
mod topologies;
mod traces;
mod transform_http;
mod transform_jq;
mod verify;
mod worker_api;
