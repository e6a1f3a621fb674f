//! How much of its memory Redis uses.

use crate::{Store, StoreError};
use redis_client::Memory;

impl Store {
    /// The memory of the server that holds a partition.
    pub async fn memory(&self, partition: u16) -> Result<Memory, StoreError> {
        let key = self.keys().partition(partition).epoch();
        let answer = self.client().memory_at(&key).await;
        self.observed("INFO", &[key.into()], answer)
    }

    /// The memory of each partition's server, in order; `None` if the server does not answer.
    pub async fn memory_of_all(&self) -> Vec<Option<Memory>> {
        let numbers = 0..self.keys().partitions();
        let keys: Vec<String> =
            numbers.map(|number| self.keys().partition(number).epoch()).collect();
        // In this list, the index of a key is the number of its partition.
        self.of_servers(&keys, |first| self.memory(first as u16)).await
    }
}
