//! Group commit: what arrives for a destination while a call is in flight makes the next call.
//! Nothing waits for a batch to fill when nothing is in flight.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use futures::future::BoxFuture;
use tokio::sync::mpsc;
use tokio_util::task::TaskTracker;

use crate::domain::DestinationName;

type Worker<J> = dyn Fn(DestinationName, Batches<J>) -> BoxFuture<'static, ()> + Send + Sync;

/// One queue and one worker a destination, made on demand.
pub struct GroupCommit<J> {
    queues: Mutex<HashMap<DestinationName, mpsc::Sender<J>>>,
    queue_max: usize,
    tracker: TaskTracker,
    worker: Box<Worker<J>>,
}

/// What a worker takes its batches from.
pub struct Batches<J> {
    queue: mpsc::Receiver<J>,
}

impl<J: Send + 'static> GroupCommit<J> {
    /// Workers run on `tracker`, which can be waited for once this is dropped. A queue holds
    /// `queue_max` jobs; whoever brings more waits.
    pub fn new(
        queue_max: usize,
        tracker: TaskTracker,
        worker: impl Fn(DestinationName, Batches<J>) -> BoxFuture<'static, ()> + Send + Sync + 'static,
    ) -> Self {
        GroupCommit { queues: Mutex::default(), queue_max, tracker, worker: Box::new(worker) }
    }

    /// Puts a job into its destination's queue. Jobs of one caller stay in order.
    pub async fn submit(&self, destination: &DestinationName, job: J) {
        let queue = self.queue(destination);
        // A worker ends only when this is dropped, so its queue is open.
        let _ = queue.send(job).await;
    }

    fn queue(&self, destination: &DestinationName) -> mpsc::Sender<J> {
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(queue) = queues.get(destination).filter(|queue| !queue.is_closed()) {
            return queue.clone();
        }
        let (sender, queue) = mpsc::channel(self.queue_max);
        self.tracker.spawn((self.worker)(destination.clone(), Batches { queue }));
        queues.insert(destination.clone(), sender.clone());
        sender
    }
}

impl<J> Batches<J> {
    /// All jobs that are there, at most `max`; waits for the first. None when there will be no
    /// more.
    pub async fn next(&mut self, max: usize) -> Option<Vec<J>> {
        let mut batch = Vec::new();
        match self.queue.recv_many(&mut batch, max).await {
            0 => None,
            _ => Some(batch),
        }
    }
}

/// Cuts items into calls of at most `count_max` items and about `bytes_max` bytes, which a
/// connection can carry in time. A larger item goes alone.
pub fn cut<T>(
    items: &[T],
    count_max: usize,
    bytes_max: usize,
    size: impl Fn(&T) -> usize,
) -> Vec<&[T]> {
    let mut calls = Vec::new();
    let (mut start, mut bytes) = (0, 0);
    for (at, item) in items.iter().enumerate() {
        if at > start && (at - start == count_max || bytes + size(item) > bytes_max) {
            calls.push(&items[start..at]);
            (start, bytes) = (at, 0);
        }
        bytes += size(item);
    }
    if start < items.len() {
        calls.push(&items[start..]);
    }
    calls
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_bounded_by_count_and_by_bytes_and_keep_the_order() {
        let sizes = [1, 1, 1, 9, 5, 5, 1];
        let calls = cut(&sizes, 2, 8, |size| *size);
        assert_eq!(calls, [&[1, 1][..], &[1], &[9], &[5], &[5, 1]]);
        assert!(cut(&[], 2, 8, |size: &usize| *size).is_empty());
    }
}
