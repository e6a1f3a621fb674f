//! Group commit: what arrives for a destination while a call is in flight makes the next call.
//! Nothing waits for a batch to fill when nothing is in flight.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures::future::BoxFuture;
use tokio::{sync::mpsc, time::sleep};
use tokio_util::task::TaskTracker;

use super::catalog::{Catalog, Watch};
use crate::domain::DestinationName;

/// A worker that had nothing to do for so long ends. As long as Redis keeps the last answer of its
/// caller: a destination that is used now and then has two of these at most.
const IDLE: Duration = Duration::from_secs(60);

type Worker<J> = dyn Fn(DestinationName, Batches<J>) -> BoxFuture<'static, ()> + Send + Sync;

type Queues<J> = Arc<Mutex<HashMap<DestinationName, mpsc::Sender<J>>>>;

/// One queue and one worker a destination, made on demand. Both end when there was nothing to do for a
/// while, or the destination is gone.
pub struct GroupCommit<J> {
    queues: Queues<J>,
    queue_max: usize,
    tracker: TaskTracker,
    catalog: Catalog,
    worker: Box<Worker<J>>,
}

/// What a worker takes its batches from.
pub struct Batches<J> {
    queue: mpsc::Receiver<J>,
    name: DestinationName,
    queues: std::sync::Weak<Mutex<HashMap<DestinationName, mpsc::Sender<J>>>>,
    catalog: Catalog,
    definition: Watch,
}

impl<J: Send + 'static> GroupCommit<J> {
    /// Workers run on `tracker`, which can be waited for once this is dropped. A queue holds
    /// `queue_max` jobs; whoever brings more waits.
    pub fn new(
        catalog: Catalog,
        queue_max: usize,
        tracker: TaskTracker,
        worker: impl Fn(DestinationName, Batches<J>) -> BoxFuture<'static, ()> + Send + Sync + 'static,
    ) -> Self {
        let worker = Box::new(worker);
        GroupCommit { queues: Arc::default(), queue_max, tracker, catalog, worker }
    }

    /// Puts a job into its destination's queue. Jobs of one caller stay in order.
    pub async fn submit(&self, destination: &DestinationName, job: J) {
        let queue = self.queue(destination);
        // A worker closes its queue only when nobody holds it, so it is open.
        let _ = queue.send(job).await;
    }

    fn queue(&self, destination: &DestinationName) -> mpsc::Sender<J> {
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(queue) = queues.get(destination).filter(|queue| !queue.is_closed()) {
            return queue.clone();
        }
        let (sender, queue) = mpsc::channel(self.queue_max);
        let batches = Batches {
            queue,
            name: destination.clone(),
            queues: Arc::downgrade(&self.queues),
            catalog: self.catalog.clone(),
            definition: self.catalog.watch(destination),
        };
        self.tracker.spawn((self.worker)(destination.clone(), batches));
        queues.insert(destination.clone(), sender.clone());
        sender
    }
}

impl<J> Batches<J> {
    /// All jobs that are there, at most `max`; waits for the first. None when there will be no
    /// more.
    pub async fn next(&mut self, max: usize) -> Option<Vec<J>> {
        let mut batch = Vec::new();
        let mut idle = std::pin::pin!(sleep(IDLE));
        let mut is_over = self.is_gone();
        loop {
            // Whoever comes from now on gets another queue; what is in this one is still done.
            if is_over && self.is_let_go() {
                is_over = false;
            }
            tokio::select! {
                biased;
                count = self.queue.recv_many(&mut batch, max) => {
                    return (count > 0).then_some(batch);
                }
                () = self.definition.changed() => is_over = self.is_gone(),
                () = &mut idle, if !idle.is_elapsed() => is_over = true,
                // Somebody was just about to bring a job.
                () = tokio::task::yield_now(), if is_over => {}
            }
        }
    }

    fn is_gone(&self) -> bool {
        self.catalog.get(self.name.as_str()).is_none()
    }

    /// Takes the queue away, unless it holds a job or somebody is about to bring one: whoever does holds
    /// a sender, which is cloned under the lock alone. True if there is nothing left to take away.
    fn is_let_go(&self) -> bool {
        let Some(queues) = self.queues.upgrade() else { return true };
        let mut queues = queues.lock().unwrap_or_else(PoisonError::into_inner);
        match queues.get(&self.name) {
            Some(queue) if queue.strong_count() > 1 || !self.queue.is_empty() => false,
            _ => {
                queues.remove(&self.name);
                true
            }
        }
    }
}
