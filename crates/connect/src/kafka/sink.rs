//! Messages of a destination into a topic: takes them as a consumer, writes them, and accepts the last of each lane.
//!
//! Kafka may have a message more than once: what was written and not accepted in time comes again. What is in flight ends
//! before the lease does, by the clock of this process, so that another consumer is never overtaken by this one.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use base64::{Engine, prelude::BASE64_STANDARD};
use client::{Call, Service, paths::path_of, problem_of};
use krafka::{
    CloseOptions, KrafkaError, Record,
    error::ErrorCode,
    producer::{Acks, DeliveryHandle, Producer},
};
use metrics::counter;
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::sync::CancellationToken;

use super::{
    Cluster, check_topic,
    cluster::{AGE_MAX, fault_of},
};
use crate::{
    board::{Board, State},
    source::{Fault, Finding},
};

/// The most messages to take at once.
const TAKE_MAX: usize = 1_000;
/// The longest wait for messages. A third of the lease, if that is less: the lease counts from the call.
const WAIT_MAX: Duration = Duration::from_secs(5);
/// Kafka gets batches up to this length. A longer message goes alone: if Kafka refuses it, nothing has passed it.
const BATCH_BYTES: usize = 64 << 10;
/// So many messages go alone after one in a batch was refused, to find it.
const ALONE: usize = 2_000;
/// How long to wait for what a topic is.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// The wait before the next try.
const AGAIN: Duration = Duration::from_secs(1);
const AGAIN_HALTED: Duration = Duration::from_secs(5);
const AGAIN_REPORT: Duration = Duration::from_millis(200);

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
    /// The error names the field.
    pub fn check(&self) -> anyhow::Result<()> {
        self.destination.parse::<domain::DestinationName>()?;
        check_topic(&self.kafka.topic)
    }
}

/// One sink on its way.
pub struct Sink {
    settings: Settings,
    cluster: Cluster,
    service: Arc<Service>,
    board: Arc<Board>,
    shutdown: CancellationToken,
    producer: Option<Producer>,
    lease: Duration,
    alone: usize,
}

#[derive(Deserialize)]
struct Taken {
    lease_ms: u64,
    deliveries: Vec<Delivery>,
}

#[derive(Deserialize)]
struct Delivery {
    token: String,
    lane: String,
    sequence: u64,
    epoch: u64,
    previous: Option<u64>,
    id: String,
    key: Option<String>,
    content_type: String,
    headers: BTreeMap<String, String>,
    body: Option<Box<RawValue>>,
    body_base64: Option<String>,
}

/// What became of a message.
enum Outcome {
    Written,
    /// Kafka refuses it, and will do so again.
    Refused(String),
    /// Not written, or nobody knows.
    Open(Fault),
}

impl Delivery {
    fn record(&self, topic: &str) -> Result<Record, String> {
        let body = match (&self.body_base64, &self.body) {
            (Some(text), _) => {
                BASE64_STANDARD.decode(text).map_err(|_| "its body is not base64".to_owned())?
            }
            (None, body) => body.as_ref().map_or("null", |body| body.get()).as_bytes().to_vec(),
        };
        let mut record = Record::new(topic, body);
        record = match (&self.key, self.lane.as_str()) {
            (Some(key), _) => record.key(key.clone()),
            // All of the destination are one lane.
            (None, "") => record.partition(0),
            (None, _) => record,
        };
        for (name, value) in &self.headers {
            record = record.header(name, value.clone());
        }
        let known = [("reseq-previous", self.previous.map(|previous| previous.to_string()))];
        let own = [
            ("content-type", Some(self.content_type.clone())),
            ("reseq-id", Some(self.id.clone())),
            ("reseq-key", self.key.clone()),
            ("reseq-epoch", Some(self.epoch.to_string())),
            ("reseq-sequence", Some(self.sequence.to_string())),
        ];
        for (name, value) in own.into_iter().chain(known) {
            if let Some(value) = value {
                record = record.header(name, value);
            }
        }
        Ok(record)
    }
}

fn outcome_of<T>(result: krafka::Result<T>) -> Outcome {
    match result {
        Ok(_) => Outcome::Written,
        Err(error) if is_of_message(&error) => Outcome::Refused(error.to_string()),
        Err(error) => Outcome::Open(fault_of(&error)),
    }
}

