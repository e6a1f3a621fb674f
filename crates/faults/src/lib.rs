//! Fault injection for tests. Empty in release builds, which lack the features `pause-points` and `planted-bugs`. The
//! bugs are listed in `tests/faults/planted_bugs/` and `tests/lua_bugs/`; the product contains only the places where a
//! bug takes effect.

pub mod pause;
pub mod planted;
pub mod planted_lua;
