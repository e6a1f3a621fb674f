//! Halts a head: the head keeps its position, and its lane waits for an operator (`lua/halt.lua`).

use super::{postpone::RefusedHead, release::Owner};
use crate::{
    Store, StoreError, attempts,
    contract::contract,
    entry::{CatalogEntry, set_key},
    keys::DestinationKeys,
};
use domain::{Epoch, Sequence};

contract! {
    halt
    keys(keys: &DestinationKeys, lane: Option<&str>) {
        epoch, owner, destination: keys.hash(), attempts, halted, lanes, messages,
        in_progress: keys.in_progress(lane), ready: keys.ready(lane), consumer_leases,
    }
    args<'a> {
        token: &'a str,
        owner_epoch: Epoch,
        ordering: &'a str,
        seen_epoch: String,
        lane: &'a str,
        sequence: Sequence,
        failed: u32,
        problem: String,
        version: u64,
    }
}

impl Store {
    /// Halts a lane's head that has no delivery attempts left. The lane waits for an operator.
    pub async fn halt(
        &self,
        owner: &Owner,
        entry: &CatalogEntry,
        head: RefusedHead<'_>,
    ) -> Result<(), StoreError> {
        let keys = self.keys_of(entry);
        let call = Args {
            token: owner.token.as_str(),
            owner_epoch: owner.epoch,
            ordering: entry.ordering_text(),
            seen_epoch: self.known_of_epoch(entry.partition),
            lane: head.lane.unwrap_or_default(),
            sequence: head.sequence,
            failed: head.failed,
            problem: attempts::error_text(head.error),
            version: entry.version,
        }
        .call(self, &keys, set_key(entry, head.lane));
        self.learned(entry.partition, self.run::<u64>(&call).await)?;
        Ok(())
    }
}
