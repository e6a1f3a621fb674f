//! Takes a fair share of the partitions, and gives partitions back, without a coordinator. Shares
//! only divide the work. Safety depends only on the leases.
//!
//! An owner counts its lease by its own clock, and changes the value of the owner key with each renewal. Another sender
//! takes the partition only if the value was unchanged for the length of that lease, measured with its own clock. So no
//! two clocks are compared, and the clock of Redis may step.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use futures::future::join_all;
use parking_lot::Mutex;
use tokio::{sync::Notify, time::Instant};
use tokio_util::sync::CancellationToken;

use super::holdings::Holdings;

/// The name of the role in the list of pods.
const ROLE: &str = "sender";
/// The shortest time between two counts of the pods, while partitions change their owners.
const RECOUNT: Duration = Duration::from_millis(50);
/// A pod without a heartbeat for this long may be dead.
const SILENT: Duration = Duration::from_millis(2_500);
/// The most calls in flight to take partitions.
const CALLS_MAX: usize = 64;

/// Partitions that other pods have given back.
#[derive(Default)]
pub(super) struct Freed {
    partitions: Mutex<BTreeSet<u16>>,
    changed: Notify,
}

impl Freed {
    pub(super) fn note(&self, partition: u16) {
        self.partitions.lock().insert(partition);
        self.changed.notify_one();
    }

    fn take(&self) -> BTreeSet<u16> {
        std::mem::take(&mut *self.partitions.lock())
    }
}

pub(super) struct Ownership {
    holdings: Arc<Holdings>,
    freed: Arc<Freed>,
    /// The number of live sender pods, including this one, and when they were counted.
    pods: usize,
    counted: Instant,
    /// For partitions that this pod does not hold: the value of the owner key, and since when it is unchanged.
    seen: HashMap<u16, (String, Instant)>,
    /// When to rebalance before the next tick: when a silent pod stops counting, or its partitions become free.
    rebalance_at: Option<Instant>,
}

impl Ownership {
    pub(super) fn new(holdings: Arc<Holdings>, freed: Arc<Freed>) -> Self {
        Ownership {
            holdings,
            freed,
            pods: 1,
            counted: Instant::now(),
            seen: HashMap::new(),
            rebalance_at: None,
        }
    }

