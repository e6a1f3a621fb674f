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

/// A number above all versions that is still exact in Lua.
const VERSION_MAX: u64 = 1 << 53;

/// The result of removing a destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Removed {
    /// The number of pending messages that were removed.
    pub removed_messages: u64,
}

impl Store {
    /// Removes a destination. With `purge`, removes it even if messages are pending. Repeat the call until it
    /// succeeds.
    pub async fn delete_destination(
        &self,
        destination: &DestinationName,
        purge: bool,
    ) -> Result<Removed, StoreError> {
        self.delete_destination_by(&Author::default(), destination, purge).await
    }

    /// Like `delete_destination`, and stores who removed the destination.
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

    /// Begins or continues a removal. `which` tells the script what it may remove.
    async fn begin_removal(
        &self,
        destination: &DestinationName,
        which: &str,
        by: &Author,
    ) -> Result<Removed, StoreError> {
        let keys = self.keys().destination(destination);
        let call = Args { destination: destination.as_str(), how: which }.call(self, &keys);
        let (version, removed_messages): (u64, u64) = match self.run(&call).await {
            // An earlier removal may have stopped just before its end. Then only the index must be corrected.
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

    /// Removes all data of a destination whose removal has begun.
    async fn remove_messages(
        &self,
        destination: &DestinationName,
        version: u64,
        by: &Author,
    ) -> Result<(), StoreError> {
        // Remove leases first: no message can be claimed any more, but a lease can still become a delay.
        self.remove_members(destination, RemovedMembers::Leases).await?;
        self.remove_members(destination, RemovedMembers::Delayed).await?;
        self.remove_lanes(destination).await?;
        // The step before finds lanes through records, which may be damaged or, after an interrupted removal,
        // missing. And idempotency keys outlive their messages. So if the destination ever had a message, also scan
        // for keys by name. The scan covers all keys of the server, which is too expensive for a destination that was
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
