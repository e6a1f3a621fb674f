//! Checks keys for traces of messages that are gone (`lua/repair_traces.lua`).

use super::repair::{Finding, Repairing};
use crate::store::StoreError;

impl Repairing<'_> {
    /// Checks some traces of one kind; returns where to continue (`lua/repair_traces.lua`).
    pub(super) async fn check_traces(
        &mut self,
        part: &str,
        args: &[String],
    ) -> Result<String, StoreError> {
        self.begin()?;
        let keys = self.keys.clone();
        let mut call = self.store.call(|scripts| &scripts.repair_traces);
        call.key(keys.partition.epoch()).key(keys.hash()).key(keys.messages());
        call.key(keys.partition.leases()).key(keys.dead_letters()).key(keys.dead_letter_messages());
        call.key(keys.dead_lettered_at()).key(keys.bodies()).key(keys.log());
        call.arg(self.entry.version).arg(self.repairs()).arg(part);
        for arg in args {
            call.arg(arg);
        }
        let (cursor, findings): (String, Vec<Finding>) = self.store.run(&call).await?;
        self.note_all(findings, &[]);
        Ok(cursor)
    }
}
