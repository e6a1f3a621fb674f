//! Decides which destination to claim from and how much: never more than the free slots, in turn,
//! by weight.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{
    FutureExt, StreamExt,
    future::{BoxFuture, OptionFuture},
    stream::FuturesUnordered,
};

use super::{slots::Slots, turns::Turns};
use crate::{
    domain::DestinationName,
    faults::pause::{Point, point},
    store::{
        CallSequence, Catalog, CatalogEntry, Changed, Claimed, Claimers, Store, StoreError,
        retry_until,
    },
    telemetry,
};

/// The most claims in flight at once.
const CALLS_MAX: usize = 8;
/// The most messages of one claim.
const CLAIM_MAX: usize = 256;
/// In its turn, a destination gets its share of the free slots by weight, or a quantum if that is more. A quantum
/// is the number of all slots divided by this.
const QUANTUM_DIVISOR: usize = 16;
/// The largest quantum.
const QUANTUM_MAX: usize = 64;
/// While a claim is in flight and less than a quantum of slots is free, the next claim waits until this long after
/// the last one began. Meanwhile more slots become free: a claim for one message costs Redis nearly as much as one
/// for many.
const GATHER: Duration = Duration::from_millis(5);
/// How long to try to requeue the messages of a claim that had no answer.
const REQUEUE_WITHIN: Duration = Duration::from_secs(10);
/// The most destinations of one partition that one poll returns; later polls find the others.
const POLL_MAX: usize = 100;

/// A poll for destinations with waiting messages.
type Poll = BoxFuture<'static, Result<Vec<Vec<String>>, StoreError>>;

/// What [`Claims::next`] returns.
pub(super) enum ClaimsEvent {
    /// The result of a claim.
    Messages(Arc<CatalogEntry>, Claimed),
    /// Names of destinations that may have waiting messages.
    Names,
}

/// The end of a claim: destination, call sequence, reserved slots, result.
type Answer = (Arc<CatalogEntry>, CallSequence, usize, Result<Claimed, StoreError>);

pub(super) struct Claims {
    store: Store,
    catalog: Catalog,
    lease: Duration,
    slots: Slots,
    /// Destinations that may have waiting messages, in turn.
    turns: Turns,
    /// Destinations with a claim in flight, and whether a hint arrived meanwhile.
    claims_in_flight: HashMap<DestinationName, bool>,
    calls: FuturesUnordered<BoxFuture<'static, Answer>>,
    poll: Option<Poll>,
    /// Poll again afterwards: the poll in flight may have missed a change.
    poll_again: bool,
    /// When the last claim started.
    begun: Instant,
    /// Destinations whose last claim failed. The next poll claims again: Redis may have leased messages to the
    /// failed claim.
    failed: Vec<DestinationName>,
    /// Destinations with a claim that Redis did not answer: it may have leased messages that no
    /// process has received.
    unanswered: HashSet<DestinationName>,
    /// Call sequences without a call in flight.
    call_sequences: HashMap<DestinationName, CallSequence>,
    /// Changed destinations, to drop the call sequences of removed ones.
    changed: Changed,
}

impl Claims {
    pub(super) fn new(store: Store, catalog: Catalog, lease: Duration, slots: usize) -> Self {
        Claims {
            changed: catalog.changed(),
            store,
            catalog,
            lease,
            slots: Slots::new(slots),
            turns: Turns::default(),
            claims_in_flight: HashMap::new(),
            calls: FuturesUnordered::new(),
            poll: None,
            poll_again: false,
            begun: Instant::now(),
            failed: Vec::new(),
            unanswered: HashSet::new(),
            call_sequences: HashMap::new(),
        }
    }

    /// Slots in use or reserved.
    pub(super) fn taken(&self) -> usize {
        self.slots.taken()
    }

    /// Notes that the destination may have waiting messages.
    pub(super) fn hint(&mut self, name: DestinationName) {
        if let Some(hinted) = self.claims_in_flight.get_mut(&name) {
            *hinted = true;
        } else {
            let entry = self.catalog.get(name.as_str());
            self.turns.push(name, entry.map_or(1, |entry| entry.destination.weight));
        }
    }

