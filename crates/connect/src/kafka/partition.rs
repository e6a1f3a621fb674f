//! One partition of a topic as a source.
//!
//! A position is the offset of a record, with leading zeros. The next record may have an offset that is more than one
//! higher: a compacted topic and transactions have gaps.

use std::{collections::VecDeque, convert::Infallible, sync::Arc, time::Duration};

use anyhow::ensure;
use async_trait::async_trait;
use krafka::{
    Kafka, KrafkaError,
    admin::ListConsumerGroupOffsetsOptions,
    consumer::{AutoOffsetReset, Consumer, ConsumerRecord, IsolationLevel, TopicPartition},
};
use tokio::sync::{mpsc, watch};

use super::{
    cluster::AGE_MAX,
    content::of_record,
    group::{Now, Topic, id_of},
};
use crate::source::{Event, Fault, Finding, Health, Source, Unfit};

/// The approximate number of bytes of one fetch, and its most records. A single longer record is fetched too.
const FETCH_BYTES: i32 = 1 << 20;
const FETCH_MAX: i32 = 1_000;
/// The most fetches that wait to be sent.
const WAITING_MAX: usize = 2;
/// How long one poll for records waits.
const POLL: Duration = Duration::from_secs(1);
/// The offsets of the ends of the partition are read again after this time.
const FRESH: Duration = Duration::from_secs(5);

/// A partition.
pub struct Partition {
    topic: Arc<Topic>,
    now: watch::Receiver<Now>,
    place: TopicPartition,
    /// The id of the topic of this partition.
    id: String,
    kafka: Option<Kafka>,
    reading: Option<Reading>,
}

/// A partition that is being read.
struct Reading {
    consumer: Arc<Consumer>,
    fetched: mpsc::Receiver<Result<Fetched, Fault>>,
    ready: VecDeque<ConsumerRecord>,
    /// All records up to this offset are in `ready`, or were in it.
    reached: Option<i64>,
}

/// Records, and the offset up to which they are complete.
struct Fetched {
    records: Vec<ConsumerRecord>,
    reached: i64,
}

/// The position of an offset.
fn position(offset: i64) -> String {
    match offset {
        // The position before the first record. It sorts before all digits.
        ..0 => "-1".to_owned(),
        _ => format!("{offset:019}"),
    }
}

fn offset(position: &str) -> Result<i64, Fault> {
    let offset = position.parse::<i64>().ok().filter(|offset| *offset >= -1);
    offset.ok_or_else(|| Fault::Halted(format!("the mark {position:?} is not of this source")))
}

impl Partition {
    pub fn new(topic: Arc<Topic>, number: i32) -> Partition {
        let (now, id) = (topic.now.subscribe(), String::new());
        let place = TopicPartition::new(&topic.settings.topic, number);
        Partition { topic, now, place, id, kafka: None, reading: None }
    }

    fn shown(&self) -> String {
        format!("{}/{}", self.place.topic, self.place.partition)
    }

    async fn kafka(&mut self) -> Result<&Kafka, Fault> {
        let kafka = match self.kafka.take() {
            Some(kafka) => kafka,
            None => self.topic.cluster.connect(AGE_MAX).await?,
        };
        Ok(self.kafka.insert(kafka))
    }

    /// A consumer that reads only this partition, from this offset on.
    async fn consumer(&mut self, from: i64) -> Result<Consumer, Fault> {
        let TopicPartition { topic, partition, .. } = self.place.clone();
        let builder = self.kafka().await?.consumer_without_group();
        let consumer = builder
            .auto_offset_reset(AutoOffsetReset::None)
            .isolation_level(IsolationLevel::ReadCommitted)
            .max_partition_fetch_bytes(FETCH_BYTES)
            .fetch_max_bytes(FETCH_BYTES)
            .max_poll_records(FETCH_MAX)
            .lag_staleness_threshold(FRESH)
            .build()
            .await?;
        consumer.assign(&topic, vec![partition]).await?;
        consumer.seek(&topic, partition, from).await?;
        Ok(consumer)
    }

    /// The first offset of the partition, and the offset after its last record.
    async fn ends(&mut self) -> Result<(i64, i64), Fault> {
        let place = self.place.clone();
        if let Some(reading) = &self.reading
            && let Some(known) = reading.consumer.lag().await.get(&place)
            && let (Some(first), Some(end)) = (known.log_start_offset, known.high_watermark)
            && !known.stale
        {
            return Ok((first, end));
        }
        let consumer = self.kafka().await?.consumer_without_group().build().await?;
        let ends = consumer.fetch_watermarks(&place.topic, place.partition).await;
        let _ = consumer.close().await;
        Ok(ends?)
    }

