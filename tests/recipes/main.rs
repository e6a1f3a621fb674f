//! The recipes of `docs/recipes`, each run as written by a real Node against real pods. What is looked
//! at is what came of it: what the recipe found, and what Reseq and Redis say afterwards.

#[path = "../support/mod.rs"]
mod support;

mod counting;
mod failing;
mod keys;
mod long_work;
mod orders;
mod queues;
mod reports;
mod restarts;
mod sandbox;
mod sharing;
