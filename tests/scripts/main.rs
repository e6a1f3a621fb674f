//! Tests the Lua scripts against a reference model: random operations, every interleaving of
//! small worlds, keys of wrong types, and a cluster whose slots move.

use reseq_testing::{blocks, hand_overs, model, scripts, small, support};

#[path = "../store_life/mod.rs"]
mod store_life;

#[path = "blocks.rs"]
mod blocks_together;
mod cluster;
mod consumers;
#[path = "hand_overs.rs"]
mod hand_overs_of_complete;
mod interleavings;
mod random_operations;
mod wrong_types;
