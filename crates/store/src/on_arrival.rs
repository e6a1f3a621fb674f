//! Messages that are leased on arrival: the call that stamps them leases them to this pod, which processes them at once.
//! So they need no wake-up and no claim.

use std::sync::Arc;

use super::{CatalogEntry, Claimed, LeaseTerms};

/// A part of this pod that processes messages.
pub trait Taker: Send + Sync {
    /// Room for this many messages of a destination; `None` if they cannot all begin now, or if others were first.
    fn room(&self, entry: &Arc<CatalogEntry>, count: usize) -> Option<Box<dyn Room>>;
}

/// Room for messages that may come. It is free again when this is dropped.
pub trait Room: Send + Sync {
    /// The terms of their leases.
    fn terms(&self) -> &LeaseTerms;
    /// Takes the messages, which need not be as many as there is room for.
    fn take(self: Box<Self>, claimed: Claimed);
}
