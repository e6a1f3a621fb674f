//! Delivers the lanes of one destination, side by side, under one tenure of its partition.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use futures::{
    FutureExt, StreamExt,
    future::{BoxFuture, join_all},
    stream::FuturesUnordered,
};
use tokio::{sync::Notify, time::Instant};

use super::{
    deliver::{self, Deliver, Verdict},
    lane::{Lane, Refused},
    tenure::Tenure,
};
use crate::{
    domain::{self, DestinationName, Stamped},
    store::{Catalog, Known, LaneRequest, LaneRun, Store, StoreError},
    telemetry,
};

/// The most lanes of one call.
const CALL_LANES_MAX: usize = 256;
/// After so many runs a lane goes to the end of the line, if others wait.
const RUNS_MAX: usize = 4;
/// The longest wait that a receiver may ask for.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(3600);

/// A lane's key; none for the destination's own lane.
type LaneKey = Option<String>;

/// Deliveries in flight just now, for people to see.
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

/// What Redis answered.
enum Answer {
    Released(Vec<LaneRequest>, Result<Vec<LaneRun>, StoreError>),
    Postponed(Vec<(LaneKey, Refused, Result<(), StoreError>)>),
    Lanes(usize, Result<Vec<String>, StoreError>),
    /// The pause after a failed call is over.
    Rested,
}

/// A delivery that has ended.
struct Delivered {
    key: LaneKey,
    message: Arc<Stamped>,
    verdict: Verdict,
    took: Duration,
}

pub(super) struct DestinationSender {
    store: Store,
    catalog: Catalog,
    client: reqwest::Client,
    run_max: usize,
    name: DestinationName,
    tenure: Arc<Tenure>,
    /// What is known of the destination, and the way to its receiver.
    known: Option<(Arc<Known>, Arc<dyn Deliver>)>,
    lanes: HashMap<LaneKey, Lane>,
    deliveries: FuturesUnordered<BoxFuture<'static, Delivered>>,
    /// One call at a time: what comes together meanwhile makes the next.
    call: Option<BoxFuture<'static, Answer>>,
    /// When to look for lanes whose backoff is over.
    due: BTreeMap<Instant, ()>,
    /// There may be lanes to take in hand.
    look: bool,
    pause: Duration,
}

impl DestinationSender {
    pub(super) fn new(
        store: Store,
        catalog: Catalog,
        client: reqwest::Client,
        run_max: usize,
        name: DestinationName,
        tenure: Arc<Tenure>,
    ) -> Self {
        DestinationSender {
            store,
            catalog,
            client,
            run_max,
            name,
            tenure,
            known: None,
            lanes: HashMap::new(),
            deliveries: FuturesUnordered::new(),
            call: None,
            due: BTreeMap::new(),
            look: true,
            pause: Duration::ZERO,
        }
    }

    /// Runs until the tenure is over. `poke` says that a head may leave.
    pub(super) async fn run(mut self, poke: Arc<Notify>, gauge: Arc<Gauge>) {
        let tenure = self.tenure.clone();
        let mut ended = std::pin::pin!(tenure.ended());
        let mut draining = std::pin::pin!(tenure.draining.cancelled().fuse());
        tokio::select! {
            () = tokio::time::sleep_until(tenure.quarantined_until) => {}
            () = &mut ended => return,
            () = tenure.draining.cancelled() => return,
        }
        loop {
            if !self.adopt_definition().await {
                return;
            }
            self.begin_deliveries();
            gauge.set(self.deliveries.len());
            let is_draining = tenure.draining.is_cancelled();
            self.lanes.retain(|_, lane| !lane.is_done(is_draining));
            self.begin_call();
            if is_draining && self.lanes.is_empty() && self.call.is_none() {
                return;
            }
            let next_due = self.due.keys().next().copied();
            tokio::select! {
                () = &mut ended => return,
                () = &mut draining, if !is_draining => {}
                () = poke.notified() => self.look = true,
                Some(delivered) = self.deliveries.next() => self.delivered(delivered),
                answer = pending_or(&mut self.call) => {
                    self.call = None;
                    self.answered(answer).await;
                }
                () = sleep_until(next_due) => {
                    let later = self.due.split_off(&Instant::now());
                    self.due = later;
                    self.look = true;
                }
            }
        }
    }

