//! A topic: its partitions, and the partitions that this process reads as a member of a consumer group.
//!
//! The group only divides the partitions among its members. The marks say where to continue. A member itself reads no
//! records: for each partition that it has, a [`Partition`] reads them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use krafka::{
    Kafka, KrafkaError, TopicInfo,
    consumer::{
        AutoOffsetReset, Consumer, OffsetAndMetadata, PartitionAssignmentStrategy, TopicPartition,
    },
};
use metrics::gauge;
use parking_lot::Mutex;
use tokio::{sync::watch, time::sleep};

use super::{Cluster, Settings, partition::Partition};
use crate::{
    run::{Launch, Shared},
    settings::Sources,
    source::{Fault, Source},
};

/// How long one poll of the group takes.
const LOOK: Duration = Duration::from_millis(500);
/// The time between two reads of the topic's partitions.
const TOPIC_EVERY: Duration = Duration::from_secs(2);
const CLOSE_MAX: Duration = Duration::from_secs(5);
/// The most partitions of a topic, because a destination keeps 1,024 marks.
const PARTITIONS_MAX: usize = 1_024;

/// A topic of a source.
pub struct Topic {
    /// The name of the source.
    pub name: String,
    pub settings: Settings,
    pub cluster: Cluster,
    pub now: watch::Sender<Now>,
    /// The offsets to commit, for programs that monitor the lag.
    pub commits: Mutex<BTreeMap<i32, i64>>,
}

/// The current state of the topic, or the reason why it is unknown.
pub type Now = Result<Known, Fault>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// The id of the topic. Another id means that the topic was removed and created again.
    pub id: String,
    pub partitions: BTreeSet<i32>,
    /// The partitions that this process has to read.
    pub own: BTreeSet<i32>,
}

impl Topic {
    pub fn new(name: &str, settings: &Settings, cluster: &Cluster) -> Arc<Topic> {
        Arc::new(Topic {
            name: name.to_owned(),
            settings: settings.clone(),
            cluster: cluster.clone(),
            now: watch::Sender::new(Err(Fault::Later("the group has not answered yet".to_owned()))),
            commits: Mutex::default(),
        })
    }

    pub fn group(&self) -> String {
        self.settings.group.clone().unwrap_or_else(|| format!("reseq-{}", self.name))
    }

    /// All partitions as sources, for queries only. Does not join the group.
    pub async fn sources(self: Arc<Topic>) -> Result<Sources, Fault> {
        let kafka = self.cluster.connect(TOPIC_EVERY).await?;
        let consumer = kafka.consumer_without_group().build().await?;
        let known = self.look(&consumer, None).await?;
        let _ = self.now.send_replace(Ok(known.clone()));
        Ok(known.partitions.into_iter().map(|number| self.source(number)).collect())
    }

    fn source(self: &Arc<Topic>, number: i32) -> (String, Box<dyn Source>) {
        let label = format!("{}/{number}", self.name);
        (label, Box::new(Partition::new(self.clone(), number)))
    }

    /// Follows the group until the process stops. Starts each partition once.
    pub async fn run(self: Arc<Topic>, mut launch: Launch) {
        let mut started = BTreeSet::new();
        while let Err(fault) = self.follow(&mut launch, &mut started).await {
            let _ = self.now.send_replace(Err(fault.clone()));
            let wait = fault.wait();
            launch.shared.board.set(&self.name, Err(fault));
            launch.shared.pause(wait).await;
            if launch.shared.shutdown.is_cancelled() {
                return;
            }
        }
    }