    /// Starts to poll all partitions for destinations with waiting messages. Runs beside everything
    /// else, so a server that does not answer delays only its own partitions.
    pub(super) fn start_poll(&mut self) {
        let catalog = &self.catalog;
        self.changed.sweep(&mut self.call_sequences, |name| catalog.get(name.as_str()).is_some());
        let failed = std::mem::take(&mut self.failed);
        failed.into_iter().for_each(|name| self.hint(name));
        if self.slots.free() == 0 {
            return;
        }
        if self.poll.is_some() {
            self.poll_again = true;
            return;
        }
        let store = self.store.clone();
        let poll = async move {
            let partitions: Vec<u16> = (0..store.keys().partitions()).collect();
            store.active_of_all(&partitions, Claimers::Builtin, POLL_MAX).await
        };
        self.poll = Some(poll.boxed());
    }

    /// Stops polling.
    pub(super) fn stop_poll(&mut self) {
        self.poll = None;
        self.poll_again = false;
    }

    fn polled(&mut self, found: Result<Vec<Vec<String>>, StoreError>) {
        self.poll = None;
        if std::mem::take(&mut self.poll_again) {
            self.start_poll();
        }
        match found {
            Ok(found) => {
                let names = found.iter().flatten().filter_map(|name| name.parse().ok());
                names.for_each(|name| self.hint(name));
            }
            Err(error) => tracing::debug!(%error, "cannot poll for waiting messages"),
        }
    }

    /// Frees a slot of this destination: the message in it is done.
    pub(super) fn freed(&mut self, name: &DestinationName) {
        self.slots.give_back(name, 1);
    }

    /// Frees slots that a claim had reserved but did not fill.
    fn unused(&mut self, entry: &CatalogEntry, slots: usize) {
        self.turns.gave_back(&entry.destination, slots);
        self.slots.give_back(&entry.destination.name, slots);
    }

    /// Starts as many claims as slots and turns allow.
    pub(super) fn claim(&mut self, at_once_max: impl Fn(&CatalogEntry) -> usize) {
        let mut passed = Vec::new();
        let quantum = (self.slots.all() / QUANTUM_DIVISOR).clamp(1, QUANTUM_MAX);
        while self.slots.free() > 0 && self.calls.len() < CALLS_MAX {
            let free = self.slots.free();
            // The end of the claim in flight, or of any attempt, calls this again.
            let gathers = !self.calls.is_empty() && self.begun.elapsed() < GATHER;
            if free < quantum && gathers {
                break;
            }
            let Some((name, weights)) = self.turns.pop() else { break };
            let Some(entry) = self.catalog.get(name.as_str()) else { continue };
            // Claim only what can start at once: a message must not wait for a slot under a lease.
            let most = at_once_max(&entry);
            if entry.claimers() != Claimers::Builtin || most == 0 {
                // No claim follows that would return the messages of an unanswered one.
                self.requeue_unanswered(entry, tokio::time::Instant::now() + REQUEUE_WITHIN);
                continue;
            }
            let taken = self.slots.taken_by(&name);
            // Leave slots for the destinations that are next in turn.
            let share = entry.destination.share(free, weights).max(quantum.min(free));
            let room = most.saturating_sub(taken).min(share).min(CLAIM_MAX);
            if room == 0 {
                passed.push(name);
                continue;
            }
            self.begin(entry, room);
        }
        // Destinations at their own limit keep their turn until one of their slots is free.
        passed.into_iter().for_each(|name| self.hint(name));
    }

    fn begin(&mut self, entry: Arc<CatalogEntry>, room: usize) {
        let name = entry.destination.name.clone();
        self.begun = Instant::now();
        self.turns.took(&entry.destination, room);
        self.slots.take(&name, room);
        self.claims_in_flight.insert(name.clone(), false);
        let call_sequence = self.call_sequences.remove(&name);
        let call_sequence =
            call_sequence.unwrap_or_else(|| self.store.new_call_sequence(&format!("claim:{name}")));
        let (store, catalog, lease) = (self.store.clone(), self.catalog.clone(), self.lease);
        let call = async move {
            let claimed = store.claim(&call_sequence, &entry, 1..=room, lease).await;
            if claimed.as_ref().is_ok_and(|claimed| !claimed.messages.is_empty()) {
                point(Point::ProcessorClaimed).await;
            }
            // Refresh here, not in `answered`: that must not await, because `next` may be dropped
            // while it waits, and the claimed messages would be lost.
            if matches!(claimed, Err(StoreError::StaleDefinition | StoreError::UnknownDestination))
                && let Err(error) = catalog.refresh(&entry.destination.name).await
            {
                tracing::debug!(%error, "cannot refresh a definition");
            }
            (entry, call_sequence, room, claimed)
        };
        self.calls.push(call.boxed());
    }

