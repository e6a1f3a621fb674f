//! Raises the schema of a partition (`lua/migrate.lua`).

use crate::store::{Store, StoreError, known_schema::known};

impl Store {
    /// Raises the schema of a partition to the newest that this version knows. Returns the previous
    /// one.
    pub async fn migrate(&self, partition: u16) -> Result<u32, StoreError> {
        let keys = self.keys().partition(partition);
        let mut call = self.call(|scripts| &scripts.migrate);
        call.key(keys.epoch());
        call.arg(known());
        self.run(&call).await
    }
}
