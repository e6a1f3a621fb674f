//! The reference model of one partition, and what it takes to hold Redis against it.
//!
//! In reading order: what a partition is ([`state`]), what can be asked of it ([`op`]), what that
//! does ([`step`]), how random numbers ([`draw`]) become sensible questions ([`generate`]), how the same
//! question is put to the real scripts ([`real`]), and how both states are written down alike
//! ([`snapshot`]).

pub mod draw;
pub mod generate;
pub mod op;
pub mod real;
pub mod snapshot;
pub mod state;
pub mod step;
