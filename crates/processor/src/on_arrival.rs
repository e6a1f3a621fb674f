//! Starts messages as they arrive at this pod. The call that stamps these messages also leases them, so no claim is
//! needed.

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

/// The processor of this pod, for use by ingest; empty while no processor runs. Cheap to clone.
#[derive(Clone, Default)]
pub struct OnArrival(Arc<Mutex<Option<Arc<Running>>>>);

struct Running {
    slots: Slots,
    attempts: Arc<Attempts>,
    terms: LeaseTerms,
}

impl OnArrival {
    /// Opens the processor: from now on, it takes messages.
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

    /// Closes the processor: it reserves no more slots. Messages for slots reserved earlier may still come; each
    /// reservation keeps the attempts from ending.
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
        // Take the token under the lock: a processor that has closed this waits for the token.
        let (running, task) = {
            let running = self.0.lock();
            let running = running.as_ref()?;
            (running.clone(), running.attempts.tasks.token())
        };
        // A native transform may panic. The panic must end the processor, not the task of ingest.
        let most = catch_unwind(AssertUnwindSafe(|| running.attempts.at_once_max(entry))).ok()?;
        if !running.slots.of(Class::of(destination)).lock().reserve(destination, most, count) {
            return None;
        }
        Some(Box::new(Reserved {
            running,
            entry: entry.clone(),
            slots: count,
            begun: 0,
            _task: task,
        }))
    }
}

/// Slots for messages that are being stamped.
struct Reserved {
    running: Arc<Running>,
    entry: Arc<CatalogEntry>,
    slots: usize,
    /// The number of messages that have begun. Each attempt frees its own slot.
    begun: usize,
    /// The processor does not end while this token exists.
    _task: TaskTrackerToken,
}

impl Room for Reserved {
    fn terms(&self) -> &LeaseTerms {
        &self.running.terms
    }

    fn take(mut self: Box<Self>, claimed: Claimed) {
        self.begun = claimed.messages.len();
        if self.begun > 0 {
            telemetry::claimed(self.entry.destination.name.as_str(), self.begun);
            self.running.attempts.start(&self.entry, claimed, None);
        }
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        let destination = &self.entry.destination;
        let mut slots = self.running.slots.of(Class::of(destination)).lock();
        slots.stamped(destination, self.slots, self.begun);
    }
}
