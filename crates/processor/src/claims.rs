//! Decides which destination to claim from, in turn and by weight, and how many messages: never
//! more than the free slots.

mod polls;

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures::{
    FutureExt, StreamExt,
    future::{BoxFuture, OptionFuture},
    stream::FuturesUnordered,
};
use parking_lot::MutexGuard;
use tokio::{
    sync::broadcast::error::RecvError,
    time::{Instant, sleep_until},
};

use polls::{Check, Poll};

use super::{
    alone::{Alone, OneAlone},
    claim_priority::ClaimPriority,
    claim_sizes::ClaimSizes,
    slots::{Class, OTHERS_MAX, OfClass, Slots},
};
use domain::DestinationName;
use store::{
    CallSequence, Catalog, CatalogEntry, Changed, Claimed, Claimers, Store, StoreError, Wake,
    retry_until,
};

/// The most claims in flight at once.
const CALLS_MAX: usize = 64;
/// The most messages of one claim.
const CLAIM_MAX: usize = 256;
/// The number of all slots divided by this is a *quantum*. In its turn, a destination gets its share of the free slots
/// by weight, or a quantum if that is more.
const QUANTUM_DIVISOR: usize = 16;
/// The largest quantum.
const QUANTUM_MAX: usize = 64;
/// While a claim is in flight and less than a quantum of slots is free, the next claim begins no earlier than this long
/// after the previous one began. Meanwhile more slots become free: a claim for one message costs Redis nearly as much
/// as a claim for many.
const GATHER: Duration = Duration::from_millis(5);
/// How long this process tries to requeue the messages of a claim that had no answer.
const REQUEUE_WITHIN: Duration = Duration::from_secs(10);

/// The pause before the next claim of a destination while Redis has no memory left and no head waits.
const FULL_PAUSE: Duration = Duration::from_millis(100);
/// The events that [`Claims::next`] returns.
pub(super) enum ClaimsEvent {
    /// The result of a claim, and the permit to keep while messages that must be alone are processed.
    Messages(Arc<CatalogEntry>, Claimed, Option<Alone>),
    /// Names of destinations that may have waiting messages.
    Names,
}

/// The end of a claim.
struct Answer {
    entry: Arc<CatalogEntry>,
    call_sequence: CallSequence,
    /// Reserved slots.
    room: usize,
    alone: Option<Alone>,
    took: Duration,
    result: Result<Claimed, StoreError>,
}

pub(super) struct Claims {
    store: Store,
    catalog: Catalog,
    lease: Duration,
    slots: Slots,
    sizes: ClaimSizes,
    /// Decides which destinations are left to other processors at first.
    claim_priority: ClaimPriority,
    check: Option<Check>,
    /// Destinations with a claim in flight, and whether a hint arrived meanwhile.
    claims_in_flight: HashMap<DestinationName, bool>,
    calls: FuturesUnordered<BoxFuture<'static, Answer>>,
    poll: Option<Poll>,
    /// True if a change may have come too late for the poll in flight: poll again after it.
    poll_again: bool,
    /// When the last claim started.
    begun: Instant,
    /// Destinations whose last claim failed. The next poll claims again: Redis may have leased messages to the
    /// failed claim.
    failed: Vec<DestinationName>,
    /// Destinations with a claim that Redis did not answer: it may have leased messages that no process has received.
    /// Each has the permit of the claim, because a repetition returns the same messages.
    unanswered: HashMap<DestinationName, Option<Alone>>,
    /// The permit for messages that must be alone. Only a claim with this permit asks for such messages.
    alone: OneAlone,
    /// Call sequences without a call in flight.
    call_sequences: HashMap<DestinationName, CallSequence>,
    /// Changed destinations. For each removed destination, drops what this processor remembers about it.
    changed: Changed,
}

impl Claims {
    pub(super) fn new(store: Store, catalog: Catalog, lease: Duration, slots: Slots) -> Self {
        Claims {
            claim_priority: ClaimPriority::new(store.pod()),
            changed: catalog.changed(),
            store,
            catalog,
            lease,
            slots,
            sizes: ClaimSizes::default(),
            check: None,
            claims_in_flight: HashMap::new(),
            calls: FuturesUnordered::new(),
            poll: None,
            poll_again: false,
            begun: Instant::now(),
            failed: Vec::new(),
            unanswered: HashMap::new(),
            alone: OneAlone::new(),
            call_sequences: HashMap::new(),
        }
    }

    /// Takes a wake-up. False if no more wake-ups will come.
    pub(super) fn take_wake(&mut self, wake: Result<Wake, RecvError>) -> bool {
        match wake {
            Ok(Wake::Waiting(name)) => self.woken(name),
            Ok(Wake::Everything) | Err(RecvError::Lagged(_)) => self.start_poll(),
            Ok(_) => {}
            Err(RecvError::Closed) => return false,
        }
        true
    }

