//! Delivers the lanes of one destination, side by side, under one lease of its partition.
//!
//! Each event concerns one lane, which goes into the lines of those that have something to send
//! and something to ask; nothing looks at all lanes but the beginning of the end of a lease.

mod calls;
mod deliveries;
mod exhausted;
mod lane_queue;
mod pace;
mod poke;
mod withdrawals;

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use tokio::time::Instant;

use calls::{Answer, CALL_LANES_MAX};
use deliveries::Delivered;
use lane_queue::LaneQueue;
use pace::Pace;
pub(super) use poke::Poke;
use withdrawals::Withdrawals;

use super::{
    deliver::{self, Deliver},
    lane::{Lane, Now, Rules},
    partition_lease::PartitionLease,
};
use crate::{
    domain::{self, DestinationName},
    faults::planted,
    store::{Catalog, CatalogEntry, Store, StoreError, server_clock_ms},
};

/// The most messages that one call releases of one lane.
const RUN_MAX: usize = 1024;

/// A task that had nothing to do for so long ends; the next poke begins another.
const IDLE: Duration = Duration::from_secs(60);

/// A lane's key; none for the destination's own lane. Where nothing is in order each message is a
/// lane, and its sequence the key.
type LaneKey = Option<String>;
/// What looking up the definition found.
type Lookup = Result<Option<Arc<CatalogEntry>>, StoreError>;

/// Messages in flight just now, for people to see.
#[derive(Default)]
pub(super) struct Gauge(AtomicUsize);

impl Gauge {
    pub(super) fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    fn set(&self, count: usize) {
        self.0.store(count, Ordering::Relaxed);
    }
}

/// What is known of the destination.
#[derive(Clone)]
struct Current {
    known: Arc<CatalogEntry>,
    /// The way to its receiver.
    way: Arc<dyn Deliver>,
    rules: Arc<Rules>,
}

pub(super) struct DestinationSender {
    store: Store,
    catalog: Catalog,
    client: reqwest::Client,
    json_depth_max: usize,
    release_batch_max: usize,
    name: DestinationName,
    lease: Arc<PartitionLease>,
    current: Option<Current>,
    lanes: HashMap<LaneKey, Lane>,
    /// Lanes that may have something to send.
    to_send: LaneQueue,
    /// Lanes that would have something to send, were the destination not paused.
    resting: LaneQueue,
    /// Lanes that may have something to ask, or may be let go of.
    to_ask: LaneQueue,
    /// Lanes whose heads were refused, and may be postponed or given up.
    to_end: LaneQueue,
    /// Lanes that Redis named, and there was no room for yet.
    named: VecDeque<String>,
    /// When to look at lanes whose batches wait to become full.
    lingering: BTreeSet<(Instant, LaneKey)>,
    deliveries: FuturesUnordered<BoxFuture<'static, Delivered>>,
    /// Messages in flight.
    in_flight: usize,
    pace: Pace,
    /// When the next delivery may begin, where there is a limit and it is reached.
    next_slot: Option<Instant>,
    /// One call at a time: what comes together meanwhile makes the next.
    call: Option<BoxFuture<'static, Answer>>,
    /// The definition that is being looked up.
    lookup: Option<BoxFuture<'static, Lookup>>,
    withdrawals: Withdrawals,
    /// When to look for lanes whose backoff is over.
    due: BTreeSet<Instant>,
    /// There may be lanes to take in hand.
    look: bool,
    pause: Duration,
}

impl DestinationSender {
    pub(super) fn new(
        store: Store,
        catalog: Catalog,
        client: reqwest::Client,
        json_depth_max: usize,
        release_batch_max: usize,
        name: DestinationName,
        lease: Arc<PartitionLease>,
    ) -> Self {
        DestinationSender {
            store,
            catalog,
            client,
            json_depth_max,
            release_batch_max,
            name,
            lease,
            current: None,
            lanes: HashMap::new(),
            to_send: LaneQueue::default(),
            resting: LaneQueue::default(),
            to_ask: LaneQueue::default(),
            to_end: LaneQueue::default(),
            named: VecDeque::new(),
            lingering: BTreeSet::new(),
            deliveries: FuturesUnordered::new(),
            in_flight: 0,
            pace: Pace::default(),
            next_slot: None,
            call: None,
            lookup: None,
            withdrawals: Withdrawals::default(),
            due: BTreeSet::new(),
            look: true,
            pause: Duration::ZERO,
        }
    }

