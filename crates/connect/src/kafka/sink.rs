//! Copies the messages of a destination to a topic: takes them as a consumer, writes them, and accepts the last message
//! of each lane.
//!
//! Kafka may get a message more than once: a message that was written but not accepted in time is delivered again. This
//! process stops writing before the lease ends by its own clock, so that it does not overtake the next consumer.

use std::{collections::BTreeMap, time::Duration};

use client::{Call, Service, paths::path_of};
use metrics::counter;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout_at};

use super::{
    Cluster, check_topic,
    delivery::{Delivery, Outcome, Taken},
    writer::Writer,
};
use crate::{
    outlet::ask,
    run::Shared,
    source::{Fault, Finding},
};

/// The most messages of one request.
const TAKE_MAX: usize = 1_000;
/// The longest wait for messages. If a third of the lease is less, that applies: the lease counts from the call.
const WAIT_MAX: Duration = Duration::from_secs(5);
/// The pause before a report is repeated.
const AGAIN_REPORT: Duration = Duration::from_millis(200);

const SENT: &str = "reseq_connect_sent_total";
const REFUSED: &str = "reseq_connect_refused_total";
const RETURNED: &str = "reseq_connect_returned_total";

/// A section `[[sink]]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    pub name: String,
    destination: String,
    kafka: Target,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Target {
    topic: String,
}

impl Settings {
    /// Checks the section. An error names the field.
    pub fn check(&self) -> anyhow::Result<()> {
        self.destination.parse::<domain::DestinationName>()?;
        check_topic(&self.kafka.topic)
    }
}

/// A running sink.
pub struct Sink {
    settings: Settings,
    shared: Shared,
}

/// Messages under a lease. The lease counts from `began`, a time before the request.
struct Leased {
    deliveries: Vec<Delivery>,
    began: Instant,
    lease: Duration,
}

impl Sink {
    /// Starts the sink, which runs until the process stops.
    pub fn start(settings: &Settings, cluster: &Cluster, shared: &Shared) {
        shared.board.add(&settings.name);
        let writer = Writer::new(cluster, &settings.kafka.topic);
        let sink = Sink { settings: settings.clone(), shared: shared.clone() };
        shared.tasks.spawn(sink.run(writer));
    }

    async fn run(self, mut writer: Writer) {
        let Sink { settings: Settings { name, .. }, shared } = &self;
        [SENT, REFUSED, RETURNED].into_iter().for_each(|counter| self.count(counter, 0));
        let mut leased = None;
        while leased.is_some() || !shared.shutdown.is_cancelled() {
            let state = self.turn(&mut writer, &mut leased).await;
            let wait = state.as_ref().err().map_or(Duration::ZERO, Fault::wait);
            shared.board.set(name, state);
            shared.pause(wait).await;
        }
        writer.stop().await;
        tracing::info!(sink = name, "drained");
    }

    fn count(&self, name: &'static str, count: usize) {
        counter!(name, "source" => self.settings.name.clone()).increment(count as u64);
    }

    /// Writes and reports the messages in hand, and requests the next messages meanwhile. These are of other lanes,
    /// because the lanes in hand are under a lease.
    async fn turn(&self, writer: &mut Writer, leased: &mut Option<Leased>) -> Result<(), Fault> {
        let ready = writer.ready().await;
        let wait = leased.as_ref().map_or(Duration::ZERO, |leased| leased.lease / 3);
        let take = async {
            // Request no messages that cannot be written.
            if ready.is_err() {
                return Ok(None);
            }
            tokio::select! {
                taken = self.take(wait) => taken.map(Some),
                // Reseq notices that its answer did not arrive, and takes back the messages.
                () = self.shared.shutdown.cancelled() => Ok(None),
            }
        };
        let write = async {
            let Some(Leased { deliveries, began, lease }) = leased.take() else { return Ok(()) };
            let outcomes = writer.write(&deliveries, began + lease * 8 / 10).await;
            self.report(&deliveries, outcomes, began + lease).await
        };
        let (taken, written) = tokio::join!(take, write);
        let taken = taken.map(|taken| *leased = taken);
        ready.and(written).and(taken)
    }

