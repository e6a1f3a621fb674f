//! Cancels a bulk operation (`lua/cancel_operation.lua`).

use crate::{Store, StoreError, contract::contract, entry::CatalogEntry, keys::DestinationKeys};

contract! {
    cancel_operation
    keys(keys: &DestinationKeys, id: &str) {
        epoch, operation: keys.operation(id),
    }
    args {}
}

impl Store {
    /// Asks the process that runs the operation to stop it. Returns the state of the operation; `None` if it does not
    /// exist.
    pub async fn cancel_operation(
        &self,
        entry: &CatalogEntry,
        id: &str,
    ) -> Result<Option<String>, StoreError> {
        let keys = self.keys_of(entry);
        let call = Args {}.call(self, &keys, id);
        self.run(&call).await
    }
}
