//! Runs the recipes of `docs/recipes` unchanged, on a real Node with real pods. The tests check
//! the result of the recipe, and the state of Reseq and Redis afterwards.

use reseq_testing::support;

mod counting;
mod failing;
mod keys;
mod long_work;
mod node_client;
mod orders;
mod queues;
mod reports;
mod restarts;
mod sandbox;
mod sharing;
