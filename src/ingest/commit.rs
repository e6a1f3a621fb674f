//! Group commit: what arrives while one call to Redis is in flight makes the next one.
//!
//! The calls for one destination run strictly in turn, so the order in which arrivals are
//! submitted is the order of their sequences. After a temporary failure, what the same producer
//! submitted later is refused too: were it stamped, sending the failed one again would put it
//! behind what came after it.

#[cfg(feature = "planted-bugs")]
mod fault_injection;
mod worker;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{sync::oneshot, time::Instant};
use tokio_util::task::TaskTracker;

use worker::{Worker, refusal};

use super::{MemoryBudget, MemoryPermit, Outcome, Refusal, Watermark};
use crate::{
    config,
    domain::{Arrival, DestinationName, TopicName},
    faults::planted,
    store::{Catalog, DueTimer, GroupCommit, Store, StoreError},
};

/// Jobs that wait for one destination; producers wait beyond it.
const QUEUE_MAX: usize = 1024;

/// One producer's stream of arrivals: a request or a connection. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Session {
    failed: Arc<AtomicBool>,
}

impl Session {
    fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed) && !planted::is("failed_session_goes_on")
    }

    /// Nothing that is submitted from now on is stamped.
    pub(super) fn fail(&self) {
        self.failed.store(true, Ordering::Relaxed);
    }
}

/// Arrivals of one producer for one destination, to be stamped in this order.
struct Job {
    arrivals: Arc<[Arrival]>,
    session: Session,
    reply: oneshot::Sender<Vec<Outcome>>,
    submitted: Instant,
    /// What the bodies take of the process's memory.
    _permit: MemoryPermit,
}

/// Answers that are on their way.
pub struct Pending {
    reply: oneshot::Receiver<Vec<Outcome>>,
    count: usize,
}

impl Pending {
    /// True while the outcomes are not there yet.
    pub fn is_waiting(&self) -> bool {
        self.reply.is_empty()
    }

    /// One outcome for each arrival, in order.
    pub async fn outcomes(self) -> Vec<Outcome> {
        let draining = || vec![Err(Refusal::Draining); self.count];
        self.reply.await.unwrap_or_else(|_| draining())
    }
}

/// Takes arrivals and stamps them. Cheap to clone.
#[derive(Clone)]
pub struct Committer {
    catalog: Catalog,
    jobs: Arc<GroupCommit<Job>>,
    memory: MemoryBudget,
}

impl Committer {
    /// A committer whose work runs on `tracker`, to its end once this is dropped.
    pub fn new(
        store: Store,
        catalog: Catalog,
        config: &config::Ingest,
        watermark: Watermark,
        due: DueTimer,
        tracker: TaskTracker,
    ) -> Committer {
        let (batch_max, retry) = (config.batch_max, Duration::from_millis(config.retry_ms));
        let of_worker = (store, catalog.clone(), watermark, due);
        let jobs = GroupCommit::new(catalog.clone(), QUEUE_MAX, tracker, move |name, queue| {
            let (store, catalog, watermark, due) = of_worker.clone();
            let caller = store.caller_anew(&format!("ingest:{name}"));
            let worker =
                Worker { store, catalog, watermark, due, name, caller, batch_max, retry, epoch: 0 };
            Box::pin(worker.run(queue))
        });
        let memory = MemoryBudget::new(config.bytes_in_flight_max);
        Committer { catalog, jobs: Arc::new(jobs), memory }
    }

    /// Where there is room for what is to be submitted.
    pub fn memory(&self) -> &MemoryBudget {
        &self.memory
    }

    /// Where what is published to this topic goes, as of now.
    pub async fn destinations_of(
        &self,
        topic: &TopicName,
    ) -> Result<Vec<DestinationName>, Refusal> {
        match self.catalog.find_topic(topic).await {
            Ok(Some(known)) => Ok(known.topic.destinations.clone()),
            Ok(None) => Err(Refusal::UnknownTopic(topic.to_string())),
            Err(error) => Err(unread(&error)),
        }
    }

    /// Queues arrivals for one destination. The order of the calls is the order of the
    /// sequences; the outcomes come later. Their room is given back when they have.
    pub async fn submit(
        &self,
        destination: &DestinationName,
        arrivals: impl Into<Arc<[Arrival]>>,
        session: &Session,
        permit: MemoryPermit,
    ) -> Pending {
        let arrivals = arrivals.into();
        let count = arrivals.len();
        let (reply, pending) = oneshot::channel();
        let pending = Pending { reply: pending, count };
        let known = match self.catalog.find(destination).await {
            Ok(Some(known)) => known,
            other => {
                let refusal = match other {
                    Ok(_) => Refusal::UnknownDestination(destination.to_string()),
                    Err(error) => unread(&error),
                };
                if refusal.is_temporary() {
                    session.fail();
                }
                let _ = reply.send(vec![Err(refusal); count]);
                return pending;
            }
        };
        let submitted = Instant::now();
        let job = Job { arrivals, session: session.clone(), reply, submitted, _permit: permit };
        self.jobs.submit(&known.destination.name, job).await;
        pending
    }
}

/// Why a definition could not be looked up: nothing was sent to be stored.
fn unread(error: &StoreError) -> Refusal {
    match error {
        StoreError::NoRights(_) => refusal(error),
        _ => Refusal::RedisUnavailable,
    }
}
