//! Writes records in order: if one record is not written, none of the records behind it is.

use std::{
    collections::{BTreeSet, VecDeque},
    time::Duration,
};

use krafka::{
    CloseOptions, KrafkaError, Record,
    error::ErrorCode,
    producer::{Acks, Producer},
};
use tokio::time::{Instant, timeout_at};

use super::{
    Cluster,
    cluster::AGE_MAX,
    delivery::{Delivery, Outcome},
};
use crate::source::Fault;

/// The longest batch for Kafka, in bytes. A message of more than half of it is sent alone: if Kafka refuses it, no
/// later message has been written.
const BATCH_BYTES: usize = 64 << 10;
/// After a batch was refused, this many messages are sent alone, to find the one that Kafka refuses.
const ALONE: usize = 2_000;
/// How long to wait for the metadata of a topic.
const ANSWER_MAX: Duration = Duration::from_secs(10);

pub struct Writer {
    cluster: Cluster,
    topic: String,
    /// The producer. It has one batch at a time in flight for each partition.
    producer: Option<Producer>,
    alone: usize,
}

impl Writer {
    pub fn new(cluster: &Cluster, topic: &str) -> Writer {
        Writer { cluster: cluster.clone(), topic: topic.to_owned(), producer: None, alone: 0 }
    }

    /// Fails if there is no topic, or if the brokers do not answer.
    pub async fn ready(&mut self) -> Result<(), Fault> {
        let producer = match self.producer.take() {
            Some(producer) => producer,
            None => {
                let builder = self.cluster.connect(AGE_MAX).await?.producer().acks(Acks::All);
                let builder =
                    builder.idempotent(true).batch_size(BATCH_BYTES).max_block(ANSWER_MAX);
                builder.build().await?
            }
        };
        producer.partitions_for(&self.topic).await.map_err(|error| match error {
            KrafkaError::Broker { code: ErrorCode::UnknownTopicOrPartition, .. } => {
                KrafkaError::unknown_topic(&self.topic)
            }
            error => error,
        })?;
        // Keep the producer only if the topic is there. Otherwise the next call creates one, with the current secrets
        // and certificates.
        self.producer = Some(producer);
        Ok(())
    }

    /// Closes the producer. From now on, only records that are already in flight may be written.
    pub async fn stop(&mut self) {
        if let Some(producer) = self.producer.take() {
            let _ = producer.close_with(CloseOptions::new().timeout(Duration::ZERO)).await;
        }
    }

    /// Writes until the deadline, or until a record is not written.
    pub async fn write(&mut self, deliveries: &[Delivery], deadline: Instant) -> Vec<Outcome> {
        let behind = |_| Outcome::Open(Fault::Later("it is behind another one".to_owned()));
        let mut outcomes: Vec<Outcome> = deliveries.iter().map(behind).collect();
        let records = deliveries.iter().map(|delivery| delivery.record(&self.topic));
        let mut rest: VecDeque<_> = records.enumerate().collect();
        let (mut refused, mut is_good) = (BTreeSet::new(), true);
        while is_good && let Some(first) = rest.pop_front() {
            let mut group = vec![first];
            if self.alone == 0 && !is_long(&group[0].1) {
                let count = rest.iter().take_while(|(_, record)| !is_long(record)).count();
                group.extend(rest.drain(..count));
            }
            group.retain(|(index, _)| !refused.contains(&deliveries[*index].lane));
            let (indexes, records): (Vec<usize>, Vec<_>) = group.into_iter().unzip();
            self.alone = self.alone.saturating_sub(records.len());
            let group = self.together(records, deadline).await;
            for (index, outcome) in indexes.into_iter().zip(group) {
                match &outcome {
                    Outcome::Written => {}
                    Outcome::Refused(_) => drop(refused.insert(&deliveries[index].lane)),
                    Outcome::Open(_) => is_good = false,
                }
                outcomes[index] = outcome;
            }
        }
        outcomes
    }

    /// Sends these records without waiting in between.
    async fn together(
        &mut self,
        records: Vec<Result<Record, String>>,
        deadline: Instant,
    ) -> Vec<Outcome> {
        let (mut handles, is_one) = (Vec::with_capacity(records.len()), records.len() == 1);
        for record in records {
            let queued = match (record, &self.producer) {
                (Err(why), _) => Err(Outcome::Refused(why)),
                (_, None) => Err(Outcome::Open(Fault::Later("the producer is closed".to_owned()))),
                (Ok(record), Some(producer)) => {
                    let queued = timeout_at(deadline, producer.enqueue(record)).await;
                    let late = |_| Err(KrafkaError::timeout("the lease ends"));
                    queued.unwrap_or_else(late).map_err(|error| Outcome::of::<()>(Err(error)))
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
                    Ok(result) => Outcome::of(result),
                    Err(_) => {
                        // Close the producer, which ends all records at once: a later record must not be written
                        // without this one.
                        self.stop().await;
                        Outcome::of(handle.await)
                    }
                },
            };
            let outcome = match outcome {
                // Another record of the batch may be the cause.
                Outcome::Refused(why) if !is_one => {
                    self.alone = ALONE;
                    Outcome::Open(Fault::Later(why))
                }
                outcome => outcome,
            };
            if matches!(outcome, Outcome::Open(_)) {
                self.stop().await;
            }
            outcomes.push(outcome);
        }
        outcomes
    }
}

/// True if this record is sent alone.
fn is_long(record: &Result<Record, String>) -> bool {
    record.as_ref().map_or(true, |record| record.estimated_size() > BATCH_BYTES / 2)
}
