//! Stores the output of one ordinary message (`lua/complete_fast.lua`).

use redis::Value;

use crate::{
    Store, StoreError, contract::contract, entry::CatalogEntry, keys::DestinationKeys,
    record::Written,
};
use domain::{LeaseToken, Sequence};

contract! {
    complete_fast
    keys(keys: &DestinationKeys) {
        destination: keys.hash(), messages, attempts, leases, releasable, wake_releasable, epoch,
        in_progress: keys.in_progress(None), ready: keys.ready(None),
    }
    args<'a> {
        destination: &'a str,
        record_schema: u32,
        sequence: Sequence,
        /// The lease, as a member of `leases`.
        member: String,
        /// The record with the output; empty: the stored record stays.
        record: Vec<u8>,
    }
}

impl Store {
    /// Completes one message of a destination that is one lane.
    pub(super) async fn complete_fast(
        &self,
        schema: u32,
        entry: &CatalogEntry,
        token: &LeaseToken,
        written: Written,
    ) -> Result<(), StoreError> {
        if !written.bodies.is_empty() {
            return Err(StoreError::NotFast);
        }
        let args = Args {
            destination: entry.destination.name.as_str(),
            record_schema: schema,
            sequence: token.sequence,
            member: token.member(),
            record: written.record,
        };
        let keys = self.keys_of(entry);
        self.run::<Value>(&args.call(self, &keys)).await.map(drop)
    }
}
