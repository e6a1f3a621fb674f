//! Group commit: jobs that arrive for a destination while a call is in flight go into the next
//! call. When no call is in flight, nothing waits.

use std::{collections::HashMap, mem, sync::Arc};

use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::{sync::mpsc, task::yield_now};
use tokio_util::task::TaskTracker;

use domain::DestinationName;

type Work<J> = dyn Fn(DestinationName, Vec<J>) -> BoxFuture<'static, ()> + Send + Sync;

/// A queue and a task for each destination that has jobs, and only while it has. The task hands
/// them over in batches, one after the other. Cheap to clone.
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
    /// Tasks run on `tracker`, which the caller can wait for after dropping this. A queue holds
    /// `queue_max` jobs; `submit` waits when it is full. `work` gets at most `batch_max` jobs.
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
        // The queue is open: its task ends only when nobody holds a sender, and this does.
        let _ = self.queue(destination).send(job).await;
    }

    fn queue(&self, destination: &DestinationName) -> mpsc::Sender<J> {
        let mut queues = self.0.queues.lock();
        // Closed only if its task has panicked.
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
                // A job is just being submitted.
                yield_now().await;
            }
            jobs.recv_many(&mut batch, self.batch_max).await;
            (self.work)(name.clone(), mem::take(&mut batch)).await;
        }
    }

    /// Removes the queue, unless it holds a job or a job is being submitted: submitters hold a
    /// sender, which is cloned only under the lock.
    fn has_ended(&self, name: &DestinationName, jobs: &mpsc::Receiver<J>) -> bool {
        let mut queues = self.queues.lock();
        let has_ended = jobs.is_empty() && jobs.sender_strong_count() == 1;
        if has_ended {
            queues.remove(name);
        }
        has_ended
    }
}
