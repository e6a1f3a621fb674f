//! What tests make go wrong on purpose, in this process. Absent from release builds: without the
//! features `pause-points` and `planted-bugs` everything here is empty. Which bugs there are is in
//! `tests/planted_bugs/` and `tests/lua_bugs/`: the product only has the places.

pub mod pause;
pub mod planted;
pub mod planted_lua;