    /// Runs until `stop`, then gives all partitions back. Deliveries in flight may take up to `drain` to end.
    pub(super) async fn run(mut self, stop: CancellationToken, drain: Duration) {
        let mut second = tokio::time::interval(Duration::from_secs(1));
        second.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let rebalance_at = self.rebalance_at;
            tokio::select! {
                () = stop.cancelled() => break,
                () = self.freed.changed.notified() => self.take_freed().await,
                () = rebalance_due(rebalance_at) => self.rebalance().await,
                _ = second.tick() => self.rebalance().await,
            }
        }
        // Leave the list first, so that the shares of the other pods grow.
        let holdings = self.holdings;
        if let Err(error) = holdings.in_time(holdings.store.leave(ROLE)).await {
            tracing::debug!(%error, "cannot leave the list of senders");
        }
        // Renewal continues while the last deliveries end. Each partition is given back as soon as its
        // deliveries have ended.
        holdings.drain();
        if tokio::time::timeout(drain, holdings.gone()).await.is_err() {
            holdings.lose();
            let _ = tokio::time::timeout(holdings.lease, holdings.gone()).await;
        }
    }

    fn share(&self) -> usize {
        usize::from(self.holdings.store.keys().partitions()).div_ceil(self.pods.max(1))
    }

    /// Counts the pods, takes free partitions up to the share, and gives back partitions beyond it.
    async fn rebalance(&mut self) {
        self.rebalance_at = None;
        let holdings = self.holdings.clone();
        let lease = holdings.lease;
        match holdings.in_time(holdings.store.heartbeat(ROLE, lease)).await {
            Ok((pods, silent_for)) => self.count_pods(pods.max(1), silent_for),
            // In a cluster, perhaps only the node with the heartbeats is gone: keep the last count.
            Err(error) => tracing::debug!(%error, "cannot count the senders"),
        }
        let share = self.share();
        // The partition must be free after one lease at the latest, as after the death of a pod.
        let by = Instant::now() + lease;
        for partition in holdings.partitions().into_iter().skip(share) {
            if let Some(lease) = holdings.of(partition) {
                lease.resign_by(by);
            }
        }
        // Count partitions whose lease was lost too: their tasks take them again, or give them back.
        let wanted = share.saturating_sub(holdings.count());
        // Read the owner keys even before the share grows: when a pod has died, its keys have
        // then been seen unchanged for some time.
        let mut free = self.look().await;
        // Pods begin at random places, so that they seldom try to take the same partition.
        let start = rand::random_range(0..free.len().max(1));
        free.rotate_left(start);
        self.take(free, wanted).await;
        if holdings.count() < share {
            let next = self.seen.values().map(|(value, since)| *since + lease_in(value, lease));
            let next = next.filter(|at| *at > Instant::now()).min();
            self.rebalance_at = self.rebalance_at.into_iter().chain(next).min();
        }
    }

    /// Reads the owner keys of the partitions that this pod does not hold. Returns the partitions
    /// that it may take, with the values that their keys must still have.
    async fn look(&mut self) -> Vec<(u16, String)> {
        let holdings = self.holdings.clone();
        let missing = holdings.missing();
        self.seen.retain(|partition, _| missing.contains(partition));
        let partitions: Vec<u16> = missing.into_iter().collect();
        let asked = async { Ok(holdings.store.owner_values(&partitions).await) };
        let found = holdings.in_time(asked).await.unwrap_or_default();
        // An owner key of this pod is from an earlier lease that has ended, so the partition is free.
        let own = format!("{}.", holdings.store.pod());
        let (now, mut free) = (Instant::now(), Vec::new());
        for (partition, value) in partitions.into_iter().zip(found) {
            let Some(value) = value else { continue };
            let (seen, since) = self.seen.entry(partition).or_insert((value.clone(), now));
            if *seen != value {
                (*seen, *since) = (value.clone(), now);
            }
            let is_over = now >= *since + lease_in(&value, holdings.lease);
            if value.is_empty() || value.starts_with(&own) || is_over {
                free.push((partition, value));
            }
        }
        free
    }

    /// Notes the number of live senders, and when to count again if one is silent.
    fn count_pods(&mut self, pods: usize, silent_for: Duration) {
        let (now, lease) = (Instant::now(), self.holdings.lease);
        (self.pods, self.counted) = (pods, now);
        // Live pods send a heartbeat every second.
        if silent_for < lease.saturating_sub(SILENT) {
            self.rebalance_at = Some(now + silent_for + Duration::from_millis(1));
        }
    }

    /// Another pod gave partitions back: takes them if the share allows. A stopping pod leaves the
    /// list of pods before it gives partitions back, so the pods are counted again: at once, or a
    /// little later if the last count was just now, and so perhaps just before that pod left.
    async fn take_freed(&mut self) {
        let freed = self.freed.take();
        if self.holdings.count() >= self.share() {
            let again = self.counted + RECOUNT;
            if again <= Instant::now() {
                self.rebalance().await;
            } else {
                self.rebalance_at = Some(self.rebalance_at.map_or(again, |at| at.min(again)));
            }
        }
        let wanted = self.share().saturating_sub(self.holdings.count());
        let missing = self.holdings.missing();
        let free = freed.into_iter().filter(|one| missing.contains(one));
        self.take(free.map(|one| (one, String::new())).collect(), wanted).await;
    }

    /// Takes at most `wanted` of these partitions, whose owner keys must still have these values.
    async fn take(&self, partitions: Vec<(u16, String)>, wanted: usize) {
        let mut taken: BTreeMap<String, usize> = BTreeMap::new();
        self.take_some(&partitions, wanted, &mut taken).await;
        for (from, count) in taken {
            let from = Some(from.as_str()).filter(|from| !from.is_empty());
            match from {
                Some(from) => tracing::warn!(
                    count,
                    from,
                    "took partitions from a pod that no longer renews them"
                ),
                None => tracing::info!(count, "took free partitions"),
            }
        }
    }

    /// Takes partitions like `take`. Counts in `taken` how many came from each pod; `""`: they were free.
    async fn take_some(
        &self,
        partitions: &[(u16, String)],
        wanted: usize,
        taken: &mut BTreeMap<String, usize>,
    ) {
        let wanted = self.holdings.count() + wanted;
        let mut rest = partitions;
        while !rest.is_empty() {
            let left = wanted.saturating_sub(self.holdings.count());
            if left == 0 {
                return;
            }
            let (some, others) = rest.split_at(left.min(CALLS_MAX).min(rest.len()));
            let holdings = self.holdings.clone();
            let all = some.iter().map(|(one, value)| holdings.clone().take(*one, value));
            for ((_, value), is_taken) in some.iter().zip(join_all(all).await) {
                let owner = value.split_once('.').map_or("", |(pod, _)| pod);
                if is_taken {
                    // The value is from an earlier lease of this pod, which has ended.
                    let owner = if owner == holdings.store.pod() { "" } else { owner };
                    *taken.entry(owner.to_owned()).or_default() += 1;
                }
            }
            rest = others;
        }
    }
}

async fn rebalance_due(rebalance_at: Option<Instant>) {
    match rebalance_at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// The length of the lease in the value of an owner key. Another sender may take the partition once the value has
/// stayed unchanged for this long.
fn lease_in(value: &str, otherwise: Duration) -> Duration {
    let lease_ms = value.split(' ').nth(1).and_then(|lease_ms| lease_ms.parse().ok());
    lease_ms.map_or(otherwise, Duration::from_millis)
}
