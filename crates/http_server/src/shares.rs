//! Limits shared resources of a process, such as connections: each token holds at most a quarter.
//! Where no token is needed, callers cannot be told apart, so one caller may hold all.

use std::sync::Arc;

use formats::code::Code;

use super::{
    concurrency_limit::{ConcurrencyLimit, Held},
    principal::Principal,
    problem::Problem,
};

/// The amount of one resource that each token holds. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Shares(ConcurrencyLimit<Arc<str>>);

/// One unit of a share, held until dropped. `None` if nothing is counted.
pub type Share = Option<Held<Arc<str>>>;

impl Shares {
    /// The shares of a resource with `all` units.
    pub fn of(all: usize) -> Shares {
        Shares(ConcurrencyLimit::new((all / 4).max(1)))
    }

    /// Takes one more unit for this caller. An error if the caller's token already holds a quarter.
    pub fn take(&self, caller: &Principal, what: &str) -> Result<Share, Problem> {
        if !caller.has_token() {
            return Ok(None);
        }
        self.0.take(caller.who.clone()).map(Some).ok_or_else(|| {
            let detail = format!(
                "this token holds a quarter of the {what} of this process, which is the most; nothing was done, \
                 send the same later, or to another process"
            );
            Problem::new(Code::TooManyRequests, detail)
        })
    }
}
