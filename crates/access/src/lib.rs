//! Access to this process: tokens, and the scope that each route needs.

#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod guard;
mod page;
mod routes;
pub mod session;

pub use guard::Guard;
pub use routes::{Needed, is_action, lasts, needed};
