//! Shared parts of the test programs: real servers, pods and receivers ([`support`]), calls of single
//! scripts ([`scripts`]), the reference models ([`model`], [`consumers`]), the small worlds ([`small`]),
//! calls that run many blocks ([`blocks`]), the content of wake-ups ([`hand_overs`]), and what the targets in `fuzz/`
//! call ([`fuzzing`]).

pub mod blocks;
pub mod consumers;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
pub mod hand_overs;
pub mod model;
pub mod scripts;
pub mod small;
pub mod support;
