//! Reseq: messages in over HTTP or TCP, transformed in parallel, out in order of arrival.
//!
//! The modules in reading order: what the words mean ([`domain`]), how it is set up
//! ([`config`]), what Redis holds and does ([`store`]), how bytes travel ([`wire`]), and the way
//! of a message: [`ingest`], [`processor`], [`sender`].

pub mod config;
pub mod domain;
pub mod ingest;
pub mod processor;
pub mod sender;
pub mod store;
pub mod telemetry;
pub mod wire;
