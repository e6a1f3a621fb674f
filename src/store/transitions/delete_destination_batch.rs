//! Removes messages, leases and delays of a destination in batches (`lua/delete_destination_batch.lua`).

use std::collections::BTreeSet;

use bytes::Bytes;

use crate::{
    domain::DestinationName,
    store::{Store, StoreError, record},
};

/// The most messages that one call removes.
const BATCH_MAX: usize = 500;

/// Which of the partition's keys to remove a destination's members from.
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
        let (key, is_lease) = match of {
            RemovedMembers::Leases => (keys.partition.leases(), true),
            RemovedMembers::Delayed => (keys.partition.delayed(), false),
        };
        let mut cursor = 0u64;
        loop {
            let mut pipe = redis::pipe();
            pipe.cmd("ZSCAN").arg(&key).arg(cursor);
            pipe.arg("MATCH").arg(format!("{destination}/*")).arg("COUNT").arg(BATCH_MAX);
            let ((next, found),): ((u64, Vec<(String, f64)>),) = self.query(&pipe).await?;
            for batch in found.chunks(BATCH_MAX) {
                let mut call = self.call(|scripts| &scripts.delete_destination_batch);
                call.key(keys.hash()).key(keys.messages());
                call.key(keys.partition.leases()).key(keys.partition.delayed());
                call.key(keys.partition.epoch());
                call.arg(0).arg(if is_lease { batch.len() } else { 0 });
                for (member, _) in batch {
                    call.arg(member);
                }
                self.run::<u64>(&call).await?;
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
        let mut pipe = redis::pipe();
        pipe.cmd("TYPE").arg(keys.messages());
        let (kind,): (String,) = self.query(&pipe).await?;
        if kind != "hash" {
            return Ok(());
        }
        let mut cursor = 0u64;
        loop {
            let mut pipe = redis::pipe();
            pipe.cmd("HSCAN").arg(keys.messages()).arg(cursor).arg("COUNT").arg(BATCH_MAX);
            let ((next, found),): ((u64, Vec<(Bytes, Bytes)>),) = self.query(&pipe).await?;
            for batch in found.chunks(BATCH_MAX) {
                let mut call = self.call(|scripts| &scripts.delete_destination_batch);
                call.key(keys.hash()).key(keys.messages());
                call.key(keys.partition.leases()).key(keys.partition.delayed());
                call.key(keys.partition.epoch());
                call.arg(batch.len()).arg(0);
                let mut lanes = BTreeSet::new();
                for (field, bytes) in batch {
                    call.arg(&field[..]);
                    let message = record::read(bytes.clone(), destination, 0, Default::default());
                    lanes.insert(message.ok().and_then(|message| message.message.key));
                }
                for lane in lanes.iter().map(|lane| lane.as_deref().unwrap_or_default()) {
                    call.key(keys.in_progress(Some(lane))).key(keys.ready(Some(lane)));
                }
                self.run::<u64>(&call).await?;
            }
            if next == 0 {
                return Ok(());
            }
            cursor = next;
        }
    }

    /// Removes all remaining keys of a destination, whatever their type: its idempotency keys, and lanes that no
    /// record names.
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
                let mut call = self.call(|scripts| &scripts.delete_destination_batch);
                call.key(keys.hash()).key(keys.messages());
                call.key(keys.partition.leases()).key(keys.partition.delayed());
                call.key(keys.partition.epoch());
                call.arg(0).arg(0);
                for key in batch {
                    call.key(&key[..]);
                }
                self.run::<u64>(&call).await?;
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
            let mut call = self.call(|scripts| &scripts.delete_destination_batch);
            call.key(keys.hash()).key(keys.messages());
            call.key(keys.partition.leases()).key(keys.partition.delayed());
            call.key(keys.partition.epoch());
            call.arg(0).arg(0);
            for id in ids {
                call.key(keys.operation(id));
            }
            self.run::<u64>(&call).await?;
        }
        Ok(())
    }
}
