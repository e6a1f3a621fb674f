//! Fault injection for tests. Empty in release builds, which lack the features `pause-points` and
//! `planted-bugs`.

pub mod pause;
pub mod planted;
pub mod planted_lua;