    /// Begins to requeue the messages of claims without an answer, because this process claims no
    /// more. After `deadline`, their leases expire instead. False if there is nothing to requeue.
    pub(super) fn requeue_all_unanswered(&mut self, deadline: tokio::time::Instant) -> bool {
        let unanswered: Vec<_> = self.unanswered.iter().cloned().collect();
        for name in &unanswered {
            match self.catalog.get(name.as_str()) {
                Some(entry) => self.requeue_unanswered(entry, deadline),
                None => drop(self.unanswered.remove(name)),
            }
        }
        !unanswered.is_empty()
    }

    /// Repeats a claim that had no answer. Redis returns the same messages, and they are requeued, so
    /// that no stall is counted.
    fn requeue_unanswered(&mut self, entry: Arc<CatalogEntry>, deadline: tokio::time::Instant) {
        let name = &entry.destination.name;
        if self.claims_in_flight.contains_key(name) || !self.unanswered.remove(name) {
            return;
        }
        let Some(call_sequence) = self.call_sequences.remove(name) else { return };
        self.claims_in_flight.insert(name.clone(), false);
        let (store, lease) = (self.store.clone(), self.lease);
        let call = async move {
            let claim = || store.claim(&call_sequence, &entry, 1..=1, lease);
            if let Ok(claimed) = retry_until(Some(deadline), claim).await {
                let tokens: Vec<_> = claimed.messages.into_iter().map(|(token, _)| token).collect();
                let requeue = || store.requeue(&call_sequence, &entry, &tokens);
                if !tokens.is_empty()
                    && let Err(error) = retry_until(Some(deadline), requeue).await
                {
                    tracing::debug!(%error, "cannot requeue messages");
                }
            }
            call_sequence.give_up();
            (entry, call_sequence, 0, Ok(Claimed::default()))
        };
        self.calls.push(call.boxed());
    }

    /// The next result of a claim or a poll; `None` if none is in flight. Cancel-safe: changes
    /// nothing before it returns.
    pub(super) async fn next(&mut self) -> Option<ClaimsEvent> {
        let poll = OptionFuture::from(self.poll.as_mut());
        tokio::select! {
            Some(answer) = self.calls.next() => Some(self.answered(answer)),
            Some(found) = poll => {
                self.polled(found);
                Some(ClaimsEvent::Names)
            }
            else => None,
        }
    }

    fn answered(&mut self, (entry, call_sequence, room, answer): Answer) -> ClaimsEvent {
        let name = entry.destination.name.clone();
        self.call_sequences.insert(name.clone(), call_sequence);
        let hinted = self.claims_in_flight.remove(&name).unwrap_or_default();
        match &answer {
            Err(StoreError::Unconfirmed(_)) => drop(self.unanswered.insert(name.clone())),
            Err(error) if error.is_temporary() => {}
            _ => drop(self.unanswered.remove(&name)),
        }
        let claimed = match answer {
            Ok(claimed) => claimed,
            Err(StoreError::StaleDefinition | StoreError::UnknownDestination) => {
                self.unused(&entry, room);
                self.hint(name);
                return ClaimsEvent::Messages(entry, Claimed::default());
            }
            Err(error) => {
                tracing::debug!(destination = %name, %error, "cannot claim");
                self.unused(&entry, room);
                self.failed.push(name);
                return ClaimsEvent::Messages(entry, Claimed::default());
            }
        };
        let got = claimed.messages.len();
        // A repeated claim returns what the first one got, even if it is more than now requested.
        match room.checked_sub(got) {
            Some(unused) => self.unused(&entry, unused),
            None => {
                self.turns.took(&entry.destination, got - room);
                self.slots.take(&name, got - room);
            }
        }
        if got > 0 {
            telemetry::claimed(name.as_str(), got);
        }
        if got >= room || hinted || claimed.may_have_more {
            self.hint(name);
        }
        ClaimsEvent::Messages(entry, claimed)
    }
}
