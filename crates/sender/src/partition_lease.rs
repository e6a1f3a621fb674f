//! One lease of one partition, from taking the partition to losing it or giving it back.

use std::{sync::OnceLock, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use domain::Epoch;
use faults::planted;
use store::{Owner, OwnerToken};

/// The lease of a partition that this pod owns. All tasks that deliver its lanes share it.
pub(super) struct PartitionLease {
    pub(super) partition: u16,
    /// The token, random for each lease, and the epoch in which the lease began.
    pub(super) owner: Owner,
    /// The end of the takeover wait. An owner that Redis lost in a failover must have stopped by then.
    takeover_wait_until: Instant,
    /// Set when Redis knows that the takeover wait is over. Redis releases no message before.
    released: CancellationToken,
    /// The end of the lease by the monotonic clock of this process, counted from before the lease was requested.
    valid_until: Mutex<Instant>,
    /// Set when the lease is lost: stop at once, even during a delivery.
    pub(super) lost: CancellationToken,
    /// Set when this pod gives the partition back: begin no delivery, and let deliveries in flight end.
    pub(super) draining: CancellationToken,
    /// Set when another pod waits for the partition: the time at which deliveries still in flight are aborted.
    resign_at: OnceLock<Instant>,
    /// The next epoch, if this pod learned of it while the lease lasted.
    next_epoch: OnceLock<Epoch>,
    /// The tasks that deliver its lanes.
    pub(super) tasks: TaskTracker,
}

impl PartitionLease {
    pub(super) fn new(
        partition: u16,
        token: OwnerToken,
        epoch: u64,
        takeover_wait: Duration,
        valid_until: Instant,
    ) -> Self {
        let released = CancellationToken::new();
        if takeover_wait.is_zero() {
            released.cancel();
        }
        PartitionLease {
            partition,
            owner: Owner { token, epoch },
            takeover_wait_until: Instant::now() + takeover_wait,
            released,
            valid_until: Mutex::new(valid_until),
            lost: CancellationToken::new(),
            draining: CancellationToken::new(),
            resign_at: OnceLock::new(),
            next_epoch: OnceLock::new(),
            tasks: TaskTracker::new(),
        }
    }

    pub(super) fn valid_until(&self) -> Instant {
        *self.valid_until.lock()
    }

    /// Extends the lease, because Redis renewed it. If the lease expired before the answer arrived, it counts as lost:
    /// another sender may have owned the partition meanwhile.
    pub(super) fn extend(&self, valid_until: Instant, takeover_wait: Duration) {
        if !self.lasts() {
            self.lost.cancel();
            return;
        }
        *self.valid_until.lock() = valid_until;
        // The takeover wait may end early: the earlier owner may have vouched that it has stopped.
        if takeover_wait.is_zero() {
            self.end_takeover_wait();
        }
    }

    /// Ends the takeover wait: Redis knows that no sender of an earlier epoch still sends. Messages may be released.
    pub(super) fn end_takeover_wait(&self) {
        self.released.cancel();
    }

    /// The rest of the takeover wait, in which Redis releases no message.
    pub(super) fn takeover_wait(&self) -> Duration {
        match self.released.is_cancelled() {
            true => Duration::ZERO,
            false => self.takeover_wait_until.saturating_duration_since(Instant::now()),
        }
    }

    /// Resolves when messages may be released.
    pub(super) async fn takeover_wait_over(&self) {
        self.released.cancelled().await;
    }

    /// Resolves when this pod has waited long enough. Never resolves if Redis already knows that the takeover wait is
    /// over.
    pub(super) async fn has_waited(&self) {
        if self.released.is_cancelled() {
            std::future::pending().await
        }
        if !planted::is("takeover_wait_skipped") {
            tokio::time::sleep_until(self.takeover_wait_until).await;
        }
    }

    /// Ends sending under this lease, because Redis is in another epoch than the lease. If the lease still lasts by the
    /// clock of this process, no other sender from before that epoch can send. This pod can then vouch for the epoch
    /// once it has stopped itself.
    pub(super) fn superseded(&self, epoch: Epoch) {
        let is_lost = self.lost.is_cancelled() && !planted::is("vouches_after_its_lease");
        if !is_lost && self.is_sole_sender() && epoch != self.owner.epoch {
            let _ = self.next_epoch.set(epoch);
        }
        self.lost.cancel();
    }

    /// The epoch for which this pod can vouch, once it has stopped sending under this lease: no
    /// sender of an earlier epoch still sends.
    pub(super) fn vouched(&self) -> Option<Epoch> {
        self.next_epoch.get().copied()
    }

    /// Gives the partition to another pod, at `by` at the latest. The other destinations of the partition must not wait
    /// for a receiver that does not answer.
    pub(super) fn resign_by(&self, by: Instant) {
        self.resign_at.get_or_init(|| by);
        self.draining.cancel();
    }

    /// Resolves when the time of [`PartitionLease::resign_by`] has come.
    pub(super) async fn overdue(&self) {
        self.draining.cancelled().await;
        match self.resign_at.get() {
            Some(by) => tokio::time::sleep_until(*by).await,
            None => std::future::pending().await,
        }
    }

    /// True if a delivery may begin now.
    pub(super) fn may_send(&self) -> bool {
        if planted::is("partition_lease_end_ignored") {
            return true;
        }
        !self.draining.is_cancelled() && self.lasts()
    }

    fn lasts(&self) -> bool {
        !self.lost.is_cancelled() && self.is_unexpired()
    }

    fn is_unexpired(&self) -> bool {
        Instant::now() < self.valid_until()
    }

    /// True while the lease lasts and its takeover wait is over. No other sender can then send in
    /// the partition, unless it was given back.
    pub(super) fn is_sole_sender(&self) -> bool {
        (self.is_unexpired() && self.released.is_cancelled())
            || planted::is("vouches_after_its_lease")
    }

    /// Resolves at once while the lease lasts. Otherwise never resolves: the caller is then about to be dropped.
    pub(super) async fn still_lasts(&self) {
        if !self.lasts() && !planted::is("partition_lease_end_ignored") {
            std::future::pending().await
        }
    }

    /// True when no more deliveries may begin under the lease.
    pub(super) fn is_over(&self) -> bool {
        self.lost.is_cancelled() || self.draining.is_cancelled()
    }

    /// Resolves when the lease has expired or is lost. Then abort deliveries in flight: another
    /// owner may be sending.
    pub(super) async fn ended(&self) {
        if planted::is("partition_lease_end_ignored") {
            return std::future::pending().await;
        }
        loop {
            let until = self.valid_until();
            tokio::select! {
                () = self.lost.cancelled() => return,
                () = tokio::time::sleep_until(until) => {
                    if self.valid_until() <= Instant::now() {
                        self.lost.cancel();
                        return;
                    }
                }
            }
        }
    }

    /// Resolves when the partition is to be given back, and its last delivery has ended.
    pub(super) async fn drained(&self) {
        self.draining.cancelled().await;
        self.finished().await;
    }

    /// Resolves when the last task has ended. The lease must be over.
    pub(super) async fn finished(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }
}
