//! Delivers the lanes of one destination, side by side, under one lease of its partition.
//!
//! The task waits for one [`Event`], passes it to the method for it, and begins what the
//! [`Scheduler`] says: one delivery per lane, and one call to Redis. It waits for nothing else:
//! all slow work is in flight ([`InFlight`]), so an expired lease stops the task at once.

mod calls;
mod definition;
mod deliveries;
mod handed_over;
mod poke;
mod refused;
mod scheduler;
mod spans;
mod withdrawals;

use std::{collections::HashMap, ops::ControlFlow, sync::Arc};

use futures::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use parking_lot::Mutex;
use tokio::time::Instant;

use calls::Answer;
use definition::{Definition, Lookup};
use deliveries::Delivered;
pub(super) use poke::Poke;
use poke::Poked;
use scheduler::Scheduler;
use withdrawals::Withdrawals;

use super::{
    breaker::Hosts,
    lane::{Lane, Next, Now},
    partition_lease::PartitionLease,
    tail::Tail,
};
use domain::{DestinationName, Sequence};
use outbound::http_client::Clients;
use store::{Catalog, Store, Watch, server_clock_ms};

/// Without ordering, a delivery may carry several messages, each a lane. At most this many such lanes are loaded.
const LOADED_MAX: usize = 1024;

/// The key of a lane; `None`: the destination is the only lane. With `ordering = "none"` each message is a lane, and
/// its sequence is the key.
type LaneKey = Option<String>;

/// The state of a destination's deliveries, for display.
#[derive(Default)]
pub(super) struct Gauge(Mutex<Gauged>);

/// The state of a destination's deliveries.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Gauged {
    /// How many messages are being delivered.
    pub(super) in_flight: usize,
    /// True if the next delivery waits for the rate limit.
    pub(super) is_rate_limited: bool,
    /// When the next probe begins, in ms since 1970, if the receiver fails.
    pub(super) probe_at_ms: Option<u64>,
}

impl Gauge {
    pub(super) fn get(&self) -> Gauged {
        *self.0.lock()
    }

    fn set(&self, gauged: Gauged) {
        *self.0.lock() = gauged;
    }
}

/// The dependencies of a destination's task.
pub(super) struct Dependencies {
    pub(super) store: Store,
    pub(super) catalog: Catalog,
    /// Sends HTTP deliveries.
    pub(super) clients: Clients,
    /// The breakers of the hosts of receivers.
    pub(super) hosts: Hosts,
    /// The deepest nesting of the JSON of batches and envelopes.
    pub(super) json_depth_max: usize,
    /// The most messages of one lane that one call releases.
    pub(super) release_batch_max: usize,
    pub(super) name: DestinationName,
    pub(super) lease: Arc<PartitionLease>,
    /// Publishes deliveries for `reseq tail`.
    pub(super) tail: Arc<Tail>,
    /// Counts the messages in delivery, for display.
    pub(super) gauge: Arc<Gauge>,
}

pub(super) struct DestinationSender {
    deps: Dependencies,
    /// `None` until this pod knows the definition.
    definition: Option<Definition>,
    lanes: HashMap<LaneKey, Lane>,
    scheduler: Scheduler,
    withdrawals: Withdrawals,
    in_flight: InFlight,
    /// The highest sequence that this task has seen, if the destination is one lane.
    heard_upto: Option<Sequence>,
}

/// Work that has begun and not ended.
#[derive(Default)]
struct InFlight {
    deliveries: FuturesUnordered<BoxFuture<'static, Delivered>>,
    /// The number of messages in these deliveries.
    messages: usize,
    /// One call at a time. Requests that lanes make meanwhile go into the next call.
    call: Option<BoxFuture<'static, Answer>>,
    /// The lookup of the definition.
    lookup: Option<BoxFuture<'static, Lookup>>,
}

/// The events that the task waits for.
enum Event {
    /// The lease has expired or is lost.
    LeaseEnded,
    /// The pod gives the partition back.
    Draining,
    /// The destination was paused, resumed, changed or deleted.
    DefinitionChanged,
    /// A head may have become releasable, or there is a new withdrawal.
    Poked(Poked),
    DeliveryEnded(Delivered),
    Answered(Answer),
    LookedUp(Lookup),
    /// A timer of the scheduler is due.
    TimeCame,
    /// The task was idle for a minute.
    Idle,
}

