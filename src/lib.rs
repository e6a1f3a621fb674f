//! Reseq: messages in over HTTP or TCP, transformed in parallel, out in order of arrival.
//!
//! The modules in reading order: what the words mean ([`domain`]), how it is set up
//! ([`config`]), what Redis holds and does ([`store`]).

pub mod config;
pub mod domain;
pub mod store;
pub mod telemetry;
