//! The partitions that this pod owns. A separate task for each partition takes, renews and gives
//! back its lease, so a server that does not answer delays only the leases of its own partitions.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{sync::Notify, time::Instant};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::partition_lease::PartitionLease;
use faults::{
    pause::{Point, point},
    planted,
};
use store::{OwnerToken, Store, StoreError};

/// The pause before another attempt to give a partition back.
const PAUSE: Duration = Duration::from_millis(50);

/// The partitions of this pod. The tasks that deliver, rebalance and renew share this.
pub(super) struct Holdings {
    pub(super) store: Store,
    pub(super) lease: Duration,
    leases: Mutex<HashMap<u16, Arc<PartitionLease>>>,
    /// One task for each partition in `leases`.
    keepers: TaskTracker,
    /// Set when all partitions are being given back; take no more.
    leaving: CancellationToken,
    /// Notified when this pod took or lost a partition.
    pub(super) changed: Notify,
    /// When the log last mentioned a takeover wait, and when an unconfirmed call. All partitions share these times.
    logged: Mutex<[Option<Instant>; 2]>,
}

impl Holdings {
    pub(super) fn new(store: Store, lease: Duration) -> Arc<Holdings> {
        Arc::new(Holdings {
            store,
            lease,
            leases: Mutex::default(),
            keepers: TaskTracker::new(),
            leaving: CancellationToken::new(),
            changed: Notify::new(),
            logged: Mutex::default(),
        })
    }

    /// The number of partitions, including partitions that are being given back or taken again.
    pub(super) fn count(&self) -> usize {
        self.leases.lock().len()
    }

    /// The partitions whose lanes this pod may deliver.
    pub(super) fn partitions(&self) -> Vec<u16> {
        let leases = self.leases.lock();
        let live = leases.values().filter(|lease| !lease.is_over());
        live.map(|lease| lease.partition).collect()
    }

    /// The partitions that this pod does not hold. It still holds partitions that are being given back.
    pub(super) fn missing(&self) -> BTreeSet<u16> {
        let leases = self.leases.lock();
        (0..self.store.keys().partitions()).filter(|one| !leases.contains_key(one)).collect()
    }

    pub(super) fn of(&self, partition: u16) -> Option<Arc<PartitionLease>> {
        self.leases.lock().get(&partition).filter(|lease| !lease.is_over()).cloned()
    }

    /// Takes a missing partition and keeps it, if it is free or its owner key still has the value `unchanged`. Only one
    /// caller at a time may take the same partition. False if this pod did not get it.
    pub(super) async fn take(self: Arc<Self>, partition: u16, unchanged: &str) -> bool {
        let Some(lease) = self.lease_of(partition, unchanged).await else { return false };
        self.leases.lock().insert(partition, lease.clone());
        telemetry::partition_acquired();
        self.changed.notify_one();
        self.keepers.spawn(self.clone().keep(lease));
        true
    }

    /// Begins no more deliveries, and lets deliveries in flight end.
    pub(super) fn drain(&self) {
        self.leaving.cancel();
        self.leases.lock().values().for_each(|lease| lease.draining.cancel());
    }

    /// Aborts deliveries in flight.
    pub(super) fn lose(&self) {
        self.leases.lock().values().for_each(|lease| lease.lost.cancel());
    }

    /// Resolves when everything has been given back, after [`Holdings::drain`].
    pub(super) async fn gone(&self) {
        self.keepers.close();
        self.keepers.wait().await;
    }

    /// Takes a new lease of a partition that is free, or whose owner key still has the value `unchanged`.
    async fn lease_of(&self, partition: u16, unchanged: &str) -> Option<Arc<PartitionLease>> {
        let (token, asked) = (OwnerToken::of(self.store.pod()), Instant::now());
        let taken = self.store.take_partition(partition, &token, self.lease, unchanged);
        match self.in_time(taken).await {
            Ok(owned) => {
                point(Point::OwnerTaken).await;
                self.log_takeover_wait(owned.takeover_wait);
                let until = self.valid_until(asked);
                let lease =
                    PartitionLease::new(partition, token, owned.epoch, owned.takeover_wait, until);
                Some(Arc::new(lease))
            }
            Err(StoreError::Owned(_)) => None,
            Err(error) => {
                tracing::debug!(partition, %error, "cannot take a partition");
                if matches!(error, StoreError::Unconfirmed(_)) {
                    // Redis may have granted the lease, but this pod does not use it. Without
                    // this call, no pod would deliver until that lease expires.
                    let given_back =
                        self.in_time(self.store.resign_partition(partition, &token, None)).await;
                    self.log_unconfirmed(partition, given_back.is_ok());
                }
                None
            }
        }
    }

    /// Holds a partition, one lease after the other, until it is given back or another pod owns it.
    async fn keep(self: Arc<Self>, mut lease: Arc<PartitionLease>) {
        let partition = lease.partition;
        loop {
            self.hold(&lease).await;
            // Tell tasks that still run that the lease is over.
            let was_lost = lease.lost.is_cancelled() && !planted::is("vouches_after_its_lease");
            lease.lost.cancel();
            // Do not give the partition back in Redis while a task may still send.
            lease.finished().await;
            let is_free = self.resign(&lease, was_lost).await;
            if !is_free || lease.draining.is_cancelled() || self.leaving.is_cancelled() {
                telemetry::partition_ended(is_free && !was_lost);
                break;
            }
            let Some(next) = self.lease_of(partition, "").await else {
                telemetry::partition_ended(false);
                break;
            };
            if self.leaving.is_cancelled() {
                next.draining.cancel();
            }
            self.leases.lock().insert(partition, next.clone());
            self.changed.notify_one();
            lease = next;
        }
        self.leases.lock().remove(&partition);
        self.changed.notify_one();
    }

