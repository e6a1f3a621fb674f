//! What tests make go wrong on purpose, in this process. Absent from release builds: without the
//! features `pause-points` and `planted-bugs` everything here is empty.

pub mod pause;
pub mod planted;
pub mod planted_lua;
