//! Checks the types of all keys of a destination, and rebuilds a lane (`lua/repair_keys.lua`).

use super::repair::{Finding, Repairing};
use crate::{StoreError, contract::contract, keys::DestinationKeys};

contract! {
    repair_keys
    keys(keys: &DestinationKeys) {
        epoch, destination: keys.hash(), waiting, messages, attempts, leases, delayed, halted,
        withdrawals, dead_letters, dead_letter_messages, dead_lettered_at, bodies, log, releasable,
        lanes, active_builtin, active_worker, withdrawn, previous, ids, consumer_leases,
        consumer_lease_ends, consumers, withdrawing,
    }
    args<'a> {
        version: u64,
        ordering: &'a str,
        /// `1`, or empty: only to report.
        repairs: &'a str,
    }
    lists {
        /// The `in-progress` of a lane, or none.
        lanes: Vec<u8>,
        /// All of that lane.
        sequences: &'a str,
    }
}

impl Repairing<'_> {
    /// Checks the types of all keys, and rebuilds one lane's `in-progress` from these sequences if
    /// it has another type (`lua/repair_keys.lua`).
    pub(super) async fn check_keys(
        &mut self,
        lane: Option<&Option<String>>,
        sequences: &[String],
    ) -> Result<(), StoreError> {
        self.begin()?;
        let (keys, entry) = (self.keys.clone(), self.entry);
        let in_progress = |lane: &Option<String>| keys.in_progress(lane.as_deref()).into_bytes();
        let call = Args {
            version: entry.version,
            ordering: entry.ordering_text(),
            repairs: self.repairs(),
            lanes: lane.iter().copied().map(in_progress).collect(),
            sequences: sequences.iter().map(String::as_str).collect(),
        }
        .call(self.store, &keys);
        let findings: Vec<Finding> = self.store.run(&call).await?;
        self.note_all(findings, &[]);
        Ok(())
    }
}
