//! Group commit: while a call for a destination is in flight, further jobs for it wait, and the next call takes them
//! together. If no call is in flight, no job waits.

use std::{collections::HashMap, mem, sync::Arc};

use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::{sync::mpsc, task::yield_now};
use tokio_util::task::TaskTracker;

use domain::DestinationName;

type Work<J> = dyn Fn(DestinationName, Vec<J>) -> BoxFuture<'static, ()> + Send + Sync;

/// A queue and a task for each destination that has jobs. Both exist only while there are jobs. The task passes the
/// jobs to `work` in batches, one batch after another. Cheap to clone.
pub struct GroupCommit<J>(Arc<Inner<J>>);

impl<J> Clone for GroupCommit<J> {
    fn clone(&self) -> Self {
        GroupCommit(self.0.clone())
    }
}

struct Inner<J> {
    queues: Mutex<HashMap<DestinationName, mpsc::Sender<J>>>,
    queue_max: usize,
    batch_max: usize,
    tracker: TaskTracker,
    work: Box<Work<J>>,
}

impl<J: Send + 'static> GroupCommit<J> {
    /// Runs tasks on `tracker`, for which the caller can wait after dropping this. A queue holds `queue_max` jobs;
    /// `submit` waits while the queue is full. `work` gets at most `batch_max` jobs.
    pub fn new(
        queue_max: usize,
        batch_max: usize,
        tracker: TaskTracker,
        work: impl Fn(DestinationName, Vec<J>) -> BoxFuture<'static, ()> + Send + Sync + 'static,
    ) -> Self {
        let (queues, work) = (Mutex::default(), Box::new(work));
        GroupCommit(Arc::new(Inner { queues, queue_max, batch_max, tracker, work }))
    }

    /// Puts a job into its destination's queue. Jobs of one caller stay in order.
    pub async fn submit(&self, destination: &DestinationName, job: J) {
        // The queue is open: its task ends only when no sender exists, and this function holds one.
        let _ = self.queue(destination).send(job).await;
    }

    fn queue(&self, destination: &DestinationName) -> mpsc::Sender<J> {
        let mut queues = self.0.queues.lock();
        // A queue is closed only if its task has panicked.
        if let Some(queue) = queues.get(destination).filter(|queue| !queue.is_closed()) {
            return queue.clone();
        }
        let (sender, jobs) = mpsc::channel(self.0.queue_max);
        queues.insert(destination.clone(), sender.clone());
        self.0.tracker.spawn(self.0.clone().run(destination.clone(), jobs));
        sender
    }
}

impl<J> Inner<J> {
    async fn run(self: Arc<Self>, name: DestinationName, mut jobs: mpsc::Receiver<J>) {
        let mut batch = Vec::new();
        loop {
            while jobs.is_empty() {
                if self.has_ended(&name, &jobs) {
                    return;
                }
                // Another task is just submitting a job.
                yield_now().await;
            }
            jobs.recv_many(&mut batch, self.batch_max).await;
            (self.work)(name.clone(), mem::take(&mut batch)).await;
        }
    }

    /// Removes the queue, unless it holds a job or a job is being submitted. A submitter holds a sender, and senders
    /// are cloned only under the lock.
    fn has_ended(&self, name: &DestinationName, jobs: &mpsc::Receiver<J>) -> bool {
        let mut queues = self.queues.lock();
        let has_ended = jobs.is_empty() && jobs.sender_strong_count() == 1;
        if has_ended {
            queues.remove(name);
        }
        has_ended
    }
}
