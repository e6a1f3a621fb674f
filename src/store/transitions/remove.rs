//! Removes a destination (`lua/remove.lua`, then `lua/remove_batch.lua` and `lua/forget.lua`).

use crate::{
    domain::DestinationName,
    store::{Store, StoreError, keys::Claimers},
};

use super::remove_batch::RemovedMembers;

/// Above all versions: a number that Lua still holds exactly.
const VERSION_MAX: u64 = 1 << 53;

/// What removing a destination did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Removed {
    /// Messages that were pending and are gone.
    pub removed_messages: u64,
}

impl Store {
    /// Removes a destination; with `purge`, although messages are pending. May be repeated until
    /// it succeeds.
    pub async fn remove(
        &self,
        destination: &DestinationName,
        purge: bool,
    ) -> Result<Removed, StoreError> {
        let keys = self.keys().destination(destination);
        let mut call = self.call(|scripts| &scripts.remove);
        call.key(keys.hash()).key(keys.partition.active(Claimers::Builtin));
        call.key(keys.partition.active(Claimers::Worker)).key(keys.partition.releasable());
        call.key(keys.dead_letters()).key(keys.partition.epoch());
        call.arg(destination.as_str()).arg(u8::from(purge));
        let (version, removed_messages): (u64, u64) = match self.run(&call).await {
            // A removal that broke off just before its end leaves only the index to mend.
            Err(StoreError::UnknownDestination) => {
                self.index(destination, VERSION_MAX, None).await?;
                return Err(StoreError::UnknownDestination);
            }
            answer => answer?,
        };

        self.remove_messages(destination, version, removed_messages)
            .await
            .map_err(StoreError::half_way)?;
        Ok(Removed { removed_messages })
    }

    /// Ends a removal that has begun, of a destination with so many pending messages.
    async fn remove_messages(
        &self,
        destination: &DestinationName,
        version: u64,
        pending: u64,
    ) -> Result<(), StoreError> {
        // Nothing is claimed any more, and a lease can only become a delay: leases first.
        self.remove_members(destination, RemovedMembers::Leases).await?;
        self.remove_members(destination, RemovedMembers::Delayed).await?;
        let removed = self.remove_lanes(destination).await?;
        // Lanes are known from records, which may be damaged or, after a removal that broke off, gone.
        // So where there were messages, lanes are looked for by their names too. The look passes all
        // keys of Redis, which is too dear for a destination that was empty.
        if pending > 0 || removed > 0 {
            self.remove_left_over(destination).await?;
        }
        self.forget(destination).await?;
        self.index(destination, version, None).await
    }
}