    /// The offset that the group has committed.
    async fn committed(&mut self) -> Result<Option<i64>, Fault> {
        let (place, group) = (self.place.clone(), self.topic.group());
        let options = ListConsumerGroupOffsetsOptions::default().partitions(vec![place.clone()]);
        let admin = self.kafka().await?.admin();
        let mut found = admin.list_consumer_group_offsets(group, options).await?;
        Ok(found.remove(&place).transpose()?.and_then(|found| found.offset))
    }

    /// The id of the topic. Fails if this process must not read the partition.
    fn own_id(&self) -> Result<String, Fault> {
        match &*self.now.borrow() {
            Err(fault) => Err(fault.clone()),
            Ok(known) if !known.partitions.contains(&self.place.partition) => {
                Err(Fault::Halted(format!("{} does not exist any more", self.shown())))
            }
            Ok(known) if !known.own.contains(&self.place.partition) => {
                Err(Fault::Standby(format!("the group gives {} to another process", self.shown())))
            }
            Ok(known) => Ok(known.id.clone()),
        }
    }

    /// Fails if this process must no longer read the partition, or the topic was created again.
    fn is_own(&self) -> Result<(), Fault> {
        match self.own_id()? {
            id if id == self.id => Ok(()),
            _ => {
                Err(Fault::Later(format!("topic {} was created again", self.topic.settings.topic)))
            }
        }
    }
}

#[async_trait]
impl Source for Partition {
    async fn name(&mut self) -> Result<String, Fault> {
        self.reading = None;
        // After a failure, read the files of secrets and certificates again.
        self.kafka = None;
        let id = self.own_id();
        if matches!(id, Err(Fault::Standby(_))) {
            let label = format!("{}/{}", self.topic.name, self.place.partition);
            metrics::gauge!("reseq_connect_lag", "source" => label).set(0.0);
        }
        self.id = id?;
        Ok(format!("{}/{}@{}", self.topic.name, self.place.partition, self.id))
    }

    async fn begin(&mut self, at: Option<&str>) -> Result<String, Fault> {
        let (first, end) = self.ends().await?;
        let committed = self.committed().await?;
        let (group, shown) = (self.topic.group(), self.shown());
        let next = match (at, committed) {
            (None, None) | (Some("oldest"), _) => Ok(first),
            (None, Some(committed)) => Err(format!(
                "group {group} has read {shown} up to {committed}, and the destination has no mark: its data is gone, \
                 or the group was somebody else's. Begin with --begin-at oldest, newest, committed or an offset"
            )),
            (Some("newest"), _) => Ok(end),
            (Some("committed"), committed) => {
                committed.ok_or_else(|| format!("--begin-at: group {group} has committed nothing"))
            }
            (Some(text), _) => offset(text)
                .map(|offset| offset + 1)
                .map_err(|_| format!("--begin-at: {}", unknown_begin(text))),
        };
        match next.map_err(Fault::Halted)? {
            next if (first..=end).contains(&next) => Ok(position(next - 1)),
            _ => {
                let last = end - 1;
                let text = format!("--begin-at: {shown} has the offsets {first} to {last}");
                Err(Fault::Halted(text))
            }
        }
    }

    async fn open(&mut self, after: &str) -> Result<(), Fault> {
        self.reading = None;
        let next = self.next_after(after).await?;
        let (consumer, place) = (Arc::new(self.consumer(next).await?), self.place.clone());
        let (sender, fetched) = mpsc::channel(WAITING_MAX);
        let feed = Feed { consumer: consumer.clone(), place, id: self.id.clone(), last: next - 1 };
        tokio::spawn(feed.run(sender));
        self.reading = Some(Reading { consumer, fetched, ready: VecDeque::new(), reached: None });
        Ok(())
    }

    async fn next(&mut self) -> Result<Event, Fault> {
        loop {
            let ended = || Fault::Later("the partition is not read".to_owned());
            let reading = self.reading.as_mut().ok_or_else(ended)?;
            let event = |offset, content| Event { position: position(offset), content, held: None };
            if let Some(record) = reading.ready.pop_front() {
                let offset = record.offset;
                return Ok(event(
                    offset,
                    of_record(&self.topic.settings, record).map_err(Unfit::Message).transpose(),
                ));
            }
            if let Some(reached) = reading.reached.take() {
                return Ok(event(reached, None));
            }
            self.is_own()?;
            let reading = self.reading.as_mut().ok_or_else(ended)?;
            tokio::select! {
                biased;
                _ = self.now.changed() => {}
                fetched = reading.fetched.recv() => {
                    let Fetched { records, reached } = fetched.ok_or_else(ended)??;
                    let last = records.last().map(|record| record.offset);
                    reading.reached = (last != Some(reached)).then_some(reached);
                    reading.ready = records.into();
                }
            }
        }
    }

    fn confirm(&mut self, position: &str) {
        if let Ok(offset) = offset(position) {
            self.topic.commits.lock().insert(self.place.partition, offset + 1);
        }
    }

