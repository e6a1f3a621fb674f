//! Which destination to claim from, and how much: never more than there are free slots, and in
//! turn, by weight.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};

use super::turns::Turns;
use crate::{
    domain::DestinationName,
    faults::pause::{Point, point},
    store::{Caller, Catalog, Claimed, Claimers, Known, Store, StoreError},
    telemetry,
};

/// Claims under way at once.
const CALLS_MAX: usize = 8;
/// The most messages of one claim.
const CLAIM_MAX: usize = 256;
/// So many destinations can always be worked on side by side: none is given more than this part of
/// the slots, unless it is its share.
const SIDE_BY_SIDE: usize = 16;
/// The most that a destination is given beyond its share.
const QUANTUM_MAX: usize = 64;
/// While fewer slots than a quantum are free, a claim waits so long for the one before it: more become
/// free meanwhile, and a claim for one message costs Redis nearly as much as one for many.
const GATHER: Duration = Duration::from_millis(5);
/// The most destinations of one partition that one look finds; the others are found later.
const LOOK_MAX: usize = 100;

/// The end of a claim: who made it, how many slots it had set aside, what it got.
type Answer = (Arc<Known>, Caller, usize, Result<Claimed, StoreError>);

pub(super) struct Claims {
    store: Store,
    catalog: Catalog,
    lease: Duration,
    /// Slots that nothing is processed in.
    free: usize,
    slots: usize,
    /// Per destination: slots taken or set aside.
    taken: HashMap<DestinationName, usize>,
    /// Destinations that may have waiting messages, in turn.
    turns: Turns,
    /// Destinations with a claim under way, and whether a hint came meanwhile.
    under_way: HashMap<DestinationName, bool>,
    calls: FuturesUnordered<BoxFuture<'static, Answer>>,
    /// When the last of them was begun.
    begun: Instant,
    /// Destinations whose last claim was not answered: it may have got messages, so it is made
    /// again.
    unanswered: Vec<DestinationName>,
    /// Callers that make no call just now.
    callers: HashMap<DestinationName, Caller>,
}

impl Claims {
    pub(super) fn new(store: Store, catalog: Catalog, lease: Duration, slots: usize) -> Self {
        Claims {
            store,
            catalog,
            lease,
            free: slots,
            slots,
            taken: HashMap::new(),
            turns: Turns::default(),
            under_way: HashMap::new(),
            calls: FuturesUnordered::new(),
            begun: Instant::now(),
            unanswered: Vec::new(),
            callers: HashMap::new(),
        }
    }

    /// Slots that are taken or set aside.
    pub(super) fn taken(&self) -> usize {
        self.slots - self.free
    }

    /// The destination may have waiting messages.
    pub(super) fn hint(&mut self, name: DestinationName) {
        if let Some(hinted) = self.under_way.get_mut(&name) {
            *hinted = true;
        } else {
            let known = self.catalog.get(name.as_str());
            self.turns.push(name, known.map_or(1, |known| known.destination.weight));
        }
    }

    /// Looks in all partitions for destinations with waiting messages.
    pub(super) async fn look(&mut self) {
        let unanswered = std::mem::take(&mut self.unanswered);
        unanswered.into_iter().for_each(|name| self.hint(name));
        if self.free == 0 {
            return;
        }
        let partitions: Vec<u16> = (0..self.store.keys().partitions()).collect();
        match self.store.active_of_all(&partitions, Claimers::Builtin, LOOK_MAX).await {
            Ok(found) => {
                let names = found.iter().flatten().filter_map(|name| name.parse().ok());
                names.for_each(|name| self.hint(name));
            }
            Err(error) => tracing::debug!(%error, "cannot look for waiting messages"),
        }
    }

    /// A message of this destination has left its slot.
    pub(super) fn freed(&mut self, name: &DestinationName) {
        self.give_back(name, 1);
    }

    /// Slots that were set aside for a claim that did not fill them.
    fn unused(&mut self, known: &Known, slots: usize) {
        self.turns.gave_back(&known.destination, slots);
        self.give_back(&known.destination.name, slots);
    }

