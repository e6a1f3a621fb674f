//! Checks the types of all keys of a destination, and rebuilds a lane (`lua/repair_keys.lua`).

use super::repair::{Finding, Repairing};
use crate::store::{StoreError, keys::Claimers};

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
        let mut call = self.store.call(|scripts| &scripts.repair_keys);
        call.key(keys.partition.epoch()).key(keys.hash()).key(keys.waiting()).key(keys.messages());
        call.key(keys.attempts()).key(keys.partition.leases()).key(keys.partition.delayed());
        call.key(keys.halted())
            .key(keys.withdrawals())
            .key(keys.dead_letters())
            .key(keys.dead_letter_messages());
        call.key(keys.dead_lettered_at()).key(keys.bodies()).key(keys.log());
        call.key(keys.partition.releasable()).key(keys.lanes());
        call.key(keys.partition.active(Claimers::Builtin));
        call.key(keys.partition.active(Claimers::Worker)).key(keys.withdrawn());
        call.key(keys.previous()).key(keys.ids()).key(keys.consumer_leases());
        call.key(keys.consumer_lease_ends()).key(keys.partition.consumers());
        call.key(keys.partition.withdrawing());
        if let Some(lane) = lane {
            call.key(keys.in_progress(lane.as_deref()));
        }
        call.arg(entry.version).arg(entry.ordering_text()).arg(self.repairs());
        for arg in sequences {
            call.arg(arg);
        }
        let findings: Vec<Finding> = self.store.run(&call).await?;
        self.note_all(findings, &[]);
        Ok(())
    }
}
