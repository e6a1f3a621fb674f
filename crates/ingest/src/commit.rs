//! Group commit: arrivals that come while a call to Redis is in flight go into the next call
//! together.
//!
//! Calls for one destination run strictly one after the other, so arrivals get their sequences in the order of
//! submission. After a temporary failure, later arrivals of the same [`Session`] are refused too. Otherwise the failed
//! arrival, sent again, would end up behind them.

#[cfg(feature = "planted-bugs")]
mod fault_injection;
mod shards;
mod stamp;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{sync::oneshot, time::Instant};
use tokio_util::task::TaskTracker;

use shards::by_shard;
use stamp::{Stamping, refusal};

use super::{
    MemoryBudget, MemoryPermit, Outcome, Refusal, Watermark,
    keys::Keys,
    rates::{Left, Rates, whole_seconds},
};
use domain::{Arrival, DestinationName, TopicName};
use store::{Catalog, CatalogEntry, DueTimer, GroupCommit, Store, StoreError, Taker};

/// The most queued jobs of one destination. When the queue is full, `submit` waits.
const QUEUE_MAX: usize = 1024;

/// Shared by the arrivals of one request or connection: whether one of them has failed temporarily. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Session {
    failed: Arc<AtomicBool>,
}

impl Session {
    /// True if later arrivals would overtake an arrival that was not stored.
    pub(super) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    /// Refuses all arrivals of this session that are not part of a call yet, and all later ones.
    pub(super) fn fail(&self) {
        self.failed.store(true, Ordering::Relaxed);
    }
}

/// A copy of a message for one destination, or the reason why it is refused.
pub(super) type CopyResult = Result<Arrival, Refusal>;

/// Copies of one session for one destination, to be stamped in this order.
struct Job {
    /// The definition for which the copies were made.
    entry: Arc<CatalogEntry>,
    copies: Arc<[CopyResult]>,
    session: Session,
    reply: oneshot::Sender<Vec<Outcome>>,
    submitted: Instant,
    /// Holds the memory of the bodies.
    _permit: MemoryPermit,
}

/// Outcomes that are still to come.
pub struct Pending {
    parts: Vec<PendingPart>,
    /// How many copies were submitted.
    count: usize,
}

/// The outcomes of the copies that go to one shard.
struct PendingPart {
    reply: oneshot::Receiver<Vec<Outcome>>,
    /// The indexes of these copies; `None`: all copies.
    at: Option<Vec<usize>>,
}

impl Pending {
    /// True until the outcomes exist.
    pub fn is_waiting(&self) -> bool {
        self.parts.iter().any(|part| part.reply.is_empty())
    }

    /// One outcome for each copy, in order.
    pub async fn outcomes(self) -> Vec<Outcome> {
        let mut all = vec![Err(Refusal::Draining); self.count];
        for PendingPart { reply, at } in self.parts {
            match (reply.await, at) {
                (Ok(outcomes), None) => return outcomes,
                (Ok(outcomes), Some(at)) => {
                    at.into_iter().zip(outcomes).for_each(|(at, outcome)| all[at] = outcome);
                }
                (Err(_), _) => {}
            }
        }
        all
    }
}

/// Stamps arrivals. Cheap to clone.
#[derive(Clone)]
pub struct Committer {
    catalog: Catalog,
    jobs: GroupCommit<Job>,
    memory: MemoryBudget,
    keys: Keys,
    /// The rates of destinations.
    rates: Rates,
}

impl Committer {
    /// A committer that runs its work on the tracker. The work completes even after the committer is dropped. The first
    /// of the `takers` with room gets messages that can be processed at once. Expressions run in at most
    /// `processes_max` processes.
    pub fn new(
        store: Store,
        catalog: Catalog,
        config: &config::Ingest,
        body_bytes_max: usize,
        watermark: Watermark,
        (due, takers, tracker): (DueTimer, Vec<Arc<dyn Taker>>, TaskTracker),
        processes_max: usize,
    ) -> Committer {
        let memory = MemoryBudget::new(config.bytes_in_flight_max);
        let stamping = Arc::new(Stamping {
            store,
            catalog: catalog.clone(),
            watermark,
            due,
            takers,
            memory: memory.clone(),
            batch_max: config.batch_max,
            retry: Duration::from_millis(config.retry_ms),
        });
        let jobs = GroupCommit::new(QUEUE_MAX, config.batch_max, tracker, move |_, jobs| {
            Box::pin(stamping.clone().run(jobs))
        });
        let keys = Keys::new(body_bytes_max, processes_max);
        Committer { catalog, jobs, memory, keys, rates: Rates::default() }
    }

    /// How much of the rate of a destination is left; `None` without a limit.
    pub(super) fn rate_left(&self, destination: &DestinationName) -> Option<Left> {
        let rate = self.catalog.get(destination.as_str())?.destination.ingest_rate_per_second_max;
        self.rates.left(destination.as_str(), rate, Instant::now())
    }