    /// Takes over a definition that has changed. False if the destination is gone.
    async fn adopt_definition(&mut self) -> bool {
        let current = match self.catalog.find(&self.name).await {
            Ok(Some(current)) => current,
            Ok(None) => return false,
            // Redis does not answer: what is known goes on, if anything is.
            Err(_) => return self.known.is_some(),
        };
        let is_current = |(known, _): &(Arc<Known>, _)| known.version == current.version;
        if !self.known.as_ref().is_some_and(is_current) {
            let way = deliver::connect(&current.destination, &self.client);
            self.known = Some((current, way));
        }
        true
    }

    fn begin_deliveries(&mut self) {
        let Some((_, way)) = &self.known else { return };
        for (key, lane) in &mut self.lanes {
            // Asked for each delivery: by the clock, the lease may have just run out.
            if !self.tenure.may_send() {
                return;
            }
            let Some(message) = lane.begin() else { continue };
            let (key, way) = (key.clone(), way.clone());
            let delivery = async move {
                let begun = Instant::now();
                let verdict = way.deliver(&message, message.attempts + 1).await;
                Delivered { key, message, verdict, took: begun.elapsed() }
            };
            self.deliveries.push(delivery.boxed());
        }
    }

    fn delivered(&mut self, delivered: Delivered) {
        let Delivered { key, message, verdict, took } = delivered;
        let others_wait = self.look;
        let Some(lane) = self.lanes.get_mut(&key) else { return };
        match verdict {
            Verdict::Accepted => {
                lane.accepted();
                lane.yielding |= others_wait && lane.delivered >= RUNS_MAX * self.run_max;
                telemetry::delivered(self.name.as_str(), "accepted", took);
                telemetry::end_to_end(self.name.as_str(), age(&message));
            }
            Verdict::Refused { reason, retry_after } => {
                let attempt = message.attempts + 1;
                let backoff = match &self.known {
                    Some((known, _)) => known.destination.delivery.backoff(),
                    None => domain::Delivery::default().backoff(),
                };
                let chance = rand::random::<f64>();
                let wait = backoff.wait_asked(attempt, chance, retry_after, RETRY_AFTER_MAX);
                lane.refused(attempt, wait);
                telemetry::delivered(self.name.as_str(), "refused", took);
                tracing::warn!(
                    destination = %self.name, sequence = message.place.sequence, key, attempt,
                    reason, wait_ms = wait.as_millis() as u64,
                    "a delivery was not accepted, and is tried again",
                );
            }
        }
    }

    /// Begins the next call to Redis, if there is anything to ask.
    fn begin_call(&mut self) {
        let Some((known, _)) = self.known.clone() else { return };
        if self.call.is_some() {
            return;
        }
        if !self.pause.is_zero() {
            let pause = self.pause;
            self.call = Some(tokio::time::sleep(pause).map(|()| Answer::Rested).boxed());
            return;
        }
        self.call = self
            .postpone_call(&known)
            .or_else(|| self.release_call(&known))
            .or_else(|| self.take_lanes(&known));
    }