    fn give_back(&mut self, name: &DestinationName, slots: usize) {
        self.free += slots;
        if let Some(taken) = self.taken.get_mut(name) {
            *taken = taken.saturating_sub(slots);
            if *taken == 0 {
                self.taken.remove(name);
            }
        }
    }

    /// Begins as many claims as slots and turns allow.
    pub(super) fn claim(&mut self, at_once_max: impl Fn(&Known) -> usize) {
        let mut passed = Vec::new();
        let quantum = (self.slots / SIDE_BY_SIDE).clamp(1, QUANTUM_MAX);
        while self.free > 0 && self.calls.len() < CALLS_MAX {
            // The end of that call, or of any attempt, comes back here.
            let gathers = !self.calls.is_empty() && self.begun.elapsed() < GATHER;
            if self.free < quantum && gathers {
                break;
            }
            let Some((name, weights)) = self.turns.pop() else { break };
            let Some(known) = self.catalog.get(name.as_str()) else { continue };
            // What is claimed can begin at once: nobody is to wait for a turn under a lease.
            let most = at_once_max(&known);
            if known.claimers() != Claimers::Builtin || most == 0 {
                continue;
            }
            let taken = self.taken.get(&name).copied().unwrap_or_default();
            // Whoever comes next in turn must find a slot too; or soon, by turns.
            let share = known.destination.share(self.free, weights).max(quantum.min(self.free));
            let room = most.saturating_sub(taken).min(share).min(CLAIM_MAX);
            if room == 0 {
                passed.push(name);
                continue;
            }
            self.begin(known, room);
        }
        // Those at their own limit keep their turn until a slot of theirs is free.
        passed.into_iter().for_each(|name| self.hint(name));
    }

    fn begin(&mut self, known: Arc<Known>, room: usize) {
        let name = known.destination.name.clone();
        self.free -= room;
        self.begun = Instant::now();
        self.turns.took(&known.destination, room);
        *self.taken.entry(name.clone()).or_default() += room;
        self.under_way.insert(name.clone(), false);
        let caller = self.callers.remove(&name);
        let caller = caller.unwrap_or_else(|| self.store.caller(&format!("claim:{name}")));
        let (store, catalog, lease) = (self.store.clone(), self.catalog.clone(), self.lease);
        let call = async move {
            let claimed = store.claim(&caller, &known, 1..=room, lease).await;
            if claimed.as_ref().is_ok_and(|claimed| !claimed.messages.is_empty()) {
                point(Point::ProcessorClaimed).await;
            }
            // Here, because `answered` must not wait for anything: what it has taken would be lost
            // if something else came first.
            if matches!(claimed, Err(StoreError::StaleDefinition | StoreError::UnknownDestination))
                && let Err(error) = catalog.refresh(&known.destination.name).await
            {
                tracing::debug!(%error, "cannot look up a definition");
            }
            (known, caller, room, claimed)
        };
        self.calls.push(call.boxed());
    }

    /// The next claim to be answered: what it got. None if none is under way. May be dropped
    /// before it is done: it takes nothing before that.
    pub(super) async fn answered(&mut self) -> Option<(Arc<Known>, Claimed)> {
        let (known, caller, room, answer) = self.calls.next().await?;
        let name = known.destination.name.clone();
        self.callers.insert(name.clone(), caller);
        let hinted = self.under_way.remove(&name).unwrap_or_default();
        let claimed = match answer {
            Ok(claimed) => claimed,
            Err(StoreError::StaleDefinition | StoreError::UnknownDestination) => {
                self.unused(&known, room);
                self.hint(name);
                return Some((known, Claimed::default()));
            }
            Err(error) => {
                tracing::debug!(destination = %name, %error, "cannot claim");
                self.unused(&known, room);
                self.unanswered.push(name);
                return Some((known, Claimed::default()));
            }
        };
        let got = claimed.messages.len();
        self.unused(&known, room - got);
        if got > 0 {
            telemetry::claimed(name.as_str(), got);
        }
        if got == room || hinted || claimed.may_have_more {
            self.hint(name);
        }
        Some((known, claimed))
    }
}
