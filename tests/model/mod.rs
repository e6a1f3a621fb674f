//! The reference model of one partition, and what it takes to hold Redis against it.
//!
//! In reading order: what a partition is ([`state`]), what always holds of it ([`invariant`]), what
//! can be asked of it ([`op`]), what that does ([`step`]), how random numbers ([`draw`]) become
//! sensible questions ([`generate`]), how the same question is put to the real scripts ([`real`]), how
//! both states are written down alike ([`snapshot`]), what has happened ([`tally`]), which
//! transitions of a message that takes ([`transitions`]), and how all of it is put together
//! ([`compare`]).
#![allow(dead_code)] // Each test file uses its own part.

pub mod compare;
pub mod draw;
pub mod generate;
pub mod invariant;
pub mod op;
pub mod real;
pub mod snapshot;
pub mod state;
pub mod step;
pub mod tally;
pub mod transitions;
