//! Who may call this process, and for what: tokens, and what is open without one.

mod guard;
mod page;
mod routes;
pub mod session;

pub use guard::Guard;
pub use routes::{Needed, needed};
