//! Adds entries to the audit log (`lua/audit.lua`).

use crate::store::{Store, StoreError};

impl Store {
    /// Adds an entry to the audit log, which keeps this many. Redis gives it its time.
    pub async fn audit(&self, entry: &str, entries_max: usize) -> Result<(), StoreError> {
        let mut call = self.call(|scripts| &scripts.audit);
        call.key(self.keys().audit()).arg(entry).arg(entries_max);
        self.run::<String>(&call).await.map(drop)
    }
}
