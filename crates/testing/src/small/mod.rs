//! Small worlds and the paths through them. In reading order: the receiver's and the producers' knowledge
//! ([`journal`]), the actors ([`actors`]), a world and one of its states ([`node`]), the worlds ([`worlds`]),
//! all states, only on the model ([`survey`]), every order with the real scripts ([`explore`]).

pub mod actors;
pub mod explore;
pub mod journal;
pub mod node;
pub mod survey;
pub mod worlds;

use std::collections::BTreeMap;

/// How often each case occurred, by name.
pub type Counts = BTreeMap<&'static str, u64>;
