//! Evaluates `jq` expressions in child processes. An expression may run forever and use any
//! amount of memory; a process can be killed, a thread cannot.
//!
//! [`Evaluators`] has an [`Evaluator`] for each expression; all evaluators share the processes.
//! [`child`] is the code of such a process.

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