/// The events from outside the task.
struct Signals {
    lease_ended: BoxFuture<'static, ()>,
    draining: futures::future::Fuse<BoxFuture<'static, ()>>,
    definition: Watch,
    poke: Arc<Poke>,
}

impl Signals {
    fn new(deps: &Dependencies, poke: Arc<Poke>) -> Signals {
        let (lease, definition) = (deps.lease.clone(), deps.catalog.watch(&deps.name));
        let draining = lease.draining.clone().cancelled_owned().boxed().fuse();
        let lease_ended = async move { lease.ended().await }.boxed();
        Signals { lease_ended, draining, definition, poke }
    }
}

impl DestinationSender {
    pub(super) fn new(deps: Dependencies) -> Self {
        let mut scheduler = Scheduler::default();
        scheduler.wants_scan();
        DestinationSender {
            deps,
            definition: None,
            lanes: HashMap::new(),
            scheduler,
            withdrawals: Withdrawals::default(),
            in_flight: InFlight::default(),
            heard_upto: None,
        }
    }

    /// Runs until the lease has ended, the lanes are drained, the destination is gone, or the
    /// task was idle for a minute.
    pub(super) async fn run(mut self, poke: Arc<Poke>) {
        let lease = self.deps.lease.clone();
        let mut signals = Signals::new(&self.deps, poke);
        tokio::select! {
            () = lease.takeover_wait_over() => {}
            () = &mut signals.lease_ended => return,
            () = lease.draining.cancelled() => return,
        }
        loop {
            self.adopt_definition();
            self.load_lanes();
            self.begin_deliveries();
            self.begin_call();
            self.gauge();
            if self.is_drained() {
                return;
            }
            let event = self.next_event(&mut signals).await;
            if self.handle(event, &signals).is_break() {
                return;
            }
        }
    }

    fn gauge(&self) {
        // Read the clock only if the receiver fails, which is rare.
        let in_ms = |at: Instant| {
            let now = now();
            now.ms + at.saturating_duration_since(now.instant).as_millis() as u64
        };
        self.deps.gauge.set(Gauged {
            in_flight: self.in_flight.messages,
            is_rate_limited: self.scheduler.is_rate_limited(),
            probe_at_ms: self.scheduler.probe_at().map(in_ms),
        });
    }

    async fn next_event(&mut self, signals: &mut Signals) -> Event {
        let next_time = self.scheduler.next_time();
        let is_busy = !self.lanes.is_empty()
            || self.in_flight.call.is_some()
            || self.in_flight.lookup.is_some();
        let idle_end = self.scheduler.idle_end(is_busy, Instant::now());
        tokio::select! {
            () = &mut signals.lease_ended => Event::LeaseEnded,
            () = &mut signals.draining => Event::Draining,
            () = signals.definition.changed() => Event::DefinitionChanged,
            poked = signals.poke.poked() => Event::Poked(poked),
            Some(delivered) = self.in_flight.deliveries.next() => Event::DeliveryEnded(delivered),
            answer = ended(&mut self.in_flight.call) => Event::Answered(answer),
            found = ended(&mut self.in_flight.lookup) => Event::LookedUp(found),
            () = sleep_until(next_time) => Event::TimeCame,
            () = sleep_until(idle_end) => Event::Idle,
        }
    }

    /// Handles an event. `Break` ends the task.
    fn handle(&mut self, event: Event, signals: &Signals) -> ControlFlow<()> {
        match event {
            Event::LeaseEnded => return ControlFlow::Break(()),
            Event::Draining => self.draining(),
            // The next round adopts the new definition.
            Event::DefinitionChanged => {}
            Event::Poked(poked) => self.poked(&poked),
            Event::DeliveryEnded(delivered) => self.delivery_ended(delivered),
            Event::Answered(answer) => self.answered(answer),
            Event::LookedUp(found) => return self.looked_up(&found),
            Event::TimeCame => self.time_came(),
            // If a poke arrived meanwhile, the next round handles it.
            Event::Idle if signals.poke.end() => return ControlFlow::Break(()),
            Event::Idle => {}
        }
        ControlFlow::Continue(())
    }

    fn draining(&mut self) {
        self.scheduler.drain();
        for (key, lane) in &mut self.lanes {
            lane.draining();
            self.scheduler.wants_request(key);
        }
    }

    /// True if this task has finished its work, so that the partition can be given back.
    fn is_drained(&self) -> bool {
        self.scheduler.is_draining() && self.lanes.is_empty() && self.in_flight.call.is_none()
    }

