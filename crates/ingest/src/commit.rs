//! Group commit: arrivals that come while a call to Redis is in flight go into the next call
//! together.
//!
//! Calls for one destination run strictly one after the other, so arrivals get their sequences in
//! the order of submission. After a temporary failure, later arrivals of the same [`Session`] are
//! refused too: otherwise the failed one, sent again, would end up behind them.

#[cfg(feature = "planted-bugs")]
mod fault_injection;
mod task;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{sync::oneshot, time::Instant};
use tokio_util::task::TaskTracker;

use task::{CommitTask, refusal};

use super::{
    MemoryBudget, MemoryPermit, Outcome, Refusal, Watermark,
    keys::Keys,
    rates::{Left, Rates, whole_seconds},
};
use domain::{Arrival, DestinationName, TopicName};
use faults::planted;
use store::{Catalog, CatalogEntry, DueTimer, GroupCommit, Store, StoreError};

/// The most queued jobs of one destination. When the queue is full, `submit` waits.
const QUEUE_MAX: usize = 1024;

/// Shared by the arrivals of one request or one connection: whether one of them has failed
/// temporarily. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Session {
    failed: Arc<AtomicBool>,
}

impl Session {
    /// True if later arrivals would overtake one that was not stored.
    pub(super) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed) && !planted::is("failed_session_goes_on")
    }

    /// Refuses all arrivals of this session that are not in a call yet, and all later ones.
    pub(super) fn fail(&self) {
        self.failed.store(true, Ordering::Relaxed);
    }
}

/// Arrivals of one session for one destination, to be stamped in this order.
struct Job {
    arrivals: Arc<[Arrival]>,
    session: Session,
    reply: oneshot::Sender<Vec<Outcome>>,
    submitted: Instant,
    /// Accounts for the memory of the bodies.
    _permit: MemoryPermit,
}

/// Outcomes that are still to come.
pub struct Pending {
    reply: oneshot::Receiver<Vec<Outcome>>,
    /// How many arrivals were submitted.
    count: usize,
    /// The refusals of the copies that were not submitted, if there are any.
    refused: Option<Refused>,
}

/// The refusals of copies that were not submitted.
struct Refused {
    /// One entry for each copy, in order; `None` for those that were submitted.
    refusals: Vec<Option<Refusal>>,
    session: Session,
}

impl Pending {
    /// For arrivals that cannot be submitted.
    fn refused(refusal: Refusal, count: usize, session: &Session) -> Pending {
        if refusal.is_temporary() {
            session.fail();
        }
        let (reply, pending) = oneshot::channel();
        let _ = reply.send(vec![Err(refusal); count]);
        Pending { reply: pending, count, refused: None }
    }

    /// True until the outcomes exist.
    pub fn is_waiting(&self) -> bool {
        self.reply.is_empty()
    }

    /// One outcome for each arrival, in order.
    pub async fn outcomes(self) -> Vec<Outcome> {
        let draining = || vec![Err(Refusal::Draining); self.count];
        let outcomes = self.reply.await.unwrap_or_else(|_| draining());
        match self.refused {
            None => outcomes,
            Some(refused) => refused.among(outcomes),
        }
    }
}

impl Refused {
    /// The outcomes of all copies, given those of the submitted ones.
    fn among(self, outcomes: Vec<Outcome>) -> Vec<Outcome> {
        // Not before the outcomes exist: submitted copies before the first refusal may be stored.
        if self.refusals.iter().flatten().any(Refusal::is_temporary) {
            self.session.fail();
        }
        let mut outcomes = outcomes.into_iter();
        let outcome = |refusal| match refusal {
            Some(refusal) => Err(refusal),
            None => outcomes.next().unwrap_or(Err(Refusal::Draining)),
        };
        self.refusals.into_iter().map(outcome).collect()
    }
}

/// Stamps arrivals. Cheap to clone.
#[derive(Clone)]
pub struct Committer {
    catalog: Catalog,
    jobs: Arc<GroupCommit<Job>>,
    memory: MemoryBudget,
    keys: Keys,
    /// Of destinations.
    rates: Rates,
}

impl Committer {
    /// A committer whose work runs on the tracker. The work completes even after this is dropped. Expressions run in
    /// at most `processes_max` processes.
    pub fn new(
        store: Store,
        catalog: Catalog,
        config: &config::Ingest,
        body_bytes_max: usize,
        watermark: Watermark,
        (due, tracker): (DueTimer, TaskTracker),
        processes_max: usize,
    ) -> Committer {
        let (batch_max, retry) = (config.batch_max, Duration::from_millis(config.retry_ms));
        let memory = MemoryBudget::new(config.bytes_in_flight_max);
        let of_task = (store, catalog.clone(), watermark, due, memory.clone());
        let jobs = GroupCommit::new(catalog.clone(), QUEUE_MAX, tracker, move |name, queue| {
            let (store, catalog, watermark, due, memory) = of_task.clone();
            let call_sequence = store.new_call_sequence(&format!("ingest:{name}"));
            let task = CommitTask {
                store,
                catalog,
                watermark,
                due,
                memory,
                name,
                call_sequence,
                batch_max,
                retry,
                epoch: 0,
            };
            Box::pin(task.run(queue))
        });
        Committer {
            catalog,
            jobs: Arc::new(jobs),
            memory,
            keys: Keys::new(body_bytes_max, processes_max),
            rates: Rates::default(),
        }
    }

