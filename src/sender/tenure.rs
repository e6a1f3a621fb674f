//! One ownership of one partition, from taking it to losing it or giving it back.

use std::{
    sync::{Mutex, OnceLock, PoisonError},
    time::Duration,
};

use tokio::time::Instant;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    faults::planted,
    store::{Owner, OwnerToken},
};

/// A partition that this pod owns. Shared by all who deliver its lanes.
pub(super) struct Tenure {
    pub(super) partition: u16,
    /// The token, random for each tenure, and the epoch that it began in.
    pub(super) owner: Owner,
    /// No head is released before, because an owner that Redis forgot may still be sending.
    pub(super) quarantined_until: Instant,
    /// By our own clock, counted from before the lease was asked for.
    valid_until: Mutex<Instant>,
    /// It is lost: stop at once, in the middle of a delivery if need be.
    pub(super) lost: CancellationToken,
    /// It is to be given back: end what is in flight, and begin nothing.
    pub(super) draining: CancellationToken,
    /// Another pod waits for it: what is in flight is broken off then.
    hand_over_by: OnceLock<Instant>,
    /// The work that is done under it.
    pub(super) tasks: TaskTracker,
}

impl Tenure {
    pub(super) fn new(
        partition: u16,
        token: OwnerToken,
        epoch: u64,
        quarantine: Duration,
        valid_until: Instant,
    ) -> Self {
        Tenure {
            partition,
            owner: Owner { token, epoch },
            quarantined_until: Instant::now() + quarantine,
            valid_until: Mutex::new(valid_until),
            lost: CancellationToken::new(),
            draining: CancellationToken::new(),
            hand_over_by: OnceLock::new(),
            tasks: TaskTracker::new(),
        }
    }

    pub(super) fn valid_until(&self) -> Instant {
        *self.valid_until.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn extend(&self, valid_until: Instant) {
        *self.valid_until.lock().unwrap_or_else(PoisonError::into_inner) = valid_until;
    }

    /// Has it end for another pod's sake, at the latest `by` then: a receiver that does not answer
    /// must not keep the partition's other destinations waiting.
    pub(super) fn hand_over(&self, by: Instant) {
        self.hand_over_by.get_or_init(|| by);
        self.draining.cancel();
    }

    /// True when it should have been handed over by now.
    pub(super) fn is_overdue(&self) -> bool {
        self.hand_over_by.get().is_some_and(|by| *by <= Instant::now())
    }

    /// True if a delivery may begin now.
    pub(super) fn may_send(&self) -> bool {
        if planted::is("tenure_end_ignored") {
            return true;
        }
        !self.lost.is_cancelled()
            && !self.draining.is_cancelled()
            && Instant::now() < self.valid_until()
    }

    /// True once nothing more is done under it.
    pub(super) fn is_over(&self) -> bool {
        self.lost.is_cancelled() || self.draining.is_cancelled()
    }

    /// Resolves when the lease has run out or the tenure is lost otherwise. Whatever is being sent
    /// then must be broken off: another owner may be sending.
    pub(super) async fn ended(&self) {
        if planted::is("tenure_end_ignored") {
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
        self.tasks.close();
        self.tasks.wait().await;
    }

    pub(super) fn is_drained(&self) -> bool {
        self.draining.is_cancelled() && self.tasks.is_closed() && self.tasks.is_empty()
    }
}
