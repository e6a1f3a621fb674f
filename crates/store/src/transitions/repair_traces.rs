//! Checks keys for traces of messages that are gone (`lua/repair_traces.lua`).

use super::repair::{Finding, Repairing};
use crate::{StoreError, contract::contract, keys::DestinationKeys};

contract! {
    repair_traces
    keys(keys: &DestinationKeys) {
        epoch, destination: keys.hash(), messages, leases, dead_letters, dead_letter_messages,
        dead_lettered_at, bodies, log,
    }
    args<'a> {
        version: u64,
        /// `1`, or empty: only to report.
        repairs: &'a str,
        /// `leases`, `letters` or `bodies`.
        what: &'a str,
    }
    lists {
        /// Members of leases of messages without a record; sequences of dead letters; or the cursor from which to continue
        /// among the bodies.
        traces: &'a str,
    }
}

impl Repairing<'_> {
    /// Checks some traces of one kind; returns where to continue (`lua/repair_traces.lua`).
    pub(super) async fn check_traces(
        &mut self,
        part: &str,
        args: &[String],
    ) -> Result<String, StoreError> {
        self.begin()?;
        let keys = self.keys.clone();
        let call = Args {
            version: self.entry.version,
            repairs: self.repairs(),
            what: part,
            traces: args.iter().map(String::as_str).collect(),
        }
        .call(self.store, &keys);
        let (cursor, findings): (String, Vec<Finding>) = self.store.run(&call).await?;
        self.note_all(findings, &[]);
        Ok(cursor)
    }
}
