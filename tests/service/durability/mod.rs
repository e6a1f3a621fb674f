//! What an acknowledgement is worth, and what happens when Redis has forgotten something. No
//! position is given twice, none is below an earlier one, and no two senders deliver at once.

mod epochs;
mod levels;
mod owner;
mod restart;
mod servers;
pub mod world;