    async fn take(&self, wait: Duration) -> Result<Leased, Fault> {
        let Settings { name, destination, .. } = &self.settings;
        let (began, wait) = (Instant::now(), wait.min(WAIT_MAX).as_millis() as u64);
        let request = json!({"max": TAKE_MAX, "wait_ms": wait, "consumer": name});
        let path = path_of(destination, "consume");
        let answer = ask(&self.shared.service, destination, Call::post(&path, &request)).await?;
        let Taken { lease_ms, deliveries } = serde_json::from_str(&answer.text)
            .map_err(|error| Fault::Later(format!("the answer of {path}: {error}")))?;
        Ok(Leased { deliveries, began, lease: Duration::from_millis(lease_ms) })
    }

    /// Accepts the messages that were written, requeues those that were not, and refuses those that Kafka refuses.
    /// Reseq delivers a lane without a report again when its lease has ended.
    async fn report(
        &self,
        deliveries: &[Delivery],
        outcomes: Vec<Outcome>,
        until: Instant,
    ) -> Result<(), Fault> {
        let (mut accept, mut refuse, mut requeue) =
            (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let (mut fault, mut sent) = (None, 0);
        for (delivery, outcome) in deliveries.iter().zip(outcomes) {
            let (lane, token) = (delivery.lane.as_str(), &delivery.token);
            if refuse.contains_key(lane) || requeue.contains_key(lane) {
                continue;
            }
            match outcome {
                Outcome::Written => {
                    sent += 1;
                    accept.insert(lane, json!({"token": token}));
                }
                Outcome::Refused(why) => {
                    let Settings { name, destination, .. } = &self.settings;
                    tracing::error!(sink = name, destination, delivery.sequence, why, "refused");
                    refuse.insert(lane, json!({"token": token, "error": why, "final": true}));
                }
                Outcome::Open(why) => {
                    fault = fault.or(Some(why));
                    requeue.insert(lane, json!({"token": token}));
                }
            }
        }
        self.tell("accept", accept, until).await?;
        self.count(SENT, sent);
        self.count(REFUSED, refuse.len());
        self.count(RETURNED, requeue.len());
        self.tell("refuse", refuse, until).await?;
        self.tell("requeue", requeue, until).await?;
        fault.map_or(Ok(()), Err)
    }

    /// Sends a report to Reseq, and repeats it until there is an answer or the lease ends.
    async fn tell(
        &self,
        what: &str,
        items: BTreeMap<&str, Value>,
        until: Instant,
    ) -> Result<(), Fault> {
        if items.is_empty() {
            return Ok(());
        }
        let items: Vec<Value> = items.into_values().collect();
        let (path, body) = (format!("/v1/deliveries/{what}"), json!({"items": items}));
        let Shared { service, .. } = &self.shared;
        loop {
            let asked = ask(service, &self.settings.destination, Call::post(&path, &body));
            let fault = match timeout_at(until, asked).await {
                Ok(Ok(answer)) => {
                    let results = answer["results"].as_array().into_iter().flatten();
                    let stale = results.filter(|result| result["status"] == "stale_lease").count();
                    if stale > 0 {
                        // Another consumer has got these messages meanwhile, or they will be delivered again.
                        tracing::warn!(sink = self.settings.name, what, stale, "leases had ended");
                    }
                    return Ok(());
                }
                Ok(Err(fault)) => fault,
                Err(_) => Fault::Later(format!("no answer to {what} before the lease ended")),
            };
            if matches!(fault, Fault::Halted(_)) || Instant::now() + AGAIN_REPORT >= until {
                return Err(fault);
            }
            sleep(AGAIN_REPORT).await;
        }
    }
}

/// Checks that a sink has all that it needs. Changes nothing.
pub async fn check_sink(settings: &Settings, cluster: &Cluster, service: &Service) -> Vec<Finding> {
    let Settings { destination, kafka: Target { topic }, .. } = settings;
    let answer = ask(service, destination, Call::get(&path_of(destination, ""))).await;
    let kind = answer.and_then(|answer| match &answer["delivery"]["kind"] {
        kind if kind == "pull" => Ok(()),
        kind => Err(Fault::Halted(format!("delivery.kind is {kind}; it must be \"pull\""))),
    });
    // No lease has this token. If this user may consume, the answer is only "stale".
    let items = json!({"items": [{"token": "check"}]});
    let right = ask(service, destination, Call::post("/v1/deliveries/accept", &items)).await;
    [
        (format!("destination {destination} at {}", service.url()), kind),
        ("right to consume".to_owned(), right.map(drop)),
        (format!("topic {topic}"), Writer::new(cluster, topic).ready().await),
    ]
    .map(|(what, result)| (what, result.err()))
    .into()
}
