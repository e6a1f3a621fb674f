//! Tests the meaning of an acknowledgement, and the behaviour after Redis has lost data. No
//! position is given twice or is below an earlier one, and two senders never deliver at once.

mod epochs;
mod levels;
mod owner;
mod restart;
mod servers;
pub mod world;
