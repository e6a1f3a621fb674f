//! The recipes of `docs/recipes`, each run unchanged by a real Node with real pods. The tests check
//! what the recipe found, and what Reseq and Redis hold afterwards.

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