/// True if Kafka refuses the message, and not the topic or whoever writes.
fn is_of_message(error: &KrafkaError) -> bool {
    match error {
        KrafkaError::Broker { code, .. } => matches!(
            code,
            ErrorCode::MessageTooLarge
                | ErrorCode::RecordListTooLarge
                | ErrorCode::InvalidRecord
                | ErrorCode::InvalidTimestamp
        ),
        KrafkaError::Serialization { .. } => true,
        _ => false,
    }
}

impl Sink {
    pub fn new(
        settings: &Settings,
        cluster: &Cluster,
        service: &Arc<Service>,
        board: &Arc<Board>,
        shutdown: &CancellationToken,
    ) -> Sink {
        Sink {
            settings: settings.clone(),
            cluster: cluster.clone(),
            service: service.clone(),
            board: board.clone(),
            shutdown: shutdown.clone(),
            producer: None,
            lease: Duration::ZERO,
            alone: 0,
        }
    }

    /// Runs until the process stops.
    pub async fn run(mut self) {
        let name = self.settings.name.clone();
        self.count("sent", 0);
        self.count("refused", 0);
        self.count("returned", 0);
        while !self.shutdown.is_cancelled() {
            let (state, wait) = match self.turn().await {
                Ok(()) => (State::Running, Duration::ZERO),
                Err(Fault::Halted(why)) => (State::Halted(why), AGAIN_HALTED),
                Err(fault) => (State::Waiting(fault.to_string()), AGAIN),
            };
            self.board.set(&name, state);
            tokio::select! {
                () = sleep(wait) => {}
                () = self.shutdown.cancelled() => {}
            }
        }
        self.stop_writing().await;
        tracing::info!(sink = name, "drained");
    }

    fn count(&self, what: &str, count: usize) {
        let (name, label) = (format!("reseq_connect_{what}_total"), self.settings.name.clone());
        counter!(name, "source" => label).increment(count as u64);
    }

    /// Takes messages, writes them, and reports.
    async fn turn(&mut self) -> Result<(), Fault> {
        let topic = self.settings.kafka.topic.clone();
        // Nothing is taken that cannot be written.
        self.producer().await?.partitions_for(&topic).await.map_err(|error| fault_of(&error))?;
        let began = Instant::now();
        let taken = tokio::select! {
            taken = self.take() => taken?,
            // Reseq notices that its answer did not arrive, and gives back what it may have given.
            () = self.shutdown.cancelled() => return Ok(()),
        };
        self.lease = Duration::from_millis(taken.lease_ms);
        if taken.deliveries.is_empty() {
            return Ok(());
        }
        let outcomes = self.write(&taken.deliveries, began + self.lease * 8 / 10).await?;
        self.report(&taken.deliveries, outcomes, began + self.lease).await
    }

    async fn take(&self) -> Result<Taken, Fault> {
        let wait = (self.lease / 3).min(WAIT_MAX).as_millis() as u64;
        let request = json!({"max": TAKE_MAX, "wait_ms": wait, "consumer": self.settings.name});
        let path = path_of(&self.settings.destination, "consume");
        let answer = self.service.call(Call::post(&path, &request)).await;
        let answer = answer.map_err(|error| refusal(&error))?;
        serde_json::from_str(&answer.text)
            .map_err(|error| Fault::Later(format!("the answer of {path}: {error}")))
    }

    async fn producer(&mut self) -> Result<&Producer, Fault> {
        let producer = match self.producer.take() {
            Some(producer) => producer,
            None => {
                let builder = self.cluster.connect(AGE_MAX).await?.producer();
                let builder = builder
                    .acks(Acks::All)
                    .idempotent(true)
                    .batch_size(BATCH_BYTES)
                    .max_block(ANSWER_MAX);
                builder.build().await.map_err(|error| fault_of(&error))?
            }
        };
        Ok(self.producer.insert(producer))
    }

    /// Nothing that was handed over is written from now on, except what is on its way.
    async fn stop_writing(&mut self) {
        if let Some(producer) = self.producer.take() {
            let _ = producer.close_with(CloseOptions::new().timeout(Duration::ZERO)).await;
        }
    }

