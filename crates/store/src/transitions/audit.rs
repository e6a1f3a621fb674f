//! Adds entries to the audit log (`lua/audit.lua`).

use crate::{Store, StoreError, contract::contract, keys::Keys};

contract! {
    audit
    keys(keys: &Keys) {
        audit,
    }
    args<'a> {
        entry: &'a str,
        most: usize,
    }
}

impl Store {
    /// Adds an entry to the audit log, which keeps at most `entries_max` entries. Redis sets the time of the entry.
    pub async fn audit(&self, entry: &str, entries_max: usize) -> Result<(), StoreError> {
        let call = Args { entry, most: entries_max }.call(self, self.keys());
        self.run::<String>(&call).await.map(drop)
    }
}