    async fn health(&mut self, read: &str) -> Result<Health, Fault> {
        self.is_own()?;
        let (first, end) = self.ends().await?;
        let next = if read.is_empty() { first } else { offset(read)? + 1 };
        let lag = u64::try_from(end - next).unwrap_or(0);
        Ok(Health { lag, unit: "records", at: (next - 1) as f64, ..Health::default() })
    }

    async fn check(&mut self, mark: Option<&str>) -> Vec<Finding> {
        let what = format!("partition {}, group {}", self.shown(), self.topic.group());
        vec![(what, self.examine(mark).await.err())]
    }
}

impl Partition {
    /// The offset behind this position. Fails if Kafka does not have all that follows the position.
    async fn next_after(&mut self, after: &str) -> Result<i64, Fault> {
        let next = offset(after)? + 1;
        let (first, end) = self.ends().await?;
        if !(first..=end).contains(&next) {
            let (shown, last) = (self.shown(), next - 1);
            return Err(Fault::Halted(match next < first {
                true => format!(
                    "{shown} begins with {first}, and the destination has messages up to {last}: Kafka has deleted what \
                     is between. Go on with --begin-at oldest"
                ),
                false => format!(
                    "{shown} ends before {end}, and the destination has messages up to {last}: Kafka has lost records. \
                     Remove the mark, and begin with --begin-at newest"
                ),
            }));
        }
        Ok(next)
    }

    /// Makes the same requests as a run, and reads.
    async fn examine(&mut self, mark: Option<&str>) -> Result<(), Fault> {
        let next = match mark {
            Some(mark) => self.next_after(mark).await?,
            None => offset(&self.begin(None).await?)? + 1,
        };
        let consumer = self.consumer(next).await?;
        let polled = consumer.poll(Duration::from_millis(1)).await;
        let _ = consumer.close().await;
        polled?;
        Ok(())
    }
}

/// Checks the value of `--begin-at`.
pub fn check_begin(at: &str) -> anyhow::Result<()> {
    let is_known = ["oldest", "newest", "committed"].contains(&at) || offset(at).is_ok();
    ensure!(is_known, unknown_begin(at));
    Ok(())
}

fn unknown_begin(at: &str) -> String {
    format!("{at:?} is not \"oldest\", \"newest\", \"committed\" or an offset")
}

/// Fetches records ahead in a separate task, while earlier records are being sent.
struct Feed {
    consumer: Arc<Consumer>,
    place: TopicPartition,
    /// The id of the topic.
    id: String,
    /// The last offset that was read.
    last: i64,
}

impl Feed {
    /// Reads until the receiver is gone or there is an error. Sends the error to the receiver.
    async fn run(mut self, sender: mpsc::Sender<Result<Fetched, Fault>>) {
        tokio::select! {
            Err(fault) = self.read(&sender) => drop(sender.send(Err(fault)).await),
            () = sender.closed() => {}
        }
        let _ = self.consumer.close().await;
    }

    async fn read(
        &mut self,
        sender: &mpsc::Sender<Result<Fetched, Fault>>,
    ) -> Result<Infallible, Fault> {
        loop {
            let fetched = self.fetch().await?;
            if fetched.reached > self.last {
                self.last = fetched.reached;
                let _ = sender.send(Ok(fetched)).await;
            }
        }
    }

    async fn fetch(&self) -> Result<Fetched, Fault> {
        let Feed { consumer, place: TopicPartition { topic, partition, .. }, id, last } = self;
        let records = match consumer.poll(POLL).await {
            // The next pass reports which records are gone.
            Err(KrafkaError::NoOffset { .. }) => {
                return Err(Fault::Later(format!(
                    "{topic}/{partition} has no offset {}",
                    last + 1
                )));
            }
            records => records?,
        };
        // This client notices when a topic of this name was created again. The id never changes back.
        let known = consumer.fetch_metadata(None).await?;
        if let Some(found) = known.topics.iter().find(|found| found.name == *topic)
            && id_of(found) != *id
        {
            return Err(Fault::Later(format!("topic {topic} was created again")));
        }
        let next = consumer.position(topic, *partition).await.unwrap_or(last + 1);
        let mut offsets = records.iter().map(|record| record.offset);
        if next <= *last || offsets.any(|offset| offset <= *last) {
            return Err(Fault::Halted(format!(
                "Kafka has lost records of {topic}/{partition} that were read already, before {}",
                last + 1
            )));
        }
        Ok(Fetched { records, reached: next - 1 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_sort_as_offsets() {
        let offsets = [-1, 0, 9, 10, 1_200, i64::MAX];
        let positions = offsets.map(position);
        assert!(positions.is_sorted() && positions[4] == "0000000000000001200", "{positions:?}");
        assert_eq!(positions.each_ref().map(|text| offset(text).unwrap()), offsets);
        for wrong in ["", "-2", "x", "00000001-0/1-2"] {
            assert!(offset(wrong).is_err(), "{wrong}");
        }
    }
}
