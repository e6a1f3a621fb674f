//! What the callers of a process share, such as its connections: of it, each token holds at most a quarter. Where no
//! token is needed, nobody can tell callers apart, and one may hold all.

use std::sync::Arc;

use formats::code::Code;

use super::{
    concurrency_limit::{ConcurrencyLimit, Held},
    principal::Principal,
    problem::Problem,
};

/// How much of one thing each token holds. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Shares(ConcurrencyLimit<Arc<str>>);

/// One of a share, until dropped. `None` where nothing is counted.
pub type Share = Option<Held<Arc<str>>>;

impl Shares {
    /// The shares of something of which there are this many.
    pub fn of(all: usize) -> Shares {
        Shares(ConcurrencyLimit::new((all / 4).max(1)))
    }

    /// Takes one more for this caller, unless its token has a quarter of these.
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
