//! The Lua scripts against a reference model: random operations, every interleaving of small worlds, keys of
//! wrong types, and a cluster whose slots move.

#[path = "../model/mod.rs"]
mod model;
#[path = "../script_calls/mod.rs"]
mod scripts;
#[path = "../small/mod.rs"]
mod small;
#[path = "../store_life/mod.rs"]
mod store_life;
#[path = "../support/mod.rs"]
mod support;

mod cluster;
mod interleavings;
mod random_operations;
mod wrong_types;
