//! Removes messages, leases and delays of a destination in batches (`lua/delete_destination_batch.lua`).

use std::collections::BTreeSet;

use bytes::Bytes;

use crate::{Store, StoreError, contract::contract, keys::DestinationKeys, record};
use domain::DestinationName;

contract! {
    delete_destination_batch
    keys(keys: &DestinationKeys) {
        destination: keys.hash(), messages, leases, delayed, epoch,
    }
    args<'a> {}
    lists {
        /// Other keys to remove: lanes, or any key of the destination that is left over.
        left_over: Vec<u8>,
        sequences: &'a str,
        /// Members of `leases`.
        leases: &'a str,
        /// Members of `delayed`.
        delays: &'a str,
    }
}

/// The most messages that one call removes.
const BATCH_MAX: usize = 500;

/// The key of the partition from which to remove a destination's members.
#[derive(Debug, Clone, Copy)]
pub(super) enum RemovedMembers {
    Leases,
    Delayed,
}

impl Store {
    /// Removes a destination's leases or delays, in batches.
    pub(super) async fn remove_members(
        &self,
        destination: &DestinationName,
        of: RemovedMembers,
    ) -> Result<(), StoreError> {
        let keys = self.keys().destination(destination);
        let key = match of {
            RemovedMembers::Leases => keys.partition.leases(),
            RemovedMembers::Delayed => keys.partition.delayed(),
        };
        let mut cursor = 0u64;
        loop {
            let mut scan = redis::cmd("ZSCAN");
            scan.arg(&key).arg(cursor).arg("MATCH").arg(format!("{destination}/*"));
            scan.arg("COUNT").arg(BATCH_MAX);
            let (next, found): (u64, Vec<(String, f64)>) = self.ask(&scan).await?;
            for batch in found.chunks(BATCH_MAX) {
                let members = batch.iter().map(|(member, _)| member.as_str()).collect();
                let args = match of {
                    RemovedMembers::Leases => Args { leases: members, ..Args::default() },
                    RemovedMembers::Delayed => Args { delays: members, ..Args::default() },
                };
                self.run::<u64>(&args.call(self, &keys)).await?;
            }
            if next == 0 {
                return Ok(());
            }
            cursor = next;
        }
    }

    /// Removes pending messages and, with ordering by key, their lanes, in batches.
    pub(super) async fn remove_lanes(
        &self,
        destination: &DestinationName,
    ) -> Result<(), StoreError> {
        let keys = self.keys().destination(destination);
        let kind: String = self.ask(redis::cmd("TYPE").arg(keys.messages())).await?;
        if kind != "hash" {
            return Ok(());
        }
        let mut cursor = 0u64;
        loop {
            let mut scan = redis::cmd("HSCAN");
            scan.arg(keys.messages()).arg(cursor).arg("COUNT").arg(BATCH_MAX);
            let (next, found): (u64, Vec<(String, Bytes)>) = self.ask(&scan).await?;
            for batch in found.chunks(BATCH_MAX) {
                let (mut args, mut lanes) = (Args::default(), BTreeSet::new());
                for (sequence, bytes) in batch {
                    args.sequences.push(sequence);
                    let message = record::read(bytes.clone(), destination, 0, Default::default());
                    lanes.insert(message.ok().and_then(|message| message.message.key));
                }
                for lane in lanes.iter().map(|lane| lane.as_deref().unwrap_or_default()) {
                    let sets = [keys.in_progress(Some(lane)), keys.ready(Some(lane))];
                    args.left_over.extend(sets.map(String::into_bytes));
                }
                self.run::<u64>(&args.call(self, &keys)).await?;
            }
            if next == 0 {
                return Ok(());
            }
            cursor = next;
        }
    }

    /// Removes all remaining keys of a destination, of any type: its idempotency keys, and lanes that no record
    /// names.
    pub(super) async fn remove_left_over(
        &self,
        destination: &DestinationName,
    ) -> Result<(), StoreError> {
        let keys = self.keys().destination(destination);
        let mut cursor = 0u64;
        loop {
            let (next, found) = self.scan_keys(&keys, cursor).await?;
            let left_over: Vec<&Bytes> =
                found.iter().filter(|key| keys.noun_of(key).is_some()).collect();
            for batch in left_over.chunks(BATCH_MAX) {
                let left_over = batch.iter().map(|key| key.to_vec()).collect();
                let args = Args { left_over, ..Args::default() };
                self.run::<u64>(&args.call(self, &keys)).await?;
            }
            if next == 0 {
                return Ok(());
            }
            cursor = next;
        }
    }

    /// Removes the states of the destination's bulk operations.
    pub(super) async fn remove_operations(
        &self,
        destination: &DestinationName,
    ) -> Result<(), StoreError> {
        let keys = self.keys().destination(destination);
        for ids in self.operation_ids(destination).await?.chunks(BATCH_MAX) {
            let left_over = ids.iter().map(|id| keys.operation(id).into_bytes()).collect();
            let args = Args { left_over, ..Args::default() };
            self.run::<u64>(&args.call(self, &keys)).await?;
        }
        Ok(())
    }
}