    /// Joins the group, and follows it until the process stops or a fault ends the membership.
    async fn follow(
        self: &Arc<Topic>,
        launch: &mut Launch,
        started: &mut BTreeSet<i32>,
    ) -> Result<(), Fault> {
        let kafka = self.cluster.connect(TOPIC_EVERY).await?;
        let consumer = self.member(&kafka).await?;
        let Shared { board, shutdown, .. } = launch.shared.clone();
        let ended = loop {
            if shutdown.is_cancelled() {
                break Ok(());
            }
            let known = match self.turn(&consumer).await {
                Ok(known) => known,
                // The process stays a member. It continues when the brokers answer again.
                Err(Fault::Later(why)) => {
                    board.set(&self.name, Err(Fault::Later(why)));
                    sleep(LOOK).await;
                    continue;
                }
                Err(fault) => break Err(fault),
            };
            let now = self.now.send_replace(Ok(known.clone()));
            if now.is_ok_and(|before| before.partitions != known.partitions) {
                // The leader of the group, in this client, does not notice new partitions. Joining again divides them.
                break Err(Fault::Later("the topic has other partitions than before".to_owned()));
            }
            for number in known.partitions {
                if started.insert(number) {
                    let (label, source) = self.source(number);
                    launch.start(label, source);
                }
            }
            // `--begin-at` does not apply to partitions that are added later.
            launch.begins = Arc::default();
            board.set(&self.name, Ok(()));
        };
        // Leave the group, so that other members get these partitions at once.
        let _ = tokio::time::timeout(CLOSE_MAX, consumer.close()).await;
        ended
    }

    async fn member(&self, kafka: &Kafka) -> krafka::Result<Consumer> {
        let session = Duration::from_millis(self.settings.session_timeout_ms);
        let consumer = kafka
            .consumer(self.group())
            .enable_auto_commit(false)
            // The member itself reads no records.
            .auto_offset_reset(AutoOffsetReset::Latest)
            .max_partition_fetch_bytes(1)
            .session_timeout(session)
            .heartbeat_interval(session / 4)
            .partition_assignment_strategy(PartitionAssignmentStrategy::CooperativeSticky)
            .build()
            .await?;
        consumer.subscribe([&self.settings.topic]).await?;
        Ok(consumer)
    }

    /// Polls the group, reads the state of the topic, and commits offsets.
    async fn turn(&self, consumer: &Consumer) -> Result<Known, Fault> {
        let topic = &self.settings.topic;
        match consumer.poll(LOOK).await {
            Ok(_) | Err(KrafkaError::NoOffset { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        let member = consumer.group_metadata().await;
        if member.is_none_or(|member| member.generation_id() < 0) {
            return Err(Fault::Later(format!("joining the group {}", self.group())));
        }
        let own: Vec<i32> = consumer.assignment().await.remove(topic).unwrap_or_default();
        consumer.pause(topic, &own).await;
        let own: BTreeSet<i32> = own.into_iter().collect();
        gauge!("reseq_connect_partitions", "source" => self.name.clone()).set(own.len() as f64);
        let known = self.look(consumer, Some(own)).await?;
        let mut commits = std::mem::take(&mut *self.commits.lock());
        commits.retain(|number, _| known.own.contains(number));
        let offsets = commits.iter().map(|(number, offset)| {
            (TopicPartition::new(topic, *number), OffsetAndMetadata::new(*offset))
        });
        if !commits.is_empty()
            && let Err(error) = consumer.commit_offsets(offsets).await
        {
            // Only programs that monitor the lag read the offsets, and newer commits follow.
            tracing::debug!(source = self.name, %error, "not committed");
        }
        Ok(known)
    }

    /// Reads the state of the topic. `own`: the partitions that this process has to read; `None`: all.
    async fn look(&self, consumer: &Consumer, own: Option<BTreeSet<i32>>) -> Now {
        let topic = &self.settings.topic;
        let found = consumer.fetch_metadata(Some(topic)).await?.topics.pop();
        let found = found.ok_or_else(|| KrafkaError::unknown_topic(topic))?;
        let count = found.partitions.len();
        if count > PARTITIONS_MAX {
            let text = format!("topic {topic} has {count} partitions; at most {PARTITIONS_MAX}");
            return Err(Fault::Halted(text));
        }
        let partitions: BTreeSet<i32> = found.partitions.keys().copied().collect();
        let own = own.unwrap_or_else(|| partitions.clone());
        Ok(Known { id: id_of(&found), partitions, own })
    }
}

/// The id of a topic, as hexadecimal digits.
pub fn id_of(topic: &TopicInfo) -> String {
    format!("{:032x}", u128::from_be_bytes(topic.topic_id))
}