    /// Writes until the deadline, or until something is not written: then nothing follows it.
    async fn write(
        &mut self,
        deliveries: &[Delivery],
        deadline: Instant,
    ) -> Result<Vec<Outcome>, Fault> {
        let topic = self.settings.kafka.topic.clone();
        let records = deliveries.iter().map(|delivery| delivery.record(&topic));
        let mut records: Vec<_> = records.map(Some).collect();
        let after = || Outcome::Open(Fault::Later("it is behind another one".to_owned()));
        let mut outcomes: Vec<Outcome> = deliveries.iter().map(|_| after()).collect();
        let (mut refused, mut at) = (BTreeSet::new(), 0);
        while at < deliveries.len() {
            let goes_alone = |record: &Option<Result<Record, String>>| {
                let size = record.as_ref().and_then(|record| record.as_ref().ok());
                size.is_none_or(|record| record.estimated_size() > BATCH_BYTES / 2)
            };
            let rest = &records[at + 1..];
            let more = match self.alone > 0 || goes_alone(&records[at]) {
                true => 0,
                false => rest.iter().position(goes_alone).unwrap_or(rest.len()),
            };
            let indexes =
                (at..=at + more).filter(|index| !refused.contains(&deliveries[*index].lane));
            let indexes: Vec<usize> = indexes.collect();
            let together: Vec<_> =
                indexes.iter().filter_map(|index| records[*index].take()).collect();
            let written = self.write_together(together, deadline).await;
            at += more + 1;
            self.alone = self.alone.saturating_sub(1);
            let is_good = |outcome: &Outcome| match outcome {
                Outcome::Written => true,
                Outcome::Refused(_) => more == 0,
                Outcome::Open(_) => false,
            };
            let ends = !written.iter().all(is_good);
            for (index, outcome) in indexes.into_iter().zip(written) {
                outcomes[index] = match outcome {
                    // Perhaps another one in its batch was meant.
                    Outcome::Refused(why) if more > 0 => {
                        self.alone = ALONE;
                        Outcome::Open(Fault::Later(why))
                    }
                    outcome => outcome,
                };
                if matches!(outcomes[index], Outcome::Refused(_)) {
                    refused.insert(&deliveries[index].lane);
                }
            }
            if ends {
                break;
            }
        }
        Ok(outcomes)
    }

    /// Writes these one right after the other.
    async fn write_together(
        &mut self,
        records: Vec<Result<Record, String>>,
        deadline: Instant,
    ) -> Vec<Outcome> {
        let (late, is_one) = (|| Err(KrafkaError::timeout("the lease ends")), records.len() == 1);
        let mut handles: Vec<Result<DeliveryHandle, Outcome>> = Vec::with_capacity(records.len());
        for record in records {
            let queued = match (record, &self.producer) {
                (Err(why), _) => Err(Outcome::Refused(why)),
                (Ok(record), Some(producer)) => {
                    let queued = timeout_at(deadline, producer.enqueue(record)).await;
                    queued.unwrap_or_else(|_| late()).map_err(|error| outcome_of::<()>(Err(error)))
                }
                (Ok(_), None) => {
                    Err(Outcome::Open(Fault::Later("the producer is closed".to_owned())))
                }
            };
            let is_last = queued.is_err();
            handles.push(queued);
            if is_last {
                break;
            }
        }
        let mut outcomes = Vec::with_capacity(handles.len());
        for handle in handles {
            let outcome = match handle {
                Err(outcome) => outcome,
                Ok(mut handle) => match timeout_at(deadline, &mut handle).await {
                    Ok(result) => outcome_of(result),
                    Err(_) => {
                        // Before the first one expires: a later one must not be written without it.
                        self.stop_writing().await;
                        outcome_of(handle.await)
                    }
                },
            };
            let is_only = is_one && matches!(outcome, Outcome::Refused(_));
            if !is_only && !matches!(outcome, Outcome::Written) {
                self.stop_writing().await;
            }
            outcomes.push(outcome);
        }
        outcomes
    }

