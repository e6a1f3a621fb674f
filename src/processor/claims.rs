//! Which destination to claim from, and how much: never more than there are free slots, and in
//! turn, by weight.

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
/// So long Redis is asked to take back what a claim without an answer may have got.
const REQUEUE_WITHIN: Duration = Duration::from_secs(10);
/// The most destinations of one partition that one look finds; the others are found later.
const LOOK_MAX: usize = 100;

/// A look for names of destinations with waiting messages.
type Look = BoxFuture<'static, Result<Vec<Vec<String>>, StoreError>>;

/// What has come.
pub(super) enum Came {
    /// What a claim got.
    Messages(Arc<CatalogEntry>, Claimed),
    /// Names of destinations: there may be something to claim.
    Names,
}

/// The end of a claim: who made it, how many slots it had set aside, what it got.
type Answer = (Arc<CatalogEntry>, CallSequence, usize, Result<Claimed, StoreError>);

pub(super) struct Claims {
    store: Store,
    catalog: Catalog,
    lease: Duration,
    slots: Slots,
    /// Destinations that may have waiting messages, in turn.
    turns: Turns,
    /// Destinations with a claim under way, and whether a hint came meanwhile.
    under_way: HashMap<DestinationName, bool>,
    calls: FuturesUnordered<BoxFuture<'static, Answer>>,
    looking: Option<Look>,
    /// What is being looked at may be older than what was to be seen.
    look_again: bool,
    /// When the last of them was begun.
    begun: Instant,
    /// Destinations whose last claim was not answered: it may have got messages, so it is made
    /// again.
    unanswered: Vec<DestinationName>,
    /// Destinations of which a claim may have got messages that nobody knows.
    lost: HashSet<DestinationName>,
    /// CallSequences that make no call just now.
    callers: HashMap<DestinationName, CallSequence>,
    /// Those of destinations that are gone go.
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
            under_way: HashMap::new(),
            calls: FuturesUnordered::new(),
            looking: None,
            look_again: false,
            begun: Instant::now(),
            unanswered: Vec::new(),
            lost: HashSet::new(),
            callers: HashMap::new(),
        }
    }

    /// Slots that are taken or set aside.
    pub(super) fn taken(&self) -> usize {
        self.slots.taken()
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

    /// Begins to look in all partitions for destinations with waiting messages. Nothing else waits for
    /// it: a server that does not answer holds up nothing but what is on it.
    pub(super) fn look(&mut self) {
        let catalog = &self.catalog;
        self.changed.sweep(&mut self.callers, |name| catalog.get(name.as_str()).is_some());
        let unanswered = std::mem::take(&mut self.unanswered);
        unanswered.into_iter().for_each(|name| self.hint(name));
        if self.slots.free() == 0 {
            return;
        }
        if self.looking.is_some() {
            self.look_again = true;
            return;
        }
        let store = self.store.clone();
        let look = async move {
            let partitions: Vec<u16> = (0..store.keys().partitions()).collect();
            store.active_of_all(&partitions, Claimers::Builtin, LOOK_MAX).await
        };
        self.looking = Some(look.boxed());
    }

    /// Looks no more.
    pub(super) fn look_away(&mut self) {
        self.looking = None;
        self.look_again = false;
    }

    fn looked(&mut self, found: Result<Vec<Vec<String>>, StoreError>) {
        self.looking = None;
        if std::mem::take(&mut self.look_again) {
            self.look();
        }
        match found {
            Ok(found) => {
                let names = found.iter().flatten().filter_map(|name| name.parse().ok());
                names.for_each(|name| self.hint(name));
            }
            Err(error) => tracing::debug!(%error, "cannot look for waiting messages"),
        }
    }

    /// A message of this destination has left its slot.
    pub(super) fn freed(&mut self, name: &DestinationName) {
        self.slots.give_back(name, 1);
    }

    /// Slots that were set aside for a claim that did not fill them.
    fn unused(&mut self, known: &CatalogEntry, slots: usize) {
        self.turns.gave_back(&known.destination, slots);
        self.slots.give_back(&known.destination.name, slots);
    }

    /// Begins as many claims as slots and turns allow.
    pub(super) fn claim(&mut self, at_once_max: impl Fn(&CatalogEntry) -> usize) {
        let mut passed = Vec::new();
        let quantum = (self.slots.all() / SIDE_BY_SIDE).clamp(1, QUANTUM_MAX);
        while self.slots.free() > 0 && self.calls.len() < CALLS_MAX {
            let free = self.slots.free();
            // The end of that call, or of any attempt, comes back here.
            let gathers = !self.calls.is_empty() && self.begun.elapsed() < GATHER;
            if free < quantum && gathers {
                break;
            }
            let Some((name, weights)) = self.turns.pop() else { break };
            let Some(known) = self.catalog.get(name.as_str()) else { continue };
            // What is claimed can begin at once: nobody is to wait for a turn under a lease.
            let most = at_once_max(&known);
            if known.claimers() != Claimers::Builtin || most == 0 {
                self.give_back_lost(known, tokio::time::Instant::now() + REQUEUE_WITHIN);
                continue;
            }
            let taken = self.slots.taken_by(&name);
            // Whoever comes next in turn must find a slot too; or soon, by turns.
            let share = known.destination.share(free, weights).max(quantum.min(free));
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

    fn begin(&mut self, known: Arc<CatalogEntry>, room: usize) {
        let name = known.destination.name.clone();
        self.begun = Instant::now();
        self.turns.took(&known.destination, room);
        self.slots.take(&name, room);
        self.under_way.insert(name.clone(), false);
        let caller = self.callers.remove(&name);
        let caller = caller.unwrap_or_else(|| self.store.caller_anew(&format!("claim:{name}")));
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

    /// Gives back what claims without an answer may have got: this process will not make them again.
    /// After `deadline` the leases run out by themselves. False if there is nothing to be given back.
    pub(super) fn give_back_all_lost(&mut self, deadline: tokio::time::Instant) -> bool {
        let lost: Vec<_> = self.lost.iter().cloned().collect();
        for name in &lost {
            match self.catalog.get(name.as_str()) {
                Some(known) => self.give_back_lost(known, deadline),
                None => drop(self.lost.remove(name)),
            }
        }
        !lost.is_empty()
    }

    /// Makes the claim again whose answer was lost: it gets what it would have got, and gives it back,
    /// so that no stall is counted for what nobody worked on.
    fn give_back_lost(&mut self, known: Arc<CatalogEntry>, deadline: tokio::time::Instant) {
        let name = &known.destination.name;
        if self.under_way.contains_key(name) || !self.lost.remove(name) {
            return;
        }
        let Some(caller) = self.callers.remove(name) else { return };
        self.under_way.insert(name.clone(), false);
        let (store, lease) = (self.store.clone(), self.lease);
        let call = async move {
            let claim = || store.claim(&caller, &known, 1..=1, lease);
            if let Ok(claimed) = retry_until(Some(deadline), claim).await {
                let tokens: Vec<_> = claimed.messages.into_iter().map(|(token, _)| token).collect();
                let requeue = || store.requeue(&caller, &known, &tokens);
                if !tokens.is_empty()
                    && let Err(error) = retry_until(Some(deadline), requeue).await
                {
                    tracing::debug!(%error, "messages cannot be given back");
                }
            }
            caller.give_up();
            (known, caller, 0, Ok(Claimed::default()))
        };
        self.calls.push(call.boxed());
    }

    /// What comes next: of a claim, or of a look. None if none is under way. May be dropped before it is
    /// done: it takes nothing before that.
    pub(super) async fn next(&mut self) -> Option<Came> {
        let looking = OptionFuture::from(self.looking.as_mut());
        tokio::select! {
            Some(answer) = self.calls.next() => Some(self.answered(answer)),
            Some(found) = looking => {
                self.looked(found);
                Some(Came::Names)
            }
            else => None,
        }
    }

    fn answered(&mut self, (known, caller, room, answer): Answer) -> Came {
        let name = known.destination.name.clone();
        self.callers.insert(name.clone(), caller);
        let hinted = self.under_way.remove(&name).unwrap_or_default();
        match &answer {
            Err(StoreError::Unconfirmed(_)) => drop(self.lost.insert(name.clone())),
            Err(error) if error.is_temporary() => {}
            _ => drop(self.lost.remove(&name)),
        }
        let claimed = match answer {
            Ok(claimed) => claimed,
            Err(StoreError::StaleDefinition | StoreError::UnknownDestination) => {
                self.unused(&known, room);
                self.hint(name);
                return Came::Messages(known, Claimed::default());
            }
            Err(error) => {
                tracing::debug!(destination = %name, %error, "cannot claim");
                self.unused(&known, room);
                self.unanswered.push(name);
                return Came::Messages(known, Claimed::default());
            }
        };
        let got = claimed.messages.len();
        // A claim that is made again gives what it would have given, though less was asked for now.
        match room.checked_sub(got) {
            Some(unused) => self.unused(&known, unused),
            None => {
                self.turns.took(&known.destination, got - room);
                self.slots.take(&name, got - room);
            }
        }
        if got > 0 {
            telemetry::claimed(name.as_str(), got);
        }
        if got >= room || hinted || claimed.may_have_more {
            self.hint(name);
        }
        Came::Messages(known, claimed)
    }
}