    /// Runs until the lease is over, or there was nothing to do for long. `poke` says that a head may
    /// leave, or that there is an order.
    pub(super) async fn run(mut self, poke: Arc<Poke>, gauge: Arc<Gauge>) {
        let lease = self.lease.clone();
        let definition = self.catalog.watch(&self.name);
        let mut ended = std::pin::pin!(lease.ended());
        let mut draining = std::pin::pin!(lease.draining.cancelled().fuse());
        tokio::select! {
            () = lease.takeover_wait_over() => {}
            () = &mut ended => return,
            () = lease.draining.cancelled() => return,
        }
        let mut was_draining = false;
        let mut idle_since = None;
        loop {
            self.adopt_definition();
            let is_draining = lease.draining.is_cancelled();
            if is_draining && !was_draining {
                self.lanes.keys().for_each(|key| self.to_ask.push(key));
            }
            was_draining = is_draining;
            self.take_lanes();
            self.begin_deliveries();
            gauge.set(self.in_flight);
            self.begin_call();
            if is_draining && self.lanes.is_empty() && self.call.is_none() {
                return;
            }
            let next_time = self.next_time();
            let is_idle = next_time.is_none() && self.is_idle();
            idle_since = is_idle.then(|| idle_since.unwrap_or_else(Instant::now));
            let idle_end = idle_since.map(|since| since + IDLE);
            tokio::select! {
                () = &mut ended => return,
                () = &mut draining, if !is_draining => {}
                // Paused, resumed, or defined anew: the next round takes it over.
                () = definition.changed() => {}
                () = poke.poked() => {
                    self.look = true;
                    self.withdrawals.suspected = true;
                }
                () = sleep_until(idle_end) => if poke.end() {
                    return;
                },
                Some(delivered) = self.deliveries.next() => self.delivered(delivered),
                answer = pending_or(&mut self.call) => {
                    self.call = None;
                    self.answered(answer);
                }
                found = pending_or(&mut self.lookup) => {
                    self.lookup = None;
                    if !self.looked_up(&found) {
                        return;
                    }
                }
                () = sleep_until(next_time) => self.time_has_come(),
            }
        }
    }

    /// Takes over what this pod knows of the destination. What it does not know it looks up; until then
    /// what was known goes on.
    fn adopt_definition(&mut self) {
        let Some(known) = self.catalog.get(self.name.as_str()) else {
            self.look_up();
            return;
        };
        let lanes_of = |known: &CatalogEntry| (known.born, known.destination.ordering);
        let (mut way, mut is_another) = (None, false);
        if let Some(current) = &self.current {
            if Arc::ptr_eq(&current.known, &known) {
                return;
            }
            is_another = lanes_of(&current.known) != lanes_of(&known);
            let is_same_way = !is_another && current.known.destination == known.destination;
            way = is_same_way.then(|| current.way.clone());
        }
        if is_another && !planted::is("generation_ignored") {
            self.begin_anew();
        }
        let way = way.unwrap_or_else(|| {
            deliver::connect(&known.destination, &self.client, self.json_depth_max)
        });
        self.pace.set(known.destination.delivery.rate_per_second_max);
        let rules = Arc::new(rules_of(&known.destination, self.release_batch_max));
        self.current = Some(Current { known, way, rules });
    }

    /// False if the destination is gone, or nothing is known of it.
    fn looked_up(&mut self, found: &Lookup) -> bool {
        match found {
            Ok(Some(_)) => true,
            Ok(None) => self.catalog.get(self.name.as_str()).is_some(),
            // Redis does not answer: what is known goes on, if anything is.
            Err(_) => self.current.is_some(),
        }
    }

    /// The lanes are others now: those of another ordering, or of another destination of this name,
    /// whose messages have the same numbers. Nothing that is in hand or under way is of them.
    fn begin_anew(&mut self) {
        self.lanes.clear();
        // What is being sent is broken off, as at the end of a lease.
        self.deliveries.clear();
        self.in_flight = 0;
        self.withdrawals = Withdrawals::default();
        self.withdrawals.suspected = true;
        self.pause = Duration::ZERO;
        for line in [&mut self.to_send, &mut self.resting, &mut self.to_ask, &mut self.to_end] {
            *line = LaneQueue::default();
        }
        self.named.clear();
        self.lingering.clear();
        self.due.clear();
        self.call = None;
        self.look = true;
    }

