//! One ownership of one partition, from taking it to losing it or giving it back.

use std::{
    sync::{Mutex, OnceLock, PoisonError},
    time::Duration,
};

use tokio::{sync::watch, time::Instant};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    domain::Epoch,
    faults::planted,
    store::{Owner, OwnerToken},
};

/// A partition that this pod owns. Shared by all who deliver its lanes.
pub(super) struct PartitionLease {
    pub(super) partition: u16,
    /// The token, random for each lease, and the epoch that it began in.
    pub(super) owner: Owner,
    /// No head is released before, because an owner that Redis forgot may still be sending.
    takeover_wait_until: watch::Sender<Instant>,
    /// By our own clock, counted from before the lease was asked for.
    valid_until: Mutex<Instant>,
    /// It is lost: stop at once, in the middle of a delivery if need be.
    pub(super) lost: CancellationToken,
    /// It is to be given back: end what is in flight, and begin nothing.
    pub(super) draining: CancellationToken,
    /// Another pod waits for it: what is in flight is broken off then.
    hand_over_by: OnceLock<Instant>,
    /// The epoch that followed, if this pod heard of it while the lease lasted.
    followed_by: OnceLock<Epoch>,
    /// The work that is done under it.
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
        PartitionLease {
            partition,
            owner: Owner { token, epoch },
            takeover_wait_until: watch::Sender::new(Instant::now() + takeover_wait),
            valid_until: Mutex::new(valid_until),
            lost: CancellationToken::new(),
            draining: CancellationToken::new(),
            hand_over_by: OnceLock::new(),
            followed_by: OnceLock::new(),
            tasks: TaskTracker::new(),
        }
    }

    pub(super) fn valid_until(&self) -> Instant {
        *self.valid_until.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The lease was renewed: how long it lasts, and how long releases must still wait. One that had run out
    /// before the answer came is over: another may have had the partition meanwhile.
    pub(super) fn extend(&self, valid_until: Instant, takeover_wait: Duration) {
        if !self.lasts() {
            self.lost.cancel();
            return;
        }
        *self.valid_until.lock().unwrap_or_else(PoisonError::into_inner) = valid_until;
        let now = Instant::now();
        // Whoever it waited for may have said that it has stopped.
        self.takeover_wait_until.send_if_modified(|until| {
            let is_over = takeover_wait.is_zero() && *until > now;
            *until = if is_over { now } else { *until };
            is_over
        });
    }

    /// Resolves when heads may be released.
    pub(super) async fn takeover_wait_over(&self) {
        let mut changes = self.takeover_wait_until.subscribe();
        loop {
            let until = *changes.borrow_and_update();
            tokio::select! {
                () = tokio::time::sleep_until(until) => return,
                _ = changes.changed() => {}
            }
        }
    }

    /// Redis is in another epoch than this lease: what was released before counts no more. If the lease
    /// still lasts by our own clock, nobody else can send in the partition from before that epoch,
    /// so that this pod can vouch for it once it has stopped.
    pub(super) fn superseded(&self, epoch: Epoch) {
        let is_lost = self.lost.is_cancelled() && !planted::is("vouches_after_its_lease");
        if !is_lost && self.is_only_one() && epoch != self.owner.epoch {
            let _ = self.followed_by.set(epoch);
        }
        self.lost.cancel();
    }

    /// The epoch for which this pod can vouch once nothing more is sent under the lease: no sender of an
    /// earlier epoch sends any more.
    pub(super) fn vouched(&self) -> Option<Epoch> {
        self.followed_by.get().copied()
    }

    /// Has it end for another pod's sake, at the latest `by` then: a receiver that does not answer
    /// must not keep the partition's other destinations waiting.
    pub(super) fn hand_over(&self, by: Instant) {
        self.hand_over_by.get_or_init(|| by);
        self.draining.cancel();
    }

    /// Resolves when it should have been handed over by now.
    pub(super) async fn overdue(&self) {
        self.draining.cancelled().await;
        match self.hand_over_by.get() {
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

    /// True while nobody else can send in the partition, unless it was given back: the lease lasts, and
    /// who was waited for when it began must have stopped.
    pub(super) fn is_only_one(&self) -> bool {
        let is_only_one =
            self.is_unexpired() && *self.takeover_wait_until.borrow() <= Instant::now();
        is_only_one || planted::is("vouches_after_its_lease")
    }

    /// Goes on while the lease lasts; else never: whoever waits here is about to be dropped.
    pub(super) async fn still_lasts(&self) {
        if !self.lasts() && !planted::is("partition_lease_end_ignored") {
            std::future::pending().await
        }
    }

    /// True once nothing more is begun under it.
    pub(super) fn is_over(&self) -> bool {
        self.lost.is_cancelled() || self.draining.is_cancelled()
    }

    /// Resolves when the lease has run out or the lease is lost otherwise. Whatever is being sent
    /// then must be broken off: another owner may be sending.
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

    /// Resolves when it is to be given back, and its last delivery has ended.
    pub(super) async fn drained(&self) {
        self.draining.cancelled().await;
        self.finished().await;
    }

    /// Resolves when nothing is done under it any more. It must be over.
    pub(super) async fn finished(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }
}
