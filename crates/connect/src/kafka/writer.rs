//! Writes records in order: if one is not written, nothing that follows it is.

use std::{
    collections::{BTreeSet, VecDeque},
    time::Duration,
};

use krafka::{
    CloseOptions, KrafkaError, Record,
    producer::{Acks, Producer},
};
use tokio::time::{Instant, timeout_at};

use super::{
    Cluster,
    cluster::AGE_MAX,
    delivery::{Delivery, Outcome},
};
use crate::source::Fault;

/// Kafka gets batches up to this length. A message of more than half of it goes alone: if Kafka refuses it, nothing has
/// passed it.
const BATCH_BYTES: usize = 64 << 10;
/// So many messages go alone after one in a batch was refused, to find it.
const ALONE: usize = 2_000;
/// How long to wait for what a topic is.
const ANSWER_MAX: Duration = Duration::from_secs(10);

pub struct Writer {
    cluster: Cluster,
    topic: String,
    /// A partition gets one batch at a time from it.
    producer: Option<Producer>,
    alone: usize,
}

impl Writer {
    pub fn new(cluster: &Cluster, topic: &str) -> Writer {
        Writer { cluster: cluster.clone(), topic: topic.to_owned(), producer: None, alone: 0 }
    }

    /// Fails if there is no topic, or nobody answers.
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
        producer.partitions_for(&self.topic).await?;
        // Otherwise the next one is made with the secrets and certificates of then.
        self.producer = Some(producer);
        Ok(())
    }

    /// Nothing that was handed over is written from now on, except what is on its way.
    pub async fn stop(&mut self) {
        if let Some(producer) = self.producer.take() {
            let _ = producer.close_with(CloseOptions::new().timeout(Duration::ZERO)).await;
        }
    }

    /// Writes until the deadline, or until something is not written.
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

    /// Writes these right after one another.
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
                        // All at once, and not one after the other: a later one must not be written without it.
                        self.stop().await;
                        Outcome::of(handle.await)
                    }
                },
            };
            let outcome = match outcome {
                // Perhaps another one in its batch was meant.
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

/// True if it goes alone.
fn is_long(record: &Result<Record, String>) -> bool {
    record.as_ref().map_or(true, |record| record.estimated_size() > BATCH_BYTES / 2)
}
