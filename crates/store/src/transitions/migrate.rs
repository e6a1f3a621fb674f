//! Raises the schema of a partition (`lua/migrate.lua`).

use crate::{Store, StoreError, contract::contract, keys::PartitionKeys, known_schema::known};

contract! {
    migrate
    keys(keys: &PartitionKeys) {
        epoch,
    }
    args {
        schema: u32,
    }
}

impl Store {
    /// Raises the schema of a partition to the newest that this version knows. Returns the previous schema.
    pub async fn migrate(&self, partition: u16) -> Result<u32, StoreError> {
        let keys = self.keys().partition(partition);
        let call = Args { schema: known() }.call(self, &keys);
        self.run(&call).await
    }
}
