//! Fault injection for tests. Empty in release builds, which lack the features `pause-points` and
//! `planted-bugs`. The bugs themselves are in `tests/faults/planted_bugs/` and `tests/lua_bugs/`: the
//! product only has the places for them.

pub mod pause;
pub mod planted;
pub mod planted_lua;
