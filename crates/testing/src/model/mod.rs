//! The reference model of one partition, and the comparison with Redis.
//!
//! In reading order: the state of a partition ([`state`]), its invariants ([`invariant`]), the
//! operations ([`op`]) and their effects ([`step`]), random numbers ([`draw`]) and the operations
//! made from them ([`generate`]), the calls of the real scripts ([`real`]), the common form of
//! both states ([`snapshot`]), the coverage ([`tally`]), the transitions of each message
//! ([`transitions`]), and the comparison of all ([`compare`]).

pub mod compare;
pub mod draw;
pub mod events;
pub mod generate;
pub mod invariant;
pub mod op;
pub mod real;
pub mod snapshot;
pub mod state;
pub mod step;
pub mod tally;
pub mod transitions;
