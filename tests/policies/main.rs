//! What happens when things go wrong or wait: each policy of a destination on real processes, over
//! HTTP, as its users meet it. Each journey ends with the books: nothing but what is pending or gone.

#[path = "../support/mod.rs"]
mod support;

mod damage;
mod damage_told;
mod desk;
mod gone;
mod halted;
mod lanes;
mod limits;
mod removed;
mod waiting;
