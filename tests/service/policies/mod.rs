//! Tests every policy of a destination, over HTTP and with real processes: failures, and waiting
//! messages. Each test ends with balanced counters: every message is pending or gone.

mod breaker;
mod damage;
mod damage_reported;
mod due;
mod encoded;
mod fair;
mod gone;
mod halted;
mod lanes;
mod limits;
mod on_arrival;
mod rates;
mod removed;
mod run_now;
pub mod scenario;
mod suspects;
mod waiting;
mod why;
