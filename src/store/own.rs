//! Ownership of partitions, and the list of pods that live (`lua/acquire_partition.lua`, `lua/resign_partition.lua`,
//! `lua/heartbeat.lua`).

use std::time::Duration;

use futures::{StreamExt, stream};
use redis::Value;
use tokio::time::Instant;

use super::{Store, StoreError, clock};
use crate::domain::Epoch;

/// Partitions that are vouched for at once.
const CALLS_MAX: usize = 16;

/// The random token under which a sender pod owns partitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnerToken(String);

impl OwnerToken {
    /// A token that nobody else has.
    pub fn random() -> Self {
        OwnerToken(uuid::Uuid::new_v4().simple().to_string())
    }

    /// As the scripts compare it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A partition that is now owned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owned {
    /// The partition's epoch.
    pub epoch: Epoch,
    /// How long releases must still wait after a restart of Redis.
    pub takeover_wait: Duration,
}

/// The answer to giving a partition back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resigned {
    /// False if it was not owned under this token any more.
    pub was_owned: bool,
    /// The partition's epoch.
    pub epoch: Epoch,
}

impl Store {
    /// Takes a free partition, or renews the lease on one that is owned under the same token. Where
    /// there are replicas it counts only once they have it, so that a primary that was cut off keeps
    /// no owner: else the call is unconfirmed.
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
            let problem = "too few replicas have noted who owns the partition";
            return Err(StoreError::Unconfirmed(problem.to_owned()));
        }
        Ok(Owned { epoch, takeover_wait: Duration::from_millis(wait_ms) })
    }

    /// Those of these partitions that nobody seems to own just now. A hint: [`Store::own`] decides.
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

    /// Gives a partition back. With `vouched`, the caller vouches that no sender of an epoch before that
    /// one sends any more: if that is the epoch now, releases need not wait for such a sender. Only
    /// who heard of that epoch while its own lease lasted by its own clock, had not given it back, and
    /// has stopped since, knows this.
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

    /// True if no partition is owned, and no sender says that it lives. Where that cannot be found out, it
    /// is not so.
    pub async fn is_unowned(&self) -> bool {
        let partitions: Vec<u16> = (0..self.keys().partitions()).collect();
        let mut pipe = redis::pipe();
        pipe.zrangebyscore(self.keys().pods(), clock::server_clock_ms(), "+inf");
        let pods: Result<(Vec<String>,), _> = self.query(&pipe).await;
        let has_senders =
            pods.map_or(true, |(pods,)| pods.iter().any(|pod| pod.starts_with("sender:")));
        !has_senders && self.free_of(&partitions).await.len() == partitions.len()
    }

    /// Vouches for each partition that no sender from before this start of Redis sends any more: it had
    /// been stopped when none was sending, and has forgotten nothing.
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

    /// Says that this pod lives in this role, and counts those who said so within `lease`. Also tells
    /// when the next of them is counted no more if it stays silent.
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

    /// Says that this pod leaves this role.
    pub async fn leave(&self, role: &str) -> Result<(), StoreError> {
        let member = format!("{role}:{}", self.pod());
        self.query::<()>(redis::pipe().zrem(self.keys().pods(), member).ignore()).await
    }

    /// The server's clock, in ms since 1970: on a cluster, that of the node on which pods note that
    /// they live.
    pub async fn server_time_ms(&self) -> Result<u64, StoreError> {
        let asked = Instant::now();
        let now_ms = self.time_at(&self.keys().pods()).await?;
        clock::note(now_ms, asked);
        Ok(now_ms)
    }
}
