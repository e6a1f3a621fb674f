//! Who may call this process, and which routes: tokens, and the routes that need none.

#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod guard;
mod page;
mod routes;
pub mod session;

pub use guard::Guard;
pub use routes::{Needed, is_action, lasts, needed};
