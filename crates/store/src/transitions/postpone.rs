//! Delays a head that its receiver refused (`lua/postpone.lua`).

use std::time::Duration;

use super::release::Owner;
use crate::{
    Store, StoreError, attempts,
    contract::contract,
    entry::{CatalogEntry, set_key},
    keys::DestinationKeys,
};
use domain::{AttemptError, Epoch, Sequence};

contract! {
    postpone
    keys(keys: &DestinationKeys, lane: Option<&str>) {
        epoch, owner, attempts, releasable, lanes, in_progress: keys.in_progress(lane),
        destination: keys.hash(), consumer_leases,
    }
    args<'a> {
        token: &'a str,
        owner_epoch: Epoch,
        destination: &'a str,
        ordering: &'a str,
        seen_epoch: String,
        lane: &'a str,
        sequence: Sequence,
        failed: u32,
        wait_ms: u64,
        problem: String,
        version: u64,
    }
}

/// A lane's head that its receiver refused.
#[derive(Debug, Clone, Copy)]
pub struct RefusedHead<'a> {
    /// The lane of the head, as in [`LaneRequest::key`].
    pub lane: Option<&'a str>,
    /// The sequence of the head.
    pub sequence: Sequence,
    /// Failed attempts to deliver it, including this one.
    pub failed: u32,
    /// The error of this attempt.
    pub error: &'a AttemptError,
}

impl Store {
    /// Delays the next attempt at a lane's head that the receiver refused.
    pub async fn postpone(
        &self,
        owner: &Owner,
        entry: &CatalogEntry,
        head: RefusedHead<'_>,
        wait: Duration,
    ) -> Result<(), StoreError> {
        let name = &entry.destination.name;
        let keys = self.keys().destination(name);
        let call = Args {
            token: owner.token.as_str(),
            owner_epoch: owner.epoch,
            destination: name.as_str(),
            ordering: entry.ordering_text(),
            seen_epoch: self.known_of_epoch(entry.partition),
            lane: head.lane.unwrap_or_default(),
            sequence: head.sequence,
            failed: head.failed,
            wait_ms: wait.as_millis() as u64,
            problem: attempts::error_text(head.error),
            version: entry.version,
        }
        .call(self, &keys, set_key(entry, head.lane));
        self.learned(entry.partition, self.run::<u64>(&call).await)?;
        Ok(())
    }
}
