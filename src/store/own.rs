//! Ownership of partitions, and the list of live pods (`lua/acquire_partition.lua`,
//! `lua/resign_partition.lua`, `lua/heartbeat.lua`).

use std::time::Duration;

use futures::{StreamExt, stream};
use redis::Value;
use tokio::time::Instant;

use super::{Store, StoreError, clock};
use crate::domain::Epoch;

/// Partitions to vouch for in parallel.
const CALLS_MAX: usize = 16;

/// The random token that identifies a sender as owner of partitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnerToken(String);

impl OwnerToken {
    /// A new unique token.
    pub fn random() -> Self {
        OwnerToken(uuid::Uuid::new_v4().simple().to_string())
    }

    /// The text that scripts compare.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The answer to acquiring a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owned {
    /// The partition's epoch.
    pub epoch: Epoch,
    /// How long releases must still wait after a restart of Redis.
    pub takeover_wait: Duration,
}

/// The answer to resigning a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resigned {
    /// False if this token no longer owned it.
    pub was_owned: bool,
    /// The partition's epoch.
    pub epoch: Epoch,
}

impl Store {
    /// Acquires a free partition, or renews the lease of one that this token owns. If there are
    /// replicas, a majority must confirm it, so that an old primary that was cut off grants no
    /// ownership; otherwise the call is unconfirmed.
    pub async fn acquire_partition(
        &self,
        partition: u16,
        token: &OwnerToken,
        lease: Duration,
    ) -> Result<Owned, StoreError> {
        let keys = self.keys().partition(partition);
        let (name, mut call) = self.script(|scripts| &scripts.acquire_partition);
        call.key(keys.epoch()).key(keys.owner());
        call.arg(token.as_str()).arg(lease.as_millis() as u64);
        call.arg(self.known_of_epoch(partition));
        let (answer, confirmed) =
            self.run_confirmed(name, &call, self.confirm_of_majority()).await?;
        let (epoch, wait_ms): (Epoch, u64) = answer;
        self.inner.epochs.note(partition, epoch);
        if !confirmed {
            let problem = "too few replicas have confirmed the owner of the partition";
            return Err(StoreError::Unconfirmed(problem.to_owned()));
        }
        Ok(Owned { epoch, takeover_wait: Duration::from_millis(wait_ms) })
    }

    /// Those of these partitions that seem to have no owner. A hint; `acquire_partition` decides.
    pub async fn free_of(&self, partitions: &[u16]) -> Vec<u16> {
        let looks = partitions.iter().map(|partition| {
            let mut pipe = redis::pipe();
            pipe.get(self.keys().partition(*partition).owner());
            pipe
        });
        let found = self.query_each(&looks.collect::<Vec<_>>()).await;
        let now_ms = clock::server_clock_ms();
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

    /// Resigns a partition. With `vouched`, the caller declares that no sender from before that
    /// epoch still sends: if it is the current epoch, the takeover wait ends. Only a caller that
    /// learned of the epoch while its lease lasted by its own clock, had not resigned, and has
    /// since stopped sending may declare this.
    pub async fn resign_partition(
        &self,
        partition: u16,
        token: &OwnerToken,
        vouched: Option<Epoch>,
    ) -> Result<Resigned, StoreError> {
        let keys = self.keys().partition(partition);
        let (name, mut call) = self.script(|scripts| &scripts.resign_partition);
        call.key(keys.owner()).key(keys.wake_owner()).key(keys.epoch());
        call.arg(token.as_str()).arg(self.known_of_epoch(partition));
        call.arg(vouched.map_or_else(String::new, |epoch| epoch.to_string()));
        let (was_owned, epoch): (bool, Epoch) = self.run(name, &call).await?;
        self.inner.epochs.note(partition, epoch);
        Ok(Resigned { was_owned, epoch })
    }

    /// True if no partition has an owner and no sender is alive. False if that cannot be
    /// determined.
    pub async fn is_unowned(&self) -> bool {
        let partitions: Vec<u16> = (0..self.keys().partitions()).collect();
        let mut pipe = redis::pipe();
        pipe.zrangebyscore(self.keys().pods(), clock::server_clock_ms(), "+inf");
        let pods: Result<(Vec<String>,), _> = self.query(&pipe).await;
        let has_senders =
            pods.map_or(true, |(pods,)| pods.iter().any(|pod| pod.starts_with("sender:")));
        !has_senders && self.free_of(&partitions).await.len() == partitions.len()
    }

    /// Declares for each partition that no sender from before this start of Redis still sends. Only
    /// valid after a clean stop of Redis.
    pub async fn vouch(&self) {
        let nobody = OwnerToken::random();
        let all = stream::iter(0..self.keys().partitions()).map(|partition| {
            let nobody = &nobody;
            async move {
                let begun = self.resign_partition(partition, nobody, None).await?.epoch;
                self.resign_partition(partition, nobody, Some(begun)).await
            }
        });
        let vouched: Vec<_> = all.buffer_unordered(CALLS_MAX).collect().await;
        let waiting = vouched.iter().filter(|vouched| vouched.is_err()).count();
        tracing::info!(waiting, "Redis was stopped cleanly: deliveries need not wait");
    }

    /// Records that this pod is alive in this role. Returns how many are, by heartbeats within
    /// `lease`, and when the next one expires unless renewed.
    pub async fn heartbeat(
        &self,
        role: &str,
        lease: Duration,
    ) -> Result<(usize, Duration), StoreError> {
        let (name, mut call) = self.script(|scripts| &scripts.heartbeat);
        call.key(self.keys().pods());
        call.arg(role).arg(self.pod()).arg(lease.as_millis() as u64);
        let (pods, silent_for_ms): (usize, u64) = self.run(name, &call).await?;
        Ok((pods, Duration::from_millis(silent_for_ms)))
    }

    /// Removes this pod's heartbeat for this role.
    pub async fn leave(&self, role: &str) -> Result<(), StoreError> {
        let member = format!("{role}:{}", self.pod());
        self.query::<()>(redis::pipe().zrem(self.keys().pods(), member).ignore()).await
    }

    /// The server's clock, in ms since 1970. In a cluster, that of the node with the list of live
    /// pods.
    pub async fn server_time_ms(&self) -> Result<u64, StoreError> {
        let asked = Instant::now();
        let now_ms = self.time_at(&self.keys().pods()).await?;
        clock::note(now_ms, asked);
        Ok(now_ms)
    }
}
