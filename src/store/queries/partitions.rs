//! Who owns which partition, and the clock of Redis.

use redis::Value;
use tokio::time::Instant;

use crate::{
    redis_client::{note_server_clock, server_clock_ms},
    store::{Store, StoreError},
};

impl Store {
    /// Those of these partitions that seem to have no owner. A hint: `lua/acquire_partition.lua` decides.
    pub async fn free_of(&self, partitions: &[u16]) -> Vec<u16> {
        let looks = partitions.iter().map(|partition| {
            let mut pipe = redis::pipe();
            pipe.get(self.keys().partition(*partition).owner());
            pipe
        });
        let found = self.query_each(&looks.collect::<Vec<_>>()).await;
        let now_ms = server_clock_ms();
        let is_free = |found: Result<Vec<Value>, StoreError>| {
            let owner = found.ok()?.pop()?;
            let owner: Option<String> = redis::from_redis_value(owner).ok()?;
            let deadline = owner.as_ref().and_then(|owner| owner.split_once(' ')?.1.parse().ok());
            Some(owner.is_none() || deadline.is_some_and(|deadline: u64| deadline <= now_ms))
        };
        let free = partitions.iter().zip(found).filter_map(|(partition, found)| {
            is_free(found).is_some_and(|is_free| is_free).then_some(*partition)
        });
        free.collect()
    }

    /// True if no partition has an owner and no sender is alive. False if that cannot be
    /// determined.
    pub async fn is_unowned(&self) -> bool {
        let partitions: Vec<u16> = (0..self.keys().partitions()).collect();
        let mut pipe = redis::pipe();
        pipe.zrangebyscore(self.keys().pods(), server_clock_ms(), "+inf");
        let pods: Result<(Vec<String>,), _> = self.query(&pipe).await;
        let has_senders =
            pods.map_or(true, |(pods,)| pods.iter().any(|pod| pod.starts_with("sender:")));
        !has_senders && self.free_of(&partitions).await.len() == partitions.len()
    }

    /// The server's clock, in ms since 1970. In a cluster, that of the node with the list of live
    /// pods.
    pub async fn server_time_ms(&self) -> Result<u64, StoreError> {
        let asked = Instant::now();
        let now_ms = self.time_at(&self.keys().pods()).await?;
        note_server_clock(now_ms, asked);
        Ok(now_ms)
    }
}
