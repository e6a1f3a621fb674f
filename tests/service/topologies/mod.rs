//! Tests Reseq on Redis with Sentinel and on Redis Cluster: journeys through failovers and slot moves.

mod cluster;
mod confirm;
pub mod journey;
mod quorum;
mod sentinel;
