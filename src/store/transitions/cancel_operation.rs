//! Cancels a bulk operation (`lua/cancel_operation.lua`).

use crate::store::{Store, StoreError, entry::CatalogEntry};

impl Store {
    /// Asks the process that runs the operation to stop it. Returns its state; `None` if there is
    /// no such operation.
    pub async fn cancel_operation(
        &self,
        entry: &CatalogEntry,
        id: &str,
    ) -> Result<Option<String>, StoreError> {
        let keys = self.keys().destination(&entry.destination.name);
        let mut call = self.call(|scripts| &scripts.cancel_operation);
        call.key(keys.partition.epoch()).key(keys.operation(id));
        self.run(&call).await
    }
}
