//! A topic: which partitions it has, and which of them this process reads, as a member of a consumer group.
//!
//! The group shares out the partitions, and has nothing else to say: where to go on, the marks say. A member reads
//! nothing by itself. Each partition that it has is read by a [`Partition`].

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

use super::{Cluster, Settings, cluster::fault_of, partition::Partition};
use crate::{
    board::State,
    run::Launch,
    source::{Fault, Source},
};

/// How long one look at the group takes.
const LOOK: Duration = Duration::from_millis(500);
/// How often to ask which partitions the topic has.
const TOPIC_EVERY: Duration = Duration::from_secs(2);
const AGAIN: Duration = Duration::from_secs(1);
const CLOSE_MAX: Duration = Duration::from_secs(5);
/// The most partitions of a topic: a destination has 1,024 marks.
const PARTITIONS_MAX: usize = 1_024;

/// A topic of a source.
pub struct Topic {
    /// The name of the source.
    pub name: String,
    pub settings: Settings,
    pub cluster: Cluster,
    pub now: watch::Sender<Now>,
    /// The offsets to commit, for monitors of the lag.
    pub commits: Mutex<BTreeMap<i32, i64>>,
}

/// How it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Now {
    /// Not known yet, or it cannot be asked.
    Unknown(String),
    Known {
        /// Another one means that it was removed and created again.
        id: String,
        partitions: BTreeSet<i32>,
        /// Those that this process has to read.
        own: BTreeSet<i32>,
    },
    /// It does not exist.
    Missing,
}

impl Topic {
    pub fn new(name: &str, settings: &Settings, cluster: &Cluster) -> Arc<Topic> {
        Arc::new(Topic {
            name: name.to_owned(),
            settings: settings.clone(),
            cluster: cluster.clone(),
            now: watch::Sender::new(Now::Unknown("the group has not answered yet".to_owned())),
            commits: Mutex::default(),
        })
    }

    pub fn group(&self) -> String {
        self.settings.group.clone().unwrap_or_else(|| format!("reseq-{}", self.name))
    }

    /// All partitions, as sources that are asked only. No member of the group.
    pub async fn sources(self: Arc<Topic>) -> Result<Vec<(String, Box<dyn Source>)>, Fault> {
        let kafka = self.cluster.connect(TOPIC_EVERY).await?;
        let consumer = kafka.consumer_without_group().build().await;
        let consumer = consumer.map_err(|error| fault_of(&error))?;
        let found = self.look(&consumer, BTreeSet::new()).await?;
        let Now::Known { id, partitions, .. } = found else {
            return Err(Fault::Halted(self.missing()));
        };
        let own = partitions.clone();
        self.now.send_replace(Now::Known { id, partitions: partitions.clone(), own });
        Ok(partitions.into_iter().map(|number| self.source(number)).collect())
    }

    pub fn missing(&self) -> String {
        format!("topic {} does not exist", self.settings.topic)
    }

    fn source(self: &Arc<Topic>, number: i32) -> (String, Box<dyn Source>) {
        let label = format!("{}/{number}", self.name);
        (label, Box::new(Partition::new(self.clone(), number)))
    }

    /// Follows the group until the process stops. Starts each partition, once.
    pub async fn run(self: Arc<Topic>, mut launch: Launch) {
        let mut started = BTreeSet::new();
        while let Err(fault) = self.follow(&mut launch, &mut started).await {
            self.now.send_if_modified(|now| {
                let is_missing = *now == Now::Missing;
                if !is_missing {
                    *now = Now::Unknown(fault.to_string());
                }
                !is_missing
            });
            self.shows(&launch, Some(fault));
            tokio::select! {
                () = sleep(AGAIN) => {}
                () = launch.shutdown.cancelled() => return,
            }
        }
    }

    fn shows(&self, launch: &Launch, fault: Option<Fault>) {
        let state = match fault {
            None => State::Running,
            Some(Fault::Halted(why)) => State::Halted(why),
            Some(fault) => State::Waiting(fault.to_string()),
        };
        launch.board.set(&self.name, state);
    }

