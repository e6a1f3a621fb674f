//! The owners of partitions, and the clock of Redis.

use redis::Value;
use tokio::time::Instant;

use crate::{Store, StoreError};
use redis_client::{note_server_clock, server_clock_ms};

impl Store {
    /// The values of the owner keys of these partitions, in order; empty if a partition has no owner. `None` if Redis
    /// did not answer.
    pub async fn owner_values(&self, partitions: &[u16]) -> Vec<Option<String>> {
        let looks = partitions.iter().map(|partition| {
            let mut pipe = redis::pipe();
            pipe.get(self.keys().partition(*partition).owner());
            pipe
        });
        let found = self.query_each(&looks.collect::<Vec<_>>()).await;
        let value = |found: Result<Vec<Value>, StoreError>| {
            let owner: Option<String> = redis::from_redis_value(found.ok()?.pop()?).ok()?;
            Some(owner.unwrap_or_default())
        };
        found.into_iter().map(value).collect()
    }

    /// True if no partition has an owner and no sender is alive. False if this is unknown.
    pub async fn is_unowned(&self) -> bool {
        let partitions: Vec<u16> = (0..self.keys().partitions()).collect();
        let mut pipe = redis::pipe();
        pipe.zrangebyscore(self.keys().pods(), server_clock_ms(), "+inf");
        let pods: Result<(Vec<String>,), _> = self.query(&pipe).await;
        let has_senders =
            pods.map_or(true, |(pods,)| pods.iter().any(|pod| pod.starts_with("sender:")));
        let free = Some(String::new());
        !has_senders && self.owner_values(&partitions).await.iter().all(|owner| *owner == free)
    }

    /// The server's clock, in ms since 1970. In a cluster, the clock of the node with the list of live pods.
    pub async fn server_time_ms(&self) -> Result<u64, StoreError> {
        let asked = Instant::now();
        let now_ms = self.time_at(&self.keys().pods()).await?;
        note_server_clock(now_ms, asked);
        Ok(now_ms)
    }
}
