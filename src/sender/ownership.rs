//! Which partitions this pod owns: a fair share, taken and given back without a coordinator. The
//! leases in Redis alone decide what is safe; the shares only decide who does what.

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
/// While partitions change hands, the pods are counted at most this often.
const RECOUNT: Duration = Duration::from_millis(50);
/// A pod that has not said for so long that it lives may be dead.
const SILENT: Duration = Duration::from_millis(2_500);
/// While a dead pod's partitions become free, they are looked for this often.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// Calls for ownership in flight at once.
const CALLS_MAX: usize = 64;

/// Partitions that others have given back.
#[derive(Default)]
pub(super) struct Freed {
    partitions: Mutex<BTreeSet<u16>>,
    told: Notify,
}

impl Freed {
    pub(super) fn tell(&self, partition: u16) {
        self.partitions.lock().unwrap_or_else(PoisonError::into_inner).insert(partition);
        self.told.notify_one();
    }

    fn take(&self) -> BTreeSet<u16> {
        std::mem::take(&mut *self.partitions.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

pub(super) struct Ownership {
    holdings: Arc<Holdings>,
    freed: Arc<Freed>,
    /// Sender pods that live, this one among them, and when they were counted.
    pods: usize,
    counted: Instant,
    /// A pod fell silent: until then its partitions become free.
    inherits_until: Option<Instant>,
    /// When to rebalance before the next time that it is done anyway: a silent pod is counted no more,
    /// or its partitions become free.
    look_at: Option<Instant>,
}

impl Ownership {
    pub(super) fn new(holdings: Arc<Holdings>, freed: Arc<Freed>) -> Self {
        Ownership {
            holdings,
            freed,
            pods: 1,
            counted: Instant::now(),
            inherits_until: None,
            look_at: None,
        }
    }

    /// Runs until `stop`; then gives everything back, what is in flight at the latest after `drain`.
    pub(super) async fn run(mut self, stop: CancellationToken, drain: Duration) {
        let mut second = tokio::time::interval(Duration::from_secs(1));
        second.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let look_at = self.look_at;
            tokio::select! {
                () = stop.cancelled() => break,
                () = self.freed.told.notified() => self.take_freed().await,
                () = inheritance_due(look_at) => self.rebalance().await,
                _ = second.tick() => self.rebalance().await,
            }
        }
        // The others' shares grow.
        let holdings = self.holdings;
        if let Err(error) = holdings.in_time(holdings.store.leave(ROLE)).await {
            tracing::debug!(%error, "cannot leave the list of senders");
        }
        // Renewal goes on while the last deliveries end, and what has ended is given back.
        holdings.drain();
        if tokio::time::timeout(drain, holdings.gone()).await.is_err() {
            holdings.lose();
            let _ = tokio::time::timeout(holdings.lease, holdings.gone()).await;
        }
    }

    fn share(&self) -> usize {
        usize::from(self.holdings.store.keys().partitions()).div_ceil(self.pods.max(1))
    }

    /// Counts the pods, takes what is free up to the share, gives back what is beyond it.
    async fn rebalance(&mut self) {
        self.look_at = None;
        let holdings = self.holdings.clone();
        let lease = holdings.lease;
        match holdings.in_time(holdings.store.heartbeat(ROLE, lease)).await {
            Ok((pods, silent_for)) => self.count_pods(pods.max(1), silent_for),
            // On a cluster, only the node that counts may be gone: as many as there were, then.
            Err(error) => tracing::debug!(%error, "cannot count the senders"),
        }
        let share = self.share();
        // No longer than the partition of a dead pod would stand still.
        let by = Instant::now() + lease;
        for partition in holdings.partitions().into_iter().skip(share) {
            if let Some(lease) = holdings.of(partition) {
                lease.hand_over(by);
            }
        }
        // Partition leases that were lost still count: they are taken again, or given back.
        let wanted = share.saturating_sub(holdings.count());
        if wanted > 0 {
            self.take_free(holdings.missing().into_iter().collect(), wanted).await;
        }
        let is_short = holdings.count() < share;
        if is_short && self.inherits_until.is_some_and(|until| Instant::now() < until) {
            self.look_at = Some(Instant::now() + LOOK_AGAIN);
        }
    }

    /// Notes how many senders live; and if one of them is silent, when to count again.
    fn count_pods(&mut self, pods: usize, silent_for: Duration) {
        let (now, lease) = (Instant::now(), self.holdings.lease);
        if pods < self.pods {
            // Leases that it renewed just before it died.
            self.inherits_until = Some(now + lease);
        }
        (self.pods, self.counted) = (pods, now);
        // The others say every second that they live.
        if silent_for < lease.saturating_sub(SILENT) {
            self.look_at = Some(now + silent_for + Duration::from_millis(1));
        }
    }

    /// Partitions were given back by another pod: takes them if the share allows. Who gives all back
    /// has left the list of pods before, so they are counted again: at once, or, if they were counted
    /// just now, a little later, as that may have been just before it left.
    async fn take_freed(&mut self) {
        let freed = self.freed.take();
        if self.holdings.count() >= self.share() {
            let again = self.counted + RECOUNT;
            if again <= Instant::now() {
                self.rebalance().await;
            } else {
                self.look_at = Some(self.look_at.map_or(again, |at| at.min(again)));
            }
        }
        let wanted = self.share().saturating_sub(self.holdings.count());
        let missing = self.holdings.missing();
        let free: Vec<u16> = freed.into_iter().filter(|one| missing.contains(one)).collect();
        self.take(free, wanted).await;
    }

    /// Takes at most `wanted` of these partitions. Looks first which are free: most are another's.
    /// Pods begin at different places, so that they seldom ask for the same.
    async fn take_free(&self, partitions: Vec<u16>, wanted: usize) {
        let store = &self.holdings.store;
        let looked = async { Ok(store.free_of(&partitions).await) };
        let mut free = self.holdings.in_time(looked).await.unwrap_or_default();
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

async fn inheritance_due(look_at: Option<Instant>) {
    match look_at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
