//! The Lua scripts against a reference model: random operations, every interleaving of small worlds, keys of
//! wrong types, and a cluster whose slots move.

use reseq_testing::{model, scripts, small, support};

#[path = "../store_life/mod.rs"]
mod store_life;

mod cluster;
mod interleavings;
mod random_operations;
mod wrong_types;
