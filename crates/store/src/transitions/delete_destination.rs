//! Removes a destination (`lua/delete_destination.lua`, then `lua/delete_destination_batch.lua` and
//! `lua/forget_destination.lua`).

use crate::{Author, Store, StoreError, contract::contract, keys::DestinationKeys};
use domain::DestinationName;

use super::delete_destination_batch::RemovedMembers;

contract! {
    delete_destination
    keys(keys: &DestinationKeys) {
        destination: keys.hash(), active_builtin, active_worker, releasable, dead_letters, epoch,
        withdrawing,
    }
    args<'a> {
        destination: &'a str,
        how: &'a str,
    }
}

/// Above all versions, and still exact as a number in Lua.
const VERSION_MAX: u64 = 1 << 53;

/// The result of removing a destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Removed {
    /// Pending messages that were removed.
    pub removed_messages: u64,
}

impl Store {
    /// Removes a destination; with `purge`, even if messages are pending. Repeat the call until it
    /// succeeds.
    pub async fn delete_destination(
        &self,
        destination: &DestinationName,
        purge: bool,
    ) -> Result<Removed, StoreError> {
        self.delete_destination_by(&Author::default(), destination, purge).await
    }

    /// The same; keeps who did it.
    pub async fn delete_destination_by(
        &self,
        by: &Author,
        destination: &DestinationName,
        purge: bool,
    ) -> Result<Removed, StoreError> {
        self.begin_removal(destination, if purge { "with_all" } else { "if_empty" }, by).await
    }

    /// Completes a removal that stopped halfway. Refuses a destination that is not being removed:
    /// somebody else may have completed the removal and defined the destination again.
    pub async fn complete_removal(
        &self,
        destination: &DestinationName,
    ) -> Result<Removed, StoreError> {
        self.begin_removal(destination, "completes", &Author::default()).await
    }

    /// `which`: what the script may remove.
    async fn begin_removal(
        &self,
        destination: &DestinationName,
        which: &str,
        by: &Author,
    ) -> Result<Removed, StoreError> {
        let keys = self.keys().destination(destination);
        let call = Args { destination: destination.as_str(), how: which }.call(self, &keys);
        let (version, removed_messages): (u64, u64) = match self.run(&call).await {
            // An earlier removal may have stopped just before its end: only the index is left to
            // correct.
            Err(StoreError::UnknownDestination) => {
                self.index_removal(destination, VERSION_MAX, by).await?;
                return Err(StoreError::UnknownDestination);
            }
            answer => answer?,
        };

        self.remove_messages(destination, version, by)
            .await
            .map_err(StoreError::after_partial_success)?;
        Ok(Removed { removed_messages })
    }

    /// Completes a removal.
    async fn remove_messages(
        &self,
        destination: &DestinationName,
        version: u64,
        by: &Author,
    ) -> Result<(), StoreError> {
        // Leases first: nothing is claimed any more, but a lease can still become a delay.
        self.remove_members(destination, RemovedMembers::Leases).await?;
        self.remove_members(destination, RemovedMembers::Delayed).await?;
        self.remove_lanes(destination).await?;
        // Lanes are found through records, which may be damaged, or gone after an interrupted
        // removal; and idempotency keys outlive their messages. So if there was ever a message, scan for
        // keys by name too. The scan covers all keys of the server: too expensive for a destination that was
        // never used.
        let last: Option<u64> = self
            .ask(&redis::Cmd::hget(self.keys().destination(destination).hash(), "last"))
            .await?;
        if last.is_some() {
            self.remove_left_over(destination).await?;
        }
        self.remove_operations(destination).await?;
        self.forget_destination(destination).await?;
        self.index_removal(destination, version, by).await
    }
}