    /// As a member of the group, until the process stops or something has to be done.
    async fn follow(
        self: &Arc<Topic>,
        launch: &mut Launch,
        started: &mut BTreeSet<i32>,
    ) -> Result<(), Fault> {
        let kafka = self.cluster.connect(TOPIC_EVERY).await?;
        let consumer = self.member(&kafka).await.map_err(|error| match error {
            KrafkaError::UnknownTopic { .. } => {
                self.now.send_replace(Now::Missing);
                Fault::Halted(self.missing())
            }
            error => fault_of(&error),
        })?;
        let ended = loop {
            if launch.shutdown.is_cancelled() {
                break Ok(());
            }
            match self.turn(&consumer).await {
                Ok(()) => {}
                // The member stays one. If the brokers answer again, it goes on.
                Err(Fault::Later(why)) => {
                    self.shows(launch, Some(Fault::Later(why)));
                    sleep(LOOK).await;
                    continue;
                }
                Err(fault) => break Err(fault),
            }
            let Now::Known { partitions, .. } = self.now.borrow().clone() else { continue };
            for number in partitions {
                if started.insert(number) {
                    let (label, source) = self.source(number);
                    launch.start(label, source);
                }
            }
            // It is not meant for partitions that are added later.
            launch.begins = Arc::default();
            self.shows(launch, None);
        };
        // The others get its partitions at once.
        let _ = tokio::time::timeout(CLOSE_MAX, consumer.close()).await;
        ended
    }

    async fn member(&self, kafka: &Kafka) -> krafka::Result<Consumer> {
        let session = Duration::from_millis(self.settings.session_timeout_ms);
        let consumer = kafka
            .consumer(self.group())
            .enable_auto_commit(false)
            // A member reads nothing.
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

    /// Looks at the group and at the topic. Commits.
    async fn turn(&self, consumer: &Consumer) -> Result<(), Fault> {
        let topic = &self.settings.topic;
        match consumer.poll(LOOK).await {
            Ok(_) | Err(KrafkaError::NoOffset { .. }) => {}
            Err(error) => return Err(fault_of(&error)),
        }
        let member = consumer.group_metadata().await;
        if member.is_none_or(|member| member.generation_id() < 0) {
            return Err(Fault::Later(format!("joining the group {}", self.group())));
        }
        let own: Vec<i32> = consumer.assignment().await.remove(topic).unwrap_or_default();
        consumer.pause(topic, &own).await;
        let own: BTreeSet<i32> = own.into_iter().collect();
        gauge!("reseq_connect_partitions", "source" => self.name.clone()).set(own.len() as f64);
        let now = self.look(consumer, own.clone()).await?;
        if let (Now::Known { partitions: before, .. }, Now::Known { partitions, .. }) =
            (&*self.now.borrow(), &now)
            && before != partitions
        {
            // The client's leader of a group does not look for new partitions. To join again shares them out.
            return Err(Fault::Standby("the topic has other partitions than before".to_owned()));
        }
        let is_missing = now == Now::Missing;
        self.now.send_if_modified(|before| std::mem::replace(before, now.clone()) != now);
        if is_missing {
            return Err(Fault::Halted(self.missing()));
        }
        let mut commits = std::mem::take(&mut *self.commits.lock());
        commits.retain(|number, _| own.contains(number));
        let offsets = commits.iter().map(|(number, offset)| {
            (TopicPartition::new(topic, *number), OffsetAndMetadata::new(*offset))
        });
        if !commits.is_empty()
            && let Err(error) = consumer.commit_offsets(offsets).await
        {
            // Only monitors of the lag read them, and the next ones are newer.
            tracing::debug!(source = self.name, %error, "not committed");
        }
        Ok(())
    }

    /// How the topic is.
    async fn look(&self, consumer: &Consumer, own: BTreeSet<i32>) -> Result<Now, Fault> {
        let topic = &self.settings.topic;
        let found = match consumer.fetch_metadata(Some(topic)).await {
            Err(KrafkaError::UnknownTopic { .. }) => return Ok(Now::Missing),
            found => found.map_err(|error| fault_of(&error))?.topics.pop(),
        };
        let Some(found) = found else { return Ok(Now::Missing) };
        let count = found.partitions.len();
        if count > PARTITIONS_MAX {
            let text = format!("topic {topic} has {count} partitions; at most {PARTITIONS_MAX}");
            return Err(Fault::Halted(text));
        }
        let partitions = found.partitions.keys().copied().collect();
        Ok(Now::Known { id: id_of(&found), partitions, own })
    }
}

/// The id of a topic, as hexadecimal digits.
pub fn id_of(topic: &TopicInfo) -> String {
    topic.topic_id.iter().map(|byte| format!("{byte:02x}")).collect()
}
