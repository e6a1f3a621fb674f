//! Hands messages that arrive at this pod to requests that wait for them. The call that stamps the messages also leases
//! them, so the requests need no claim.

use std::{
    mem,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{sync::Notify, time::timeout};
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::handout::Handed;
use crate::Api;
use store::{CatalogEntry, Claimed, Claimers, LeaseTerms, Room, Taker};

/// How long a request that stops waiting still waits for arrivals that are being stamped for it. Arrivals that come
/// later are requeued.
const STAMPED_WITHIN: Duration = Duration::from_secs(1);

/// Requests for longer leases get no arrivals: if the call that stamps arrivals has no answer, these wait until their
/// lease ends.
const LEASE_MAX: Duration = Duration::from_secs(60);

/// A request that waits for messages.
#[derive(Default)]
pub(super) struct Waiter {
    /// Notified when the request may be first in a queue.
    pub(super) moved: Notify,
    /// The most messages that the request takes.
    max: usize,
    terms: LeaseTerms,
    state: Mutex<State>,
    /// The number of the last reservation.
    reservations: AtomicU64,
    /// Notified when the state has changed.
    changed: Notify,
}

/// Whether a request takes arrivals.
#[derive(Default)]
enum State {
    /// The request takes no arrivals: it claims, or has ended.
    #[default]
    Busy,
    Idle,
    /// Arrivals are being stamped for the request, under the reservation of this number.
    Reserved(u64),
    Given(Box<Given>),
}

/// Leased arrivals. Dropping them requeues them.
pub(super) struct Given {
    /// The weight of their destination.
    pub(super) weight: u32,
    pub(super) claimed: Claimed,
    pub(super) handed: Handed,
}

impl Waiter {
    /// A request for at most `max` messages on these terms.
    pub(super) fn new(max: usize, terms: LeaseTerms) -> Waiter {
        Waiter { max, terms, ..Waiter::default() }
    }

    /// From now on, the request takes arrivals.
    pub(super) fn open(&self) {
        *self.state.lock() = State::Idle;
    }

    /// Reserves the request for this many arrivals, if it takes them. Returns the number of the reservation.
    pub(super) fn reserve(&self, count: usize) -> Option<u64> {
        let mut state = self.state.lock();
        if !matches!(*state, State::Idle) || count > self.max || self.terms.lease > LEASE_MAX {
            return None;
        }
        let number = self.reservations.fetch_add(1, Ordering::Relaxed) + 1;
        *state = State::Reserved(number);
        Some(number)
    }

    /// Ends the reservation of this number, unless it has already ended.
    fn settle(&self, number: u64, next: State) {
        let mut state = self.state.lock();
        if matches!(*state, State::Reserved(reserved) if reserved == number) {
            *state = next;
            drop(state);
            self.changed.notify_one();
        }
    }

    /// Resolves when the request has received arrivals.
    pub(super) async fn given(&self) {
        while !matches!(*self.state.lock(), State::Given(_)) {
            self.changed.notified().await;
        }
    }

    /// From now on, the request takes no arrivals. Waits for arrivals that are being stamped for it, and returns them.
    pub(super) async fn close(&self) -> Option<Box<Given>> {
        let stamped = async {
            while matches!(*self.state.lock(), State::Reserved(_)) {
                self.changed.notified().await;
            }
        };
        let _ = timeout(STAMPED_WITHIN, stamped).await;
        self.end()
    }

    /// Like `close`, but does not wait for arrivals that are being stamped.
    pub(super) fn end(&self) -> Option<Box<Given>> {
        match mem::take(&mut *self.state.lock()) {
            State::Given(given) => Some(given),
            State::Busy | State::Idle | State::Reserved(_) => None,
        }
    }
}

/// The requests of workers that wait in this process, as ingest sees them.
pub struct WaitingWorkers(pub Api);

impl Taker for WaitingWorkers {
    fn room(&self, entry: &Arc<CatalogEntry>, count: usize) -> Option<Box<dyn Room>> {
        if entry.claimers() != Claimers::Worker || entry.paused.processing {
            return None;
        }
        let task = self.0.tasks.token();
        let (waiter, number) = self.0.workers.lines.reserve(&entry.destination.name, count)?;
        let (api, entry) = (self.0.clone(), entry.clone());
        Some(Box::new(Reserved { api, entry, waiter, number, _task: task }))
    }
}

/// A request for which arrivals are being stamped.
struct Reserved {
    api: Api,
    entry: Arc<CatalogEntry>,
    waiter: Arc<Waiter>,
    number: u64,
    /// Keeps the process running until this is dropped.
    _task: TaskTrackerToken,
}

impl Room for Reserved {
    fn terms(&self) -> &LeaseTerms {
        &self.waiter.terms
    }

    fn take(self: Box<Self>, claimed: Claimed) {
        if claimed.messages.is_empty() {
            return;
        }
        let weight = self.entry.destination.weight;
        let mut handed = Handed::new(self.api.clone());
        handed.add(self.entry.clone(), &claimed);
        self.waiter.settle(self.number, State::Given(Box::new(Given { weight, claimed, handed })));
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.waiter.settle(self.number, State::Idle);
    }
}
