//! Delivers the lanes of one destination, side by side, under one tenure of its partition.

mod calls;

use std::{
    collections::{BTreeSet, HashMap},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use futures::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use tokio::{sync::Notify, time::Instant};

use calls::Answer;

use super::{
    deliver::{self, Deliver, Verdict},
    lane::Lane,
    tenure::Tenure,
};
use crate::{
    domain::{self, DestinationName, Stamped},
    store::{Catalog, Known, Store},
    telemetry,
};

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
            due: BTreeSet::new(),
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
            // A lane that made way for others may have more: it is looked for like them.
            self.look |= self.lanes.values().any(|lane| lane.yielding && lane.is_done(is_draining));
            self.lanes.retain(|_, lane| !lane.is_done(is_draining));
            self.begin_call();
            if is_draining && self.lanes.is_empty() && self.call.is_none() {
                return;
            }
            let next_due = self.due.first().copied();
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
                let verdict = way.deliver(&message, message.attempts.failed + 1).await;
                Delivered { key, message, verdict, took: begun.elapsed() }
            };
            self.deliveries.push(delivery.boxed());
        }
    }

    /// True when no further lane can be taken in hand.
    fn is_full(&self) -> bool {
        let lanes_max =
            |(known, _): &(Arc<Known>, _)| known.destination.delivery.lanes_max as usize;
        self.known.as_ref().is_none_or(|known| self.lanes.len() >= lanes_max(known))
    }

    fn delivered(&mut self, delivered: Delivered) {
        let Delivered { key, message, verdict, took } = delivered;
        let others_wait = self.look && self.is_full();
        let Some(lane) = self.lanes.get_mut(&key) else { return };
        match verdict {
            Verdict::Accepted => {
                lane.accepted();
                lane.yielding |= others_wait && lane.delivered >= RUNS_MAX * self.run_max;
                telemetry::delivered(self.name.as_str(), "accepted", took);
                telemetry::end_to_end(self.name.as_str(), age(&message));
            }
            Verdict::Refused { reason, retry_after } => {
                let attempt = message.attempts.failed + 1;
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
}

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