    /// What is left of the rate of a destination; `None` without a limit.
    pub(super) fn rate_left(&self, destination: &DestinationName) -> Option<Left> {
        let rate = self.catalog.get(destination.as_str())?.destination.ingest_rate_per_second_max;
        self.rates.left(destination.as_str(), rate, Instant::now())
    }

    /// Takes arrivals from the rate of their destination, unless they are aborted anyway.
    fn refused_by_rate(
        &self,
        entry: &CatalogEntry,
        count: usize,
        session: &Session,
    ) -> Option<Refusal> {
        let rate = entry.destination.ingest_rate_per_second_max;
        if rate == 0 || session.has_failed() {
            return None;
        }
        let name = entry.destination.name.as_str();
        let wait = self.rates.take(name, rate, count, Instant::now()).err()?;
        let refusal = Refusal::RateLimited(whole_seconds(wait));
        (0..count).for_each(|_| telemetry::refused(name, refusal.code().as_str()));
        Some(refusal)
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
    ) -> Result<Vec<DestinationName>, Refusal> {
        match self.catalog.find_topic(topic).await {
            Ok(Some(entry)) => Ok(entry.topic.destinations.clone()),
            Ok(None) => Err(Refusal::UnknownTopic(topic.to_string())),
            Err(error) => Err(refusal_of_lookup(&error)),
        }
    }

    /// The definition of a destination.
    pub(super) async fn find(
        &self,
        destination: &DestinationName,
    ) -> Result<Arc<CatalogEntry>, Refusal> {
        match self.catalog.find(destination).await {
            Ok(Some(entry)) => Ok(entry),
            Ok(None) => Err(Refusal::UnknownDestination(destination.to_string())),
            Err(error) => Err(refusal_of_lookup(&error)),
        }
    }

    /// Queues arrivals for one destination. The order of the calls decides the order of the
    /// sequences. The permit is released once the outcomes exist.
    pub async fn submit(
        &self,
        destination: &DestinationName,
        arrivals: impl Into<Arc<[Arrival]>>,
        session: &Session,
        permit: MemoryPermit,
    ) -> Pending {
        let arrivals = arrivals.into();
        match self.find(destination).await {
            Ok(entry) => self.queue(&entry, arrivals, session, permit).await,
            Err(refusal) => Pending::refused(refusal, arrivals.len(), session),
        }
    }

    /// Queues the copies for one destination, except those that were refused already.
    pub(super) async fn submit_copies(
        &self,
        entry: Result<&CatalogEntry, Refusal>,
        copies: Vec<Result<Arrival, Refusal>>,
        session: &Session,
        permit: MemoryPermit,
    ) -> Pending {
        let entry = match entry {
            Ok(entry) => entry,
            Err(refusal) => return Pending::refused(refusal, copies.len(), session),
        };
        let refused = copies.iter().any(Result::is_err).then(|| Refused {
            refusals: copies.iter().map(|copy| copy.as_ref().err().cloned()).collect(),
            session: session.clone(),
        });
        let arrivals = copies.into_iter().flatten().collect::<Arc<[Arrival]>>();
        let pending = self.queue(entry, arrivals, session, permit).await;
        Pending { refused, ..pending }
    }

    async fn queue(
        &self,
        entry: &CatalogEntry,
        arrivals: Arc<[Arrival]>,
        session: &Session,
        permit: MemoryPermit,
    ) -> Pending {
        let (reply, pending) = oneshot::channel();
        let pending = Pending { reply: pending, count: arrivals.len(), refused: None };
        if arrivals.is_empty() {
            let _ = reply.send(Vec::new());
            return pending;
        }
        if let Some(refusal) = self.refused_by_rate(entry, arrivals.len(), session) {
            return Pending::refused(refusal, arrivals.len(), session);
        }
        let submitted = Instant::now();
        let job = Job { arrivals, session: session.clone(), reply, submitted, _permit: permit };
        self.jobs.submit(&entry.destination.name, job).await;
        pending
    }
}

/// Maps an error while reading a definition. No message was sent to Redis, so none is stored.
fn refusal_of_lookup(error: &StoreError) -> Refusal {
    match error {
        StoreError::NoRights(_) | StoreError::NoSecretsKey(_) | StoreError::RefusesWrites(_) => {
            refusal(error)
        }
        _ => Refusal::RedisUnavailable,
    }
}
