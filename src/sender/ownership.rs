//! Which partitions this pod owns: a fair share, taken and given back without a coordinator. Shares only
//! divide the work. Safety depends on the leases in Redis, and on nothing else.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures::future::join_all;
use tokio::{sync::Notify, time::Instant};
use tokio_util::sync::CancellationToken;

use super::holdings::Holdings;

/// The name of the role in the list of pods.
const ROLE: &str = "sender";
/// While partitions change their owners, the pods are counted at most this often.
const RECOUNT: Duration = Duration::from_millis(50);
/// A pod without a heartbeat for this long may be dead.
const SILENT: Duration = Duration::from_millis(2_500);
/// How often to ask for free partitions while those of a dead pod become free.
const POLL_AGAIN: Duration = Duration::from_millis(100);
/// The most calls in flight that take partitions.
const CALLS_MAX: usize = 64;

/// Partitions that other pods have given back.
#[derive(Default)]
pub(super) struct Freed {
    partitions: Mutex<BTreeSet<u16>>,
    changed: Notify,
}

impl Freed {
    pub(super) fn note(&self, partition: u16) {
        self.partitions.lock().unwrap_or_else(PoisonError::into_inner).insert(partition);
        self.changed.notify_one();
    }

    fn take(&self) -> BTreeSet<u16> {
        std::mem::take(&mut *self.partitions.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

pub(super) struct Ownership {
    holdings: Arc<Holdings>,
    freed: Arc<Freed>,
    /// The number of live sender pods, including this one, and when they were counted.
    pods: usize,
    counted: Instant,
    /// A pod has died: its partitions become free until this time.
    inherits_until: Option<Instant>,
    /// When to rebalance before the next tick: when a silent pod stops counting, or when its partitions become
    /// free.
    rebalance_at: Option<Instant>,
}

impl Ownership {
    pub(super) fn new(holdings: Arc<Holdings>, freed: Arc<Freed>) -> Self {
        Ownership {
            holdings,
            freed,
            pods: 1,
            counted: Instant::now(),
            inherits_until: None,
            rebalance_at: None,
        }
    }

    /// Runs until `stop`; then gives everything back. Deliveries in flight have `drain` to end.
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
        // The shares of the other pods grow.
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

    /// Counts the pods, takes free partitions up to the share, and gives back those beyond it.
    async fn rebalance(&mut self) {
        self.rebalance_at = None;
        let holdings = self.holdings.clone();
        let lease = holdings.lease;
        match holdings.in_time(holdings.store.heartbeat(ROLE, lease)).await {
            Ok((pods, silent_for)) => self.count_pods(pods.max(1), silent_for),
            // In a cluster, it may be that only the node with the heartbeats is gone: keep the last count.
            Err(error) => tracing::debug!(%error, "cannot count the senders"),
        }
        let share = self.share();
        // A partition is free after one lease at the latest, as after the death of a pod.
        let by = Instant::now() + lease;
        for partition in holdings.partitions().into_iter().skip(share) {
            if let Some(lease) = holdings.of(partition) {
                lease.resign_by(by);
            }
        }
        // Partitions whose lease was lost count too: their tasks take them again, or give them back.
        let wanted = share.saturating_sub(holdings.count());
        if wanted > 0 {
            self.take_free(holdings.missing().into_iter().collect(), wanted).await;
        }
        let is_short = holdings.count() < share;
        if is_short && self.inherits_until.is_some_and(|until| Instant::now() < until) {
            self.rebalance_at = Some(Instant::now() + POLL_AGAIN);
        }
    }

    /// Notes how many senders live, and when to count again if one of them is silent.
    fn count_pods(&mut self, pods: usize, silent_for: Duration) {
        let (now, lease) = (Instant::now(), self.holdings.lease);
        if pods < self.pods {
            // The dead pod may have renewed its leases just before it died.
            self.inherits_until = Some(now + lease);
        }
        (self.pods, self.counted) = (pods, now);
        // Live pods send a heartbeat every second.
        if silent_for < lease.saturating_sub(SILENT) {
            self.rebalance_at = Some(now + silent_for + Duration::from_millis(1));
        }
    }

    /// Another pod gave partitions back: takes them if the share allows. A pod that stops leaves the list of
    /// pods before it gives everything back, so the pods are counted again: at once, or a little
    /// later if they were counted just now, maybe just before that pod left.
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
        let free: Vec<u16> = freed.into_iter().filter(|one| missing.contains(one)).collect();
        self.take(free, wanted).await;
    }

    /// Takes at most `wanted` of these partitions. Asks first which are free: other pods own most of them.
    /// Pods begin at random places, so that they seldom try to take the same partition.
    async fn take_free(&self, partitions: Vec<u16>, wanted: usize) {
        let store = &self.holdings.store;
        let asked = async { Ok(store.free_of(&partitions).await) };
        let mut free = self.holdings.in_time(asked).await.unwrap_or_default();
        let start = rand::random_range(0..free.len().max(1));
        free.rotate_left(start);
        self.take(free, wanted).await;
    }

    async fn take(&self, partitions: Vec<u16>, wanted: usize) {
        let wanted = self.holdings.count() + wanted;
        let mut rest = partitions.as_slice();
        while !rest.is_empty() {
            let left = wanted.saturating_sub(self.holdings.count());
            if left == 0 {
                return;
            }
            let (some, others) = rest.split_at(left.min(CALLS_MAX).min(rest.len()));
            let holdings = self.holdings.clone();
            join_all(some.iter().map(move |partition| holdings.clone().take(*partition))).await;
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