    fn poked(&mut self, poked: &Poked) {
        if poked.has_gap {
            // A new Redis primary may be in another epoch. Ask it for the next message, which checks the epoch.
            self.heard_upto = None;
        }
        // If there were other events too, such as a withdrawal, they may concern the message. Then ask Redis.
        let alone = poked.handed.as_ref().filter(|_| !poked.has_more);
        if alone.is_some_and(|handed| self.take_handed(handed)) {
            return;
        }
        self.scheduler.wants_scan();
        self.withdrawals.ask();
    }

    fn time_came(&mut self) {
        self.scheduler.advance(Instant::now());
    }
}

/// The lanes.
impl DestinationSender {
    /// After an event of a lane, puts the lane into the queues for its next actions, or drops it.
    fn schedule(&mut self, key: &LaneKey) {
        let Some(lane) = self.lanes.get(key) else { return };
        match lane.next() {
            Next::Continue => {
                if lane.may_send() {
                    self.scheduler.wants_send(key);
                }
                if lane.may_request() {
                    self.scheduler.wants_request(key);
                }
            }
            Next::Resolve => self.scheduler.wants_resolve(key),
            Next::Drop => self.drop_lane(key),
        }
    }

    fn drop_lane(&mut self, key: &LaneKey) {
        self.scheduler.dropped(key);
        if let Some(lane) = self.lanes.remove(key)
            && lane.is_yielding()
        {
            // Redis may hold more messages of this lane. A scan finds the lane again.
            self.scheduler.wants_scan();
        }
    }

    /// The most deliveries at once.
    fn lanes_max(&self) -> usize {
        let delivery =
            self.definition.as_ref().map(|definition| &definition.entry.destination.delivery);
        delivery.map_or(0, |delivery| delivery.lanes_max as usize)
    }

    /// The most loaded lanes, except due lanes. Without ordering, one delivery carries several lanes.
    fn loaded_max(&self) -> usize {
        let (most, rules) = (self.lanes_max(), self.definition.as_ref().map(|one| &one.rules));
        match rules.filter(|rules| rules.is_grouped()) {
            Some(rules) => most.max((most * rules.batch_max).min(LOADED_MAX)),
            None => most,
        }
    }

    /// True if there is no room for another lane, except for a due lane.
    fn is_full(&self) -> bool {
        self.scheduler.is_full(self.lanes.len(), self.loaded_max())
    }

    /// True if the destination itself is its only lane.
    fn is_one_lane(&self) -> bool {
        let ordering =
            self.definition.as_ref().map(|definition| definition.entry.destination.ordering);
        ordering == Some(domain::Ordering::Destination)
    }

    /// Loads lanes that may have messages to release: the destination's only lane, or lanes that Redis named.
    fn load_lanes(&mut self) {
        if self.definition.is_none() {
            return;
        }
        if self.is_one_lane() {
            // While the lane is loaded, the request for a scan stays set: the lane is loaded again
            // after it is dropped.
            if !self.lanes.contains_key(&None)
                && self.scheduler.take_scan(true, Instant::now()).is_some()
            {
                self.load(None);
            }
            return;
        }
        while let Some(key) = self.scheduler.next_to_load(self.lanes.len(), self.loaded_max()) {
            self.load(key);
        }
    }

    /// Reloads a lane ahead of others, because a message at its front became a tombstone.
    fn load_again(&mut self, key: &LaneKey) {
        self.drop_lane(key);
        if !self.scheduler.is_draining() {
            self.scheduler.goes_first(key);
            self.load(key.clone());
        }
    }

    fn load(&mut self, key: LaneKey) {
        if !self.lanes.contains_key(&key) {
            self.scheduler.wants_request(&key);
            self.lanes.insert(key, Lane::default());
        }
    }
}

fn now() -> Now {
    Now { instant: Instant::now(), ms: server_clock_ms() }
}

/// Resolves when `call` has ended, and clears it. Never resolves if there is no call.
async fn ended<T>(call: &mut Option<BoxFuture<'static, T>>) -> T {
    let Some(in_flight) = call else { return std::future::pending().await };
    let result = in_flight.await;
    *call = None;
    result
}

async fn sleep_until(instant: Option<Instant>) {
    match instant {
        Some(instant) => tokio::time::sleep_until(instant).await,
        None => std::future::pending().await,
    }
}
