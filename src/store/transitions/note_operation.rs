//! Notes the progress of a bulk operation (`lua/note_operation.lua`).

use crate::store::{Store, StoreError, entry::CatalogEntry};

/// How long an operation can be read after its last progress.
const KEPT_MS: u64 = 7 * 24 * 3_600_000;
/// The most operations of a partition that are kept.
const KEPT_MAX: usize = 1_000;

impl Store {
    /// Notes the state of an operation; true if somebody has cancelled it.
    pub async fn note_operation(
        &self,
        entry: &CatalogEntry,
        id: &str,
        state: &str,
    ) -> Result<bool, StoreError> {
        let name = &entry.destination.name;
        let keys = self.keys().destination(name);
        let mut call = self.call(|scripts| &scripts.note_operation);
        call.key(keys.hash()).key(keys.partition.epoch());
        call.key(keys.operation(id)).key(keys.partition.operations());
        call.arg(format!("{name}/{id}")).arg(state).arg(KEPT_MS).arg(KEPT_MAX);
        let cancelled: u8 = self.run(&call).await?;
        Ok(cancelled == 1)
    }
}