    /// Takes copies from the rate of their destination, unless the session has failed.
    fn check_rate(
        &self,
        entry: &CatalogEntry,
        copies: &[CopyResult],
        session: &Session,
    ) -> Result<(), Refusal> {
        let rate = entry.destination.ingest_rate_per_second_max;
        if rate == 0 || session.has_failed() {
            return Ok(());
        }
        let (name, count) = (entry.destination.name.as_str(), copies.iter().flatten().count());
        self.rates.take(name, rate, count, Instant::now()).map_err(|wait| {
            let refusal = Refusal::RateLimited(whole_seconds(wait));
            (0..count).for_each(|_| telemetry::refused(name, refusal.code().as_str()));
            refusal
        })
    }

    /// Finds the keys of messages to submit.
    pub(super) fn keys(&self) -> &Keys {
        &self.keys
    }

    /// The memory budget for bodies to submit.
    pub fn memory(&self) -> &MemoryBudget {
        &self.memory
    }

    /// The destinations to which this topic now distributes messages.
    pub async fn destinations_of(
        &self,
        topic: &TopicName,
    ) -> Result<Arc<[DestinationName]>, Refusal> {
        match self.catalog.find_topic(topic).await {
            Ok(Some(entry)) => Ok(entry.topic.destinations.as_slice().into()),
            Ok(None) => Err(Refusal::UnknownTopic(topic.to_string())),
            Err(error) => Err(refusal_of_lookup(&error)),
        }
    }

    /// The definition of a destination.
    pub(super) async fn find(
        &self,
        destination: &DestinationName,
    ) -> Result<Arc<CatalogEntry>, Refusal> {
        if destination.shard() > 0 {
            let base = destination.base();
            return Err(Refusal::invalid_field(format!(
                "destination: {destination} is a shard; send to {base}, which finds the shard of each message"
            )));
        }
        self.find_shard(destination).await
    }

    /// The definition of a destination, or of a shard of one.
    async fn find_shard(&self, name: &DestinationName) -> Result<Arc<CatalogEntry>, Refusal> {
        match self.catalog.find(name).await {
            Ok(Some(entry)) => Ok(entry),
            // Another process is about to define the shard.
            Ok(None) if name.shard() > 0 => Err(Refusal::RedisUnavailable),
            Ok(None) => Err(Refusal::UnknownDestination(name.to_string())),
            Err(error) => Err(refusal_of_lookup(&error)),
        }
    }

    /// Queues copies for the destination of this definition. Sequences follow the order of these calls. The permit is
    /// released once the outcomes exist.
    pub(super) async fn submit(
        &self,
        entry: &Result<Arc<CatalogEntry>, Refusal>,
        copies: impl Into<Arc<[CopyResult]>>,
        session: &Session,
        permit: MemoryPermit,
    ) -> Pending {
        let copies = copies.into();
        let count = copies.len();
        let admitted = entry.as_ref().map_err(Refusal::clone);
        let admitted = admitted
            .and_then(|entry| self.check_rate(entry, &copies, session).map(|()| entry.clone()));
        let mut parts = Vec::with_capacity(1);
        match &admitted {
            Ok(entry) if entry.destination.shards > 1 => {
                for (name, part) in by_shard(&entry.destination, &copies) {
                    let shard = self.find_shard(&name).await;
                    let reply =
                        self.queue(shard, part.copies.into(), session, permit.clone()).await;
                    parts.push(PendingPart { reply, at: Some(part.at) });
                }
            }
            _ => {
                let reply = self.queue(admitted, copies, session, permit).await;
                parts.push(PendingPart { reply, at: None });
            }
        }
        Pending { parts, count }
    }

    /// Queues copies that were admitted, or refuses them.
    async fn queue(
        &self,
        admitted: Result<Arc<CatalogEntry>, Refusal>,
        copies: Arc<[CopyResult]>,
        session: &Session,
        permit: MemoryPermit,
    ) -> oneshot::Receiver<Vec<Outcome>> {
        let (reply, pending) = oneshot::channel();
        match admitted {
            Ok(entry) => {
                let (session, submitted) = (session.clone(), Instant::now());
                let name = entry.destination.name.clone();
                let job = Job { entry, copies, session, reply, submitted, _permit: permit };
                self.jobs.submit(&name, job).await;
            }
            Err(refusal) => {
                if refusal.is_temporary() {
                    session.fail();
                }
                let outcome =
                    |copy: &CopyResult| Err(copy.as_ref().err().unwrap_or(&refusal).clone());
                let _ = reply.send(copies.iter().map(outcome).collect());
            }
        }
        pending
    }
}

/// Converts an error while reading a definition. No message was sent to Redis, so none is stored.
fn refusal_of_lookup(error: &StoreError) -> Refusal {
    match error {
        StoreError::NoRights(_) | StoreError::NoSecretsKey(_) | StoreError::RefusesWrites(_) => {
            refusal(error)
        }
        _ => Refusal::RedisUnavailable,
    }
}