    /// Called when a wake-up or a poll says that the destination has waiting messages. All processors learn this.
    fn woken(&mut self, name: DestinationName) {
        if self.claims_in_flight.contains_key(&name)
            || !self.claim_priority.defers(&name, Instant::now())
        {
            self.hint(name);
        }
    }

    /// Notes that the destination may have waiting messages.
    fn hint(&mut self, name: DestinationName) {
        if let Some(hinted) = self.claims_in_flight.get_mut(&name) {
            *hinted = true;
        } else {
            let entry = self.catalog.get(name.as_str());
            let weight = entry.as_ref().map_or(1, |entry| entry.destination.weight);
            let class = entry.map_or(Class::Working, |entry| Class::of(&entry.destination));
            self.slots.of(class).lock().queue.push(name, weight);
        }
    }

    /// Frees a slot of this destination, because the message in the slot is done.
    pub(super) fn freed(&mut self, class: Class, name: &DestinationName) {
        self.slots.of(class).lock().shares.give_back(name, 1);
    }

    /// The slots of the class of this destination.
    fn slots_of(&self, entry: &CatalogEntry) -> MutexGuard<'_, OfClass> {
        self.slots.of(Class::of(&entry.destination)).lock()
    }

    /// Starts as many claims as slots and turns allow.
    pub(super) fn claim(&mut self, at_once_max: impl Fn(&CatalogEntry) -> usize) {
        self.claim_of(Class::Working, &at_once_max);
        self.claim_of(Class::Calling, &at_once_max);
    }

    fn claim_of(&mut self, class: Class, at_once_max: &impl Fn(&CatalogEntry) -> usize) {
        let (mut passed, slots) = (Vec::new(), self.slots.clone());
        let slots = slots.of(class);
        let quantum = (slots.lock().shares.all() / QUANTUM_DIVISOR).clamp(1, QUANTUM_MAX);
        while self.calls.len() < CALLS_MAX {
            let free = slots.lock().shares.free();
            if free == 0 {
                break;
            }
            // The end of the claim in flight, or of any attempt, calls this again.
            let gathers = !self.calls.is_empty() && self.begun.elapsed() < GATHER;
            if free < quantum && gathers {
                break;
            }
            let next = slots.lock().queue.pop();
            let Some((name, weights)) = next else { break };
            let Some(entry) = self.catalog.get(name.as_str()) else { continue };
            if Class::of(&entry.destination) != class {
                self.hint(name);
                continue;
            }
            // Claim only as many messages as can start at once: a message must not wait for a slot under a lease.
            let most = at_once_max(&entry);
            if entry.claimers() != Claimers::Builtin || entry.paused.processing || most == 0 {
                // A later claim would not return the messages that an unanswered claim has leased.
                self.requeue_unanswered(entry, Instant::now() + REQUEUE_WITHIN);
                continue;
            }
            let mut of = slots.lock();
            let waits = |other: &DestinationName| {
                let entry = self.catalog.get(other.as_str());
                entry.is_some_and(|entry| at_once_max(&entry) > of.shares.taken_by(other))
            };
            let others_wait = of.queue.names().take(OTHERS_MAX).any(waits);
            // Leave slots for the destinations that are next in turn.
            let share = entry.destination.share(free, weights).max(quantum.min(free));
            let weight = entry.destination.weight;
            let share = share.min(of.shares.weighted_room(&name, weight, others_wait, false));
            let room = most.saturating_sub(of.shares.taken_by(&name)).min(share);
            let room = room.min(CLAIM_MAX).min(self.sizes.next(&name));
            if room == 0 {
                passed.push(name);
                continue;
            }
            of.took(&entry.destination, room);
            drop(of);
            self.begin(entry, room);
        }
        // Destinations at their own limit keep their turn until one of their slots is free.
        passed.into_iter().for_each(|name| self.hint(name));
    }

    fn begin(&mut self, entry: Arc<CatalogEntry>, room: usize) {
        let name = entry.destination.name.clone();
        self.begun = Instant::now();
        self.claims_in_flight.insert(name.clone(), false);
        let call_sequence = self.call_sequences.remove(&name);
        let call_sequence =
            call_sequence.unwrap_or_else(|| self.store.new_call_sequence(&format!("claim:{name}")));
        let kept = self.unanswered.get_mut(&name).and_then(Option::take);
        let alone = kept.or_else(|| self.alone.take(&name, self.begun));
        let (store, catalog, lease) = (self.store.clone(), self.catalog.clone(), self.lease);
        let begun = self.begun;
        let call = async move {
            let (holder, suspects) = (store.holder(), alone.is_some());
            let count = 1..=room;
            let claimed = store
                .claim_for(holder.as_ref(), suspects, &call_sequence, &entry, count, lease)
                .await;
            if claimed.as_ref().is_ok_and(|claimed| claimed.is_full && claimed.messages.is_empty())
            {
                tokio::time::sleep(FULL_PAUSE).await;
            }
            // Refresh here, not in `answered`: that must not await, because `next` may be dropped
            // while it waits, and the claimed messages would be lost.
            if matches!(claimed, Err(StoreError::StaleDefinition | StoreError::UnknownDestination))
                && let Err(error) = catalog.refresh(&entry.destination.name).await
            {
                tracing::debug!(%error, "cannot refresh a definition");
            }
            Answer { entry, call_sequence, room, alone, took: begun.elapsed(), result: claimed }
        };
        self.calls.push(call.boxed());
    }

    /// Begins to requeue the messages of claims without an answer, because this process claims no more. After
    /// `deadline`, the leases expire instead. False if there is nothing to requeue.
    pub(super) fn requeue_all_unanswered(&mut self, deadline: Instant) -> bool {
        let unanswered: Vec<_> = self.unanswered.keys().cloned().collect();
        for name in &unanswered {
            match self.catalog.get(name.as_str()) {
                Some(entry) => self.requeue_unanswered(entry, deadline),
                None => drop(self.unanswered.remove(name)),
            }
        }
        !unanswered.is_empty()
    }

    /// Repeats a claim that had no answer. Redis returns the same messages. They are requeued, so that no stall is
    /// counted.
    fn requeue_unanswered(&mut self, entry: Arc<CatalogEntry>, deadline: Instant) {
        let name = &entry.destination.name;
        if self.claims_in_flight.contains_key(name) || self.unanswered.remove(name).is_none() {
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
            let (room, took, result) = (0, Duration::ZERO, Ok(Claimed::default()));
            Answer { entry, call_sequence, room, alone: None, took, result }
        };
        self.calls.push(call.boxed());
    }

    /// The next result of a claim or a poll; `None` if none is in flight. Cancel-safe: changes
    /// nothing before it returns.
    pub(super) async fn next(&mut self) -> Option<ClaimsEvent> {
        let poll = OptionFuture::from(self.poll.as_mut());
        // One check at a time.
        let next_check = self.claim_priority.next().filter(|_| self.check.is_none());
        let check_is_due = OptionFuture::from(next_check.map(sleep_until));
        let check = OptionFuture::from(self.check.as_mut());
        tokio::select! {
            Some(answer) = self.calls.next() => Some(self.answered(answer)),
            Some(found) = poll => {
                self.polled(found);
                Some(ClaimsEvent::Names)
            }
            Some(()) = check_is_due => {
                self.start_check();
                Some(ClaimsEvent::Names)
            }
            Some(found) = check => {
                self.checked(found);
                Some(ClaimsEvent::Names)
            }
            else => None,
        }
    }

    fn answered(&mut self, answer: Answer) -> ClaimsEvent {
        let Answer { entry, call_sequence, room, mut alone, took, result: answer } = answer;
        let name = entry.destination.name.clone();
        self.call_sequences.insert(name.clone(), call_sequence);
        let hinted = self.claims_in_flight.remove(&name).unwrap_or_default();
        match &answer {
            Err(StoreError::Unconfirmed(_)) => {
                self.unanswered.insert(name.clone(), alone.take());
            }
            Err(error) if error.is_temporary() => {
                if let Some(kept) = self.unanswered.get_mut(&name) {
                    *kept = alone.take();
                }
            }
            _ => drop(self.unanswered.remove(&name)),
        }
        let claimed = match answer {
            Ok(claimed) => claimed,
            Err(StoreError::StaleDefinition | StoreError::UnknownDestination) => {
                self.slots_of(&entry).unused(&entry.destination, room);
                self.hint(name);
                return ClaimsEvent::Messages(entry, Claimed::default(), None);
            }
            Err(error) => {
                tracing::debug!(destination = %name, %error, "cannot claim");
                self.slots_of(&entry).unused(&entry.destination, room);
                self.failed.push(name);
                return ClaimsEvent::Messages(entry, Claimed::default(), None);
            }
        };
        if alone.is_none() && claimed.may_have_more {
            self.alone.keep_for(&name, Instant::now());
        }
        let got = claimed.messages.len();
        if room > 0 {
            self.claim_priority.claimed(took);
            self.sizes.claimed(&name, got);
        }
        // A repeated claim returns the messages of the first one, even if they are more than it asks for.
        match room.checked_sub(got) {
            Some(unused) => self.slots_of(&entry).unused(&entry.destination, unused),
            None => self.slots_of(&entry).took(&entry.destination, got - room),
        }
        if got > 0 {
            telemetry::claimed(name.as_str(), got);
        }
        // Each message that leaves makes the next message of its lane a head. A wake-up announces the end of a rest.
        let has_filled = got >= room && claimed.rest.is_none();
        if has_filled || claimed.may_have_more || claimed.is_full {
            self.hint(name);
        } else if hinted {
            self.woken(name);
        }
        ClaimsEvent::Messages(entry, claimed, alone)
    }
}