    fn postpone_call(&self, known: &Arc<Known>) -> Option<BoxFuture<'static, Answer>> {
        let refused =
            self.lanes.iter().filter_map(|(key, lane)| Some((key.clone(), lane.to_postpone()?)));
        let refused: Vec<(LaneKey, Refused)> = refused.take(CALL_LANES_MAX).collect();
        if refused.is_empty() {
            return None;
        }
        let (store, owner, known) = (self.store.clone(), self.tenure.owner.clone(), known.clone());
        let call = async move {
            let calls = refused.into_iter().map(|(key, head)| {
                let (store, owner, known) = (&store, &owner, &known);
                async move {
                    let lane = key.as_deref();
                    let Refused { sequence, attempts, wait } = head;
                    let done = store.postpone(owner, known, lane, sequence, attempts, wait).await;
                    (key, head, done)
                }
            });
            Answer::Postponed(join_all(calls).await)
        };
        Some(call.boxed())
    }

    fn release_call(&self, known: &Arc<Known>) -> Option<BoxFuture<'static, Answer>> {
        let stop = self.tenure.draining.is_cancelled();
        let requests = self
            .lanes
            .iter()
            .filter_map(|(key, lane)| lane.request(key.as_deref(), self.run_max, stop));
        let requests: Vec<LaneRequest> = requests.take(CALL_LANES_MAX).collect();
        if requests.is_empty() {
            return None;
        }
        let (store, owner, known) = (self.store.clone(), self.tenure.owner.clone(), known.clone());
        let call = async move {
            let answer = store.release(&owner, &known, &requests).await;
            Answer::Released(requests, answer)
        };
        Some(call.boxed())
    }

    /// Takes lanes in hand that may have something to release: the destination's own, or those
    /// that Redis names.
    fn take_lanes(&mut self, known: &Arc<Known>) -> Option<BoxFuture<'static, Answer>> {
        let lanes_max = known.destination.delivery.lanes_max as usize;
        let room = lanes_max.saturating_sub(self.lanes.len());
        if !self.look || room == 0 || self.tenure.draining.is_cancelled() {
            return None;
        }
        match known.destination.ordering {
            domain::Ordering::Destination => {
                self.look = false;
                if self.lanes.contains_key(&None) {
                    return None;
                }
                self.lanes.insert(None, Lane::default());
                self.release_call(known)
            }
            domain::Ordering::Key => {
                let (store, known) = (self.store.clone(), known.clone());
                // Those in hand are named too.
                let max = self.lanes.len() + room.min(CALL_LANES_MAX);
                let call =
                    async move { Answer::Lanes(max, store.releasable_lanes(&known, max).await) };
                self.look = false;
                Some(call.boxed())
            }
        }
    }

    async fn answered(&mut self, answer: Answer) {
        match answer {
            Answer::Rested => self.pause = Duration::ZERO,
            Answer::Lanes(max, Ok(keys)) => {
                // As many as were asked for: there may be more.
                self.look |= keys.len() == max;
                let lanes_max = self
                    .known
                    .as_ref()
                    .map_or(0, |(known, _)| known.destination.delivery.lanes_max as usize);
                for key in keys {
                    if self.lanes.len() >= lanes_max {
                        self.look = true;
                        break;
                    }
                    self.lanes.entry(Some(key)).or_default();
                }
            }
            Answer::Lanes(_, Err(error)) => {
                self.look = true;
                self.failed(error).await;
            }
            Answer::Released(requests, Ok(runs)) => self.released(&requests, runs),
            Answer::Released(_, Err(error)) => self.failed(error).await,
            Answer::Postponed(answers) => {
                for (key, head, done) in answers {
                    match done {
                        Ok(()) | Err(StoreError::WrongHead) => {
                            self.lanes.remove(&key);
                            self.look_after(head.wait);
                        }
                        Err(error) => self.failed(error).await,
                    }
                }
            }
        }
    }

    fn released(&mut self, requests: &[LaneRequest], runs: Vec<LaneRun>) {
        for (request, run) in requests.iter().zip(runs) {
            if !run.wait.is_zero() {
                self.look_after(run.wait);
            }
            if let Some(lane) = self.lanes.get_mut(&request.key) {
                lane.answered(request, run.messages);
            }
        }
    }

    /// Looks for lanes again when a backoff is over. The server compares whole milliseconds, so
    /// a look at the very instant is too early.
    fn look_after(&mut self, wait: Duration) {
        self.due.insert(Instant::now() + wait + Duration::from_millis(2), ());
    }

    async fn failed(&mut self, error: StoreError) {
        match error {
            StoreError::StaleEpoch(_) | StoreError::NotOwner => {
                tracing::debug!(destination = %self.name, %error, "the tenure is over");
                self.tenure.lost.cancel();
            }
            StoreError::StaleDefinition | StoreError::UnknownDestination => {
                if let Err(error) = self.catalog.refresh(&self.name).await {
                    tracing::debug!(destination = %self.name, %error, "cannot look up a definition");
                    self.pause = PAUSE;
                }
            }
            StoreError::Quarantine(wait_ms) => self.pause = Duration::from_millis(wait_ms + 1),
            error if error.is_temporary() => {
                tracing::debug!(destination = %self.name, %error, "a call failed, and is made again");
                self.pause = PAUSE;
            }
            error => {
                tracing::error!(destination = %self.name, %error, "cannot release");
                self.pause = Duration::from_secs(1);
            }
        }
    }
}

/// The pause after a call that Redis did not answer.
const PAUSE: Duration = Duration::from_millis(100);

fn age(message: &Stamped) -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.saturating_sub(Duration::from_millis(message.message.received_ms))
}

async fn pending_or(call: &mut Option<BoxFuture<'static, Answer>>) -> Answer {
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
