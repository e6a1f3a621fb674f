//! Reseq on a Redis with Sentinel and on a Redis Cluster: journeys through failovers and slot moves.

mod servers;
#[path = "../support/mod.rs"]
mod support;