    /// Nothing is in hand, and nothing is to be asked, now or after what is being looked up.
    fn is_idle(&self) -> bool {
        let asks = self.call.is_some() || self.lookup.is_some();
        !asks && self.lanes.is_empty() && self.named.is_empty()
    }

    /// When something is to be looked at, even if nothing else happens.
    fn next_time(&self) -> Option<Instant> {
        let lingering = self.lingering.first().map(|(until, _)| *until);
        // Asking waits for the call that is under way.
        let withdrawals_due = self.withdrawals.due.filter(|_| self.call.is_none());
        [self.due.first().copied(), lingering, self.next_slot, withdrawals_due]
            .into_iter()
            .flatten()
            .min()
    }

    fn time_has_come(&mut self) {
        let now = Instant::now();
        while self.due.first().is_some_and(|due| *due <= now) {
            self.due.pop_first();
            self.look = true;
        }
        while self.lingering.first().is_some_and(|(until, _)| *until <= now) {
            if let Some((_, key)) = self.lingering.pop_first() {
                if self.lanes.get(&key).is_some_and(|lane| lane.to_end().is_some()) {
                    self.to_end.push(&key);
                }
                self.to_send.push(&key);
            }
        }
    }

    fn lanes_max(&self) -> usize {
        let delivery = self.current.as_ref().map(|current| &current.known.destination.delivery);
        delivery.map_or(0, |delivery| delivery.lanes_max as usize)
    }

    /// True when no further lane can be taken in hand.
    fn is_full(&self) -> bool {
        self.lanes.len() >= self.lanes_max()
    }

    /// Takes lanes in hand that may have something to release: the destination's own, or those
    /// that Redis named.
    fn take_lanes(&mut self) {
        let Some(current) = &self.current else { return };
        if self.lease.draining.is_cancelled() {
            return;
        }
        if current.known.destination.ordering == domain::Ordering::Destination {
            // One that is in hand is looked at again when it has been let go of.
            if self.look && !self.lanes.contains_key(&None) {
                self.look = false;
                self.take(None);
            }
            return;
        }
        while !self.is_full()
            && let Some(key) = self.named.pop_front()
        {
            self.take(Some(key));
        }
    }

    fn take(&mut self, key: LaneKey) {
        if !self.lanes.contains_key(&key) {
            self.to_ask.push(&key);
            self.lanes.insert(key, Lane::default());
        }
    }

    fn let_go(&mut self, key: &LaneKey) {
        if let Some(lane) = self.lanes.remove(key) {
            // A lane that made way for others may have more: it is looked for like them.
            self.look |= lane.yielding;
        }
    }

    /// Looks for lanes again when a backoff is over. The server compares whole milliseconds, so
    /// a look at the very instant is too early.
    fn look_after(&mut self, wait: Duration) {
        self.due.insert(Instant::now() + wait + Duration::from_millis(2));
    }
}

/// What the definition says of each lane.
fn rules_of(destination: &domain::Destination, release_batch_max: usize) -> Rules {
    let delivery = &destination.delivery;
    let is_single = destination.ordering == domain::Ordering::None;
    let is_tcp = destination.is_tcp();
    let batch_max = if is_tcp { delivery.window_max } else { delivery.batch_max } as usize;
    let batch_max = if planted::is("two_in_flight") { 2 } else { batch_max };
    let lingers = batch_max > 1 && !is_tcp;
    Rules {
        release_batch_max: if is_single {
            1
        } else {
            release_batch_max.max(batch_max).min(RUN_MAX)
        },
        batch_max,
        refused_max: destination.refused_max(),
        batch_bytes_max: delivery.batch_bytes_max,
        linger: Duration::from_millis(if lingers { delivery.batch_linger_ms } else { 0 }),
        is_single,
        log: (destination.log_max > 0).then_some(destination.log_bodies),
    }
}

fn now() -> Now {
    Now { instant: Instant::now(), ms: server_clock_ms() }
}

async fn pending_or<T>(call: &mut Option<BoxFuture<'static, T>>) -> T {
    match call {
        Some(call) => call.await,
        None => std::future::pending().await,
    }
}

async fn sleep_until(instant: Option<Instant>) {
    match instant {
        Some(instant) => tokio::time::sleep_until(instant).await,
        None => std::future::pending().await,
    }
}