    /// Renews the lease until it is lost, or drained.
    async fn hold(&self, lease: &PartitionLease) {
        let mut next = Instant::now() + self.lease / 4;
        loop {
            tokio::select! {
                () = lease.ended() => return,
                () = lease.drained() => return,
                () = lease.overdue() => {
                    let partition = lease.partition;
                    tracing::warn!(partition, "deliveries are broken off to give a partition back");
                    return;
                }
                () = lease.has_waited() => {
                    self.end_takeover_wait(lease).await;
                    continue;
                }
                () = tokio::time::sleep_until(next) => {}
            }
            // One call at a time: a renewal in flight could retake a partition that was given back.
            next = self.renew(lease).await;
        }
    }

    /// Reports to Redis that no sender of an earlier epoch can still send. This pod has waited long enough to know
    /// that.
    async fn end_takeover_wait(&self, lease: &PartitionLease) {
        let (nobody, epoch) = (OwnerToken::random(), lease.owner.epoch);
        let vouched = self.store.resign_partition(lease.partition, &nobody, Some(epoch));
        match self.in_time(vouched).await {
            Ok(now) if now.epoch == epoch => lease.end_takeover_wait(),
            Ok(now) => lease.superseded(now.epoch),
            Err(error) => {
                tracing::debug!(partition = lease.partition, %error, "the takeover wait is not ended yet");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }

    /// Renews once. Returns the time of the next renewal.
    async fn renew(&self, lease: &PartitionLease) -> Instant {
        point(Point::OwnerRenewing).await;
        let (asked, partition) = (Instant::now(), lease.partition);
        let owned = self.store.acquire_partition(partition, &lease.owner.token, self.lease);
        match self.in_time(owned).await {
            Ok(owned) if owned.epoch == lease.owner.epoch => {
                lease.extend(self.valid_until(asked), owned.takeover_wait);
            }
            // Redis may have lost writes, so the releases under this lease are void.
            Ok(owned) => lease.superseded(owned.epoch),
            Err(StoreError::Owned(epoch)) => {
                tracing::warn!(partition, "another sender took a partition");
                lease.superseded(epoch);
            }
            Err(error) => {
                tracing::debug!(partition, %error, "cannot renew");
                // Try again soon: only while its lease lasts can this pod vouch that no other sender sends.
                return asked + self.lease / 20;
            }
        }
        asked + self.lease / 4
    }

    /// Gives a partition back, with the epoch that this pod can vouch for. True if Redis confirmed it. The caller must
    /// have stopped all sending under the lease.
    async fn resign(&self, lease: &PartitionLease, was_lost: bool) -> bool {
        let (partition, token) = (lease.partition, &lease.owner.token);
        let give_up = Instant::now() + self.lease / 2;
        let mut vouched = lease.vouched();
        let mut is_logged = was_lost || vouched.is_some();
        loop {
            match self.in_time(self.store.resign_partition(partition, token, vouched)).await {
                // Redis may be waiting for this sender to stop, so vouch for the new epoch. Only
                // the answer to the first call counts: an earlier call may have given the
                // partition to another sender before the epoch began.
                Ok(taken)
                    if !is_logged && taken.epoch != lease.owner.epoch && lease.is_sole_sender() =>
                {
                    vouched = Some(taken.epoch);
                }
                Ok(_) => return true,
                Err(error) if Instant::now() + PAUSE < give_up && error.is_temporary() => {
                    tracing::debug!(partition, %error, "a partition is not given back yet");
                    tokio::time::sleep(PAUSE).await;
                }
                Err(error) => {
                    tracing::warn!(partition, %error, "a partition was not given back: it is free after a lease");
                    return false;
                }
            }
            is_logged = true;
        }
    }

    /// Limits a call to half a lease, so that there is time to repeat it. Redis may still carry the
    /// call out. This pod does not use that lease, and others take the partition after it expires.
    pub(super) async fn in_time<T>(
        &self,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let answered = tokio::time::timeout(self.lease / 2, call).await;
        answered.unwrap_or_else(|_| Err(StoreError::Unconfirmed("no answer in time".into())))
    }

    /// The end of the lease by the clock of this process, with a safety margin.
    fn valid_until(&self, asked: Instant) -> Instant {
        asked + self.lease - self.lease / 10
    }

    /// True if the log has not mentioned number `number` of `logged` for the duration of a lease.
    fn is_news(&self, number: usize) -> bool {
        let mut logged = self.logged.lock();
        let is_news = logged[number].is_none_or(|logged| logged.elapsed() > self.lease);
        if is_news {
            logged[number] = Some(Instant::now());
        }
        is_news
    }

    fn log_takeover_wait(&self, takeover_wait: Duration) {
        if !takeover_wait.is_zero() && self.is_news(0) {
            let wait_ms = takeover_wait.as_millis() as u64;
            tracing::info!(
                wait_ms,
                "Redis was restarted: deliveries wait until a sender that it may have forgotten must have stopped"
            );
        }
    }

    fn log_unconfirmed(&self, partition: u16, given_back: bool) {
        if self.is_news(1) {
            tracing::warn!(
                partition,
                given_back,
                "taking a partition was not confirmed: nothing of it is delivered from here"
            );
        }
    }
}
