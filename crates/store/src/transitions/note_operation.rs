//! Stores the progress of a bulk operation (`lua/note_operation.lua`).

use crate::{Store, StoreError, contract::contract, entry::CatalogEntry, keys::DestinationKeys};

contract! {
    note_operation
    keys(keys: &DestinationKeys, id: &str) {
        destination: keys.hash(), epoch, operation: keys.operation(id), operations,
    }
    args<'a> {
        operation: String,
        state: &'a str,
        kept_ms: u64,
        most: usize,
    }
}

/// How long the state of an operation can be read after its last progress.
const KEPT_MS: u64 = 7 * 24 * 3_600_000;
/// The most operations that Redis keeps per partition.
const KEPT_MAX: usize = 1_000;

impl Store {
    /// Stores the state of an operation. Returns true if somebody has cancelled the operation.
    pub async fn note_operation(
        &self,
        entry: &CatalogEntry,
        id: &str,
        state: &str,
    ) -> Result<bool, StoreError> {
        let name = &entry.destination.name;
        let keys = self.keys().destination(name);
        let call =
            Args { operation: format!("{name}/{id}"), state, kept_ms: KEPT_MS, most: KEPT_MAX }
                .call(self, &keys, id);
        let cancelled: u8 = self.run(&call).await?;
        Ok(cancelled == 1)
    }
}
