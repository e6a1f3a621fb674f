//! Group commit: arrivals that come while a call to Redis is in flight make the next call.
//!
//! Calls for one destination run strictly one after the other, so arrivals get their sequences in
//! the order of submission. After a temporary failure, later arrivals of the same [`Session`] are
//! refused too: otherwise the failed one, sent again, would end up behind them.

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

/// The most queued jobs of one destination. When the queue is full, `submit` waits.
const QUEUE_MAX: usize = 1024;

/// The arrivals of one request or one connection. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Session {
    failed: Arc<AtomicBool>,
}

impl Session {
    fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed) && !planted::is("failed_session_goes_on")
    }

    /// Refuses everything that is submitted from now on.
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
    count: usize,
}

impl Pending {
    /// True until the outcomes exist.
    pub fn is_waiting(&self) -> bool {
        self.reply.is_empty()
    }

    /// One outcome for each arrival, in order.
    pub async fn outcomes(self) -> Vec<Outcome> {
        let draining = || vec![Err(Refusal::Draining); self.count];
        self.reply.await.unwrap_or_else(|_| draining())
    }
}

/// Stamps arrivals. Cheap to clone.
#[derive(Clone)]
pub struct Committer {
    catalog: Catalog,
    jobs: Arc<GroupCommit<Job>>,
    memory: MemoryBudget,
}

impl Committer {
    /// A committer whose work runs on `tracker`. The work completes even after this is dropped.
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
            let caller = store.unique_caller(&format!("ingest:{name}"));
            let worker =
                Worker { store, catalog, watermark, due, name, caller, batch_max, retry, epoch: 0 };
            Box::pin(worker.run(queue))
        });
        let memory = MemoryBudget::new(config.bytes_in_flight_max);
        Committer { catalog, jobs: Arc::new(jobs), memory }
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
        let count = arrivals.len();
        let (reply, pending) = oneshot::channel();
        let pending = Pending { reply: pending, count };
        let entry = match self.catalog.find(destination).await {
            Ok(Some(entry)) => entry,
            other => {
                let refusal = match other {
                    Ok(_) => Refusal::UnknownDestination(destination.to_string()),
                    Err(error) => refusal_of_lookup(&error),
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
        self.jobs.submit(&entry.destination.name, job).await;
        pending
    }
}

/// Maps an error while reading a definition. No message was sent to Redis, so none is stored.
fn refusal_of_lookup(error: &StoreError) -> Refusal {
    match error {
        StoreError::NoRights(_) => refusal(error),
        _ => Refusal::RedisUnavailable,
    }
}
