//! Messages that are leased on arrival: the call that stamps them leases them to this pod, which processes them at
//! once. So they need no wake-up and no claim.

use std::sync::Arc;

use super::{CatalogEntry, Claimed, LeaseTerms};

/// The part of this pod that processes messages.
pub trait Taker: Send + Sync {
    /// Reserves room for this many messages of a destination; `None` if they cannot all begin now, or if other
    /// messages wait for the room.
    fn room(&self, entry: &Arc<CatalogEntry>, count: usize) -> Option<Box<dyn Room>>;
}

/// Reserved room for messages that may arrive. Dropping it frees the room.
pub trait Room: Send + Sync {
    /// The terms of the messages' leases.
    fn terms(&self) -> &LeaseTerms;
    /// Takes the messages. They may be fewer than there is room for.
    fn take(self: Box<Self>, claimed: Claimed);
}
