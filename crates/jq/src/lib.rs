//! Evaluates `jq` expressions, in child processes that can be killed: an expression may run forever
//! and use any amount of memory, and a thread cannot be stopped.
//!
//! [`Evaluators`] has an [`Evaluator`] for each expression; all of them share their processes. [`child`] is what such
//! a process runs.

mod cache;
pub mod child;
mod encoding;
mod pool;
mod protocol;
mod runner;

pub use cache::Evaluators;
pub use encoding::{DECODED, can_decode};
pub use pool::{EvaluationError, Evaluator, Limits, at_once};
pub use protocol::{Evaluated, Input};
pub use runner::{PROGRAM_VARIABLE, Program, is_meant_as_runner};
