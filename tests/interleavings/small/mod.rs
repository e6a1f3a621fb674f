//! Small worlds and the ways through them. In reading order: what a receiver and the producers know
//! ([`journal`]), who acts ([`actors`]), a world and one state of it ([`node`]), the worlds
//! ([`worlds`]), all states on the model alone ([`survey`]), every order with the real scripts
//! ([`explore`]).
#![allow(dead_code)] // Each test file uses its own part.

pub mod actors;
pub mod explore;
pub mod journal;
pub mod node;
pub mod survey;
pub mod worlds;

use std::collections::BTreeMap;

/// How often what came up, by name.
pub type Counts = BTreeMap<&'static str, u64>;