    /// Accepts what was written, returns what was not, and refuses what Kafka refuses. A lane that is not reported comes
    /// again when its lease has ended.
    async fn report(
        &mut self,
        deliveries: &[Delivery],
        outcomes: Vec<Outcome>,
        until: Instant,
    ) -> Result<(), Fault> {
        let (mut accept, mut ends) = (BTreeMap::new(), BTreeMap::new());
        let (mut fault, mut sent) = (None, 0);
        for (delivery, outcome) in deliveries.iter().zip(outcomes) {
            let lane = delivery.lane.as_str();
            match outcome {
                _ if ends.contains_key(lane) => {}
                Outcome::Written => {
                    sent += 1;
                    accept.insert(lane, json!({"token": delivery.token}));
                }
                Outcome::Refused(why) => {
                    let Settings { name, destination, .. } = &self.settings;
                    tracing::error!(sink = name, destination, delivery.sequence, why, "refused");
                    let item = json!({"token": delivery.token, "error": why, "final": true});
                    ends.insert(lane, ("refuse", item));
                }
                Outcome::Open(why) => {
                    fault = fault.or(Some(why));
                    ends.insert(lane, ("requeue", json!({"token": delivery.token})));
                }
            }
        }
        self.tell("accept", accept.into_values().collect(), until).await?;
        let of =
            |kind| ends.values().filter(move |(end, _)| *end == kind).map(|(_, item)| item.clone());
        let (refuse, requeue): (Vec<Value>, Vec<Value>) =
            (of("refuse").collect(), of("requeue").collect());
        self.count("refused", refuse.len());
        self.count("returned", requeue.len());
        self.count("sent", sent);
        self.tell("refuse", refuse, until).await?;
        self.tell("requeue", requeue, until).await?;
        fault.map_or(Ok(()), Err)
    }

    /// Tells Reseq, again and again until there is an answer or the lease ends.
    async fn tell(&self, what: &str, items: Vec<Value>, until: Instant) -> Result<(), Fault> {
        if items.is_empty() {
            return Ok(());
        }
        let (path, body) = (format!("/v1/deliveries/{what}"), json!({"items": items}));
        loop {
            let answer = timeout_at(until, self.service.call(Call::post(&path, &body))).await;
            let fault = match answer {
                // A stale lease needs nothing: its messages come again.
                Ok(Ok(_)) => return Ok(()),
                Ok(Err(error)) => refusal(&error),
                Err(_) => Fault::Later(format!("no answer to {what} before the lease ended")),
            };
            if matches!(fault, Fault::Halted(_)) || Instant::now() + AGAIN_REPORT >= until {
                return Err(fault);
            }
            sleep(AGAIN_REPORT).await;
        }
    }
}

fn refusal(error: &anyhow::Error) -> Fault {
    let text = format!("{error:#}");
    match problem_of(error) {
        Some(problem) if !problem.is_temporary() && problem.status < 500 => Fault::Halted(text),
        _ => Fault::Later(text),
    }
}

/// Whether the sink has all that it needs. Changes nothing.
pub async fn check_sink(settings: &Settings, cluster: &Cluster, service: &Service) -> Vec<Finding> {
    let Settings { destination, kafka: Target { topic }, .. } = settings;
    let kind = async {
        let answer = service.call(Call::get(&path_of(destination, ""))).await;
        let answer = answer.map_err(|error| format!("{error:#}"))?;
        match &answer["delivery"]["kind"] {
            kind if kind == "pull" => Ok(()),
            kind => Err(format!("delivery.kind is {kind}; it must be \"pull\"")),
        }
    };
    // No lease has this token: with the right to consume, it is only stale.
    let right = async {
        let items = json!({"items": [{"token": "check"}]});
        let answer = service.call(Call::post("/v1/deliveries/accept", &items)).await;
        answer.map(drop).map_err(|error| format!("{error:#}"))
    };
    let found = async {
        let kafka = cluster.connect(AGE_MAX).await.map_err(|fault| fault.to_string())?;
        let producer = kafka.producer().acks(Acks::All).max_block(ANSWER_MAX).build().await;
        let producer = producer.map_err(|error| error.to_string())?;
        producer.partitions_for(topic).await.map(drop).map_err(|error| error.to_string())
    };
    vec![
        (format!("destination {destination} at {}", service.url()), kind.await.err()),
        ("right to consume".to_owned(), right.await.err()),
        (format!("topic {topic}"), found.await.err()),
    ]
}
