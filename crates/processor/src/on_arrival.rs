//! Starts messages as they arrive at this pod. The call that stamps them leases them, so they need no claim.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::{
    attempt::Attempts,
    slots::{Class, Slots},
};
use domain::TransformKind;
use store::{CatalogEntry, Claimed, Claimers, LeaseTerms, Room, Store, Taker};

/// The processor of this pod, as ingest sees it: there while it runs. Cheap to clone.
#[derive(Clone, Default)]
pub struct OnArrival(Arc<Mutex<Option<Arc<Running>>>>);

struct Running {
    slots: Slots,
    attempts: Arc<Attempts>,
    terms: LeaseTerms,
}

impl OnArrival {
    /// From now on, the processor takes messages.
    pub(super) fn open(
        &self,
        store: &Store,
        slots: Slots,
        attempts: Arc<Attempts>,
        lease: Duration,
    ) {
        let terms = LeaseTerms { holder: store.holder(), lease };
        *self.0.lock() = Some(Arc::new(Running { slots, attempts, terms }));
    }

    /// From now on, it takes none. What it has room for may still come: each is a task of the attempts.
    pub(super) fn close(&self) {
        *self.0.lock() = None;
    }
}

impl Taker for OnArrival {
    fn room(&self, entry: &Arc<CatalogEntry>, count: usize) -> Option<Box<dyn Room>> {
        let destination = &entry.destination;
        let needs_processing = destination.transform.kind != TransformKind::None;
        if !needs_processing || entry.claimers() != Claimers::Builtin || entry.paused.processing {
            return None;
        }
        let running = self.0.lock().clone()?;
        // A transform of the user's may panic. That must end the processor, and not what ingest does.
        let most = catch_unwind(AssertUnwindSafe(|| running.attempts.at_once_max(entry))).ok()?;
        let mut slots = running.slots.of(Class::of(destination)).lock();
        let room = most.saturating_sub(slots.shares.taken_by(&destination.name));
        let room = room.min(slots.shares.weighted_room(
            &destination.name,
            destination.weight,
            false,
            false,
        ));
        // Those in the queue were first.
        if !slots.queue.is_empty() || room < count {
            return None;
        }
        slots.took(destination, count);
        drop(slots);
        let task = running.attempts.tasks.token();
        Some(Box::new(Reserved { running, entry: entry.clone(), slots: count, _task: task }))
    }
}

/// Slots for messages that are being stamped.
struct Reserved {
    running: Arc<Running>,
    entry: Arc<CatalogEntry>,
    slots: usize,
    /// The processor does not end before this.
    _task: TaskTrackerToken,
}

impl Room for Reserved {
    fn terms(&self) -> &LeaseTerms {
        &self.running.terms
    }

    fn take(mut self: Box<Self>, claimed: Claimed) {
        let started = claimed.messages.len();
        if started > 0 {
            // Each attempt gives its slot back.
            self.slots = self.slots.saturating_sub(started);
            telemetry::claimed(self.entry.destination.name.as_str(), started);
            self.running.attempts.start(&self.entry, claimed, None);
        }
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        let destination = &self.entry.destination;
        self.running.slots.of(Class::of(destination)).lock().unused(destination, self.slots);
    }
}
