//! The connections that have not shown a needed credential yet. At the limit of connections, the oldest of them yields
//! its place.

use std::{
    collections::VecDeque,
    sync::{Arc, Weak},
};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

/// The unverified connections, the oldest first. Cheap to clone.
#[derive(Clone, Default)]
pub struct Unverified(Arc<Mutex<VecDeque<Weak<CancellationToken>>>>);

impl Unverified {
    /// Adds a connection, until the returned token is dropped. The token is cancelled when the connection has to close.
    pub(super) fn add(&self) -> Arc<CancellationToken> {
        let closing = Arc::default();
        let mut all = self.0.lock();
        all.retain(|one| one.strong_count() > 0);
        all.push_back(Arc::downgrade(&closing));
        closing
    }

    /// Closes the oldest unverified connection. False if there is none.
    pub(super) fn displace_oldest(&self) -> bool {
        let mut all = self.0.lock();
        let oldest = std::iter::from_fn(|| all.pop_front()).find_map(|one| one.upgrade());
        oldest.inspect(|closing| closing.cancel()).is_some()
    }
}
