//! Group commit: jobs that arrive for a destination while a call is in flight go into the next
//! call. When no call is in flight, nothing waits.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures::future::BoxFuture;
use tokio::{sync::mpsc, time::sleep};
use tokio_util::task::TaskTracker;

use super::catalog::{Catalog, Watch};
use domain::DestinationName;

/// An idle task ends after this time. Redis keeps the last answer of a call sequence for the same
/// time. So it keeps at most two for a rarely used destination: those of its last two tasks.
const IDLE: Duration = Duration::from_secs(60);

type StartTask<J> = dyn Fn(DestinationName, Batches<J>) -> BoxFuture<'static, ()> + Send + Sync;

type Queues<J> = Arc<Mutex<HashMap<DestinationName, mpsc::Sender<J>>>>;

/// One queue and one task per destination, created on demand. Both end after being idle for a
/// while, or when the destination is gone.
pub struct GroupCommit<J> {
    queues: Queues<J>,
    queue_max: usize,
    tracker: TaskTracker,
    catalog: Catalog,
    start_task: Box<StartTask<J>>,
}

/// The receiving end of a queue.
pub struct Batches<J> {
    queue: mpsc::Receiver<J>,
    name: DestinationName,
    queues: std::sync::Weak<Mutex<HashMap<DestinationName, mpsc::Sender<J>>>>,
    catalog: Catalog,
    definition: Watch,
}

impl<J: Send + 'static> GroupCommit<J> {
    /// Tasks run on `tracker`, which the caller can wait for after dropping this. A queue holds
    /// `queue_max` jobs; `submit` waits when it is full.
    pub fn new(
        catalog: Catalog,
        queue_max: usize,
        tracker: TaskTracker,
        start_task: impl Fn(DestinationName, Batches<J>) -> BoxFuture<'static, ()>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        let start_task = Box::new(start_task);
        GroupCommit { queues: Arc::default(), queue_max, tracker, catalog, start_task }
    }

    /// Puts a job into its destination's queue. Jobs of one caller stay in order.
    pub async fn submit(&self, destination: &DestinationName, job: J) {
        let queue = self.queue(destination);
        // The queue is open: its task closes it only when nobody holds a sender, and this does.
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
        self.tracker.spawn((self.start_task)(destination.clone(), batches));
        queues.insert(destination.clone(), sender.clone());
        sender
    }
}

impl<J> Batches<J> {
    /// All queued jobs, at most `max`; waits for the first. `None` when there will be no more.
    pub async fn next(&mut self, max: usize) -> Option<Vec<J>> {
        let mut batch = Vec::new();
        let mut idle = std::pin::pin!(sleep(IDLE));
        let mut is_over = self.is_gone();
        loop {
            // Later jobs go to a new queue; those in this one are still processed.
            if is_over && self.try_remove_queue() {
                is_over = false;
            }
            tokio::select! {
                biased;
                count = self.queue.recv_many(&mut batch, max) => {
                    return (count > 0).then_some(batch);
                }
                () = self.definition.changed() => is_over = self.is_gone(),
                () = &mut idle, if !idle.is_elapsed() => is_over = true,
                // A job was just being submitted: check again.
                () = tokio::task::yield_now(), if is_over => {}
            }
        }
    }

    fn is_gone(&self) -> bool {
        self.catalog.get(self.name.as_str()).is_none()
    }

    /// Removes the queue, unless it holds a job or a job is being submitted: submitters hold a
    /// sender, which is cloned only under the lock. True if the queue is gone.
    fn try_remove_queue(&self) -> bool {
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
