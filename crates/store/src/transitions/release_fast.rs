//! Settles and releases a lane with ordinary messages (`lua/release_fast.lua`).

use super::release::{BYTES_MAX, LaneRequest, LogRow, Owner};
use crate::{Store, contract::contract, entry::CatalogEntry, keys::DestinationKeys};
use domain::{Epoch, Sequence};
use redis_client::ScriptCall;

contract! {
    release_fast
    keys(keys: &DestinationKeys) {
        epoch, owner, destination: keys.hash(), messages, attempts, releasable, log, log_order,
        bodies, in_progress: keys.in_progress(None), ready: keys.ready(None),
    }
    args<'a> {
        token: &'a str,
        owner_epoch: Epoch,
        version: u64,
        destination: &'a str,
        seen_epoch: String,
        /// The most bytes of records.
        bytes_max: usize,
        /// The most messages in the log.
        log_max: u64,
        /// The last settled sequence; 0: none.
        settled_upto: Sequence,
        /// The accounted bytes of the settled messages.
        settled_bytes: u64,
        /// The most messages to release.
        most: usize,
    }
    lists {
        log: LogRow,
    }
}

impl Store {
    /// Creates the call for a lane of which the owner holds only messages that this call settles.
    pub(super) fn fast_release(
        &self,
        owner: &Owner,
        entry: &CatalogEntry,
        lane: &LaneRequest,
    ) -> ScriptCall<'_> {
        let (destination, settled) = (&entry.destination, &lane.settled);
        let mut call = Args {
            token: owner.token.as_str(),
            owner_epoch: owner.epoch,
            version: entry.version,
            destination: destination.name.as_str(),
            seen_epoch: self.known_of_epoch(entry.partition),
            bytes_max: BYTES_MAX,
            log_max: destination.log_max,
            settled_upto: settled.upto,
            settled_bytes: settled.bytes,
            most: lane.limit.min(1024),
            log: settled.log_rows().collect(),
        }
        .call(self, &self.keys().destination(&destination.name));
        call.of_messages(settled.count.max(1));
        call
    }
}
