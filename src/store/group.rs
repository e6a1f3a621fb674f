//! Group commit: what arrives for a destination while a call is in flight makes the next call.
//! Nothing waits for a batch to fill when nothing is in flight.
//!
//! Of many destinations only a few have a call in flight at once; the batches of the others grow
//! meanwhile. Otherwise each would send what it has at every moment, one message a call, and Redis would
//! be so busy with these calls that those of the next stages came late.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures::future::BoxFuture;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
    time::timeout,
};
use tokio_util::task::TaskTracker;

use crate::domain::DestinationName;

/// Destinations with a call in flight at once.
const TURNS: usize = 8;
/// Nobody waits longer for a turn: one server of a cluster that does not answer, or a disk that is
/// waited for, must not hold up what goes elsewhere.
const TURN_WAIT: Duration = Duration::from_millis(20);

/// Who may have a call in flight.
#[derive(Clone)]
struct Turns {
    free: Arc<Semaphore>,
    wait: Duration,
}

type Worker<J> = dyn Fn(DestinationName, Batches<J>) -> BoxFuture<'static, ()> + Send + Sync;

/// One queue and one worker a destination, made on demand.
pub struct GroupCommit<J> {
    queues: Mutex<HashMap<DestinationName, mpsc::Sender<J>>>,
    queue_max: usize,
    turns: Turns,
    tracker: TaskTracker,
    worker: Box<Worker<J>>,
}

/// What a worker takes its batches from.
pub struct Batches<J> {
    queue: mpsc::Receiver<J>,
    turns: Turns,
    /// The turn of the batch that was taken last.
    turn: Option<OwnedSemaphorePermit>,
}

impl<J: Send + 'static> GroupCommit<J> {
    /// Workers run on `tracker`, which can be waited for once this is dropped. A queue holds
    /// `queue_max` jobs; whoever brings more waits.
    pub fn new(
        queue_max: usize,
        tracker: TaskTracker,
        worker: impl Fn(DestinationName, Batches<J>) -> BoxFuture<'static, ()> + Send + Sync + 'static,
    ) -> Self {
        let turns = Turns { free: Arc::new(Semaphore::new(TURNS)), wait: TURN_WAIT };
        GroupCommit {
            queues: Mutex::default(),
            queue_max,
            turns,
            tracker,
            worker: Box::new(worker),
        }
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
        let batches = Batches { queue, turns: self.turns.clone(), turn: None };
        self.tracker.spawn((self.worker)(destination.clone(), batches));
        queues.insert(destination.clone(), sender.clone());
        sender
    }
}

impl<J> Batches<J> {
    /// All jobs that are there when it is this destination's turn, at most `max`; waits for the
    /// first. None when there will be no more. The turn lasts until the next batch is asked for.
    pub async fn next(&mut self, max: usize) -> Option<Vec<J>> {
        self.turn = None;
        let mut batch = Vec::new();
        if self.queue.recv_many(&mut batch, max).await == 0 {
            return None;
        }
        self.turn = self.turns.free.clone().try_acquire_owned().ok();
        if self.turn.is_none() {
            let turn = timeout(self.turns.wait, self.turns.free.clone().acquire_owned()).await;
            self.turn = turn.ok().and_then(Result::ok);
            while batch.len() < max
                && let Ok(job) = self.queue.try_recv()
            {
                batch.push(job);
            }
        }
        Some(batch)
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
    use tokio::sync::oneshot;

    use super::*;

    /// A batch that a worker has taken, and what ends its call.
    type Call = (Vec<u32>, oneshot::Sender<()>);

    /// Workers that tell of each batch, and take the next when they are told to.
    fn group(wait: Duration) -> (GroupCommit<u32>, mpsc::UnboundedReceiver<Call>) {
        let (tell, told) = mpsc::unbounded_channel();
        let mut group = GroupCommit::new(16, TaskTracker::new(), move |_, mut queue| {
            let tell = tell.clone();
            Box::pin(async move {
                while let Some(batch) = queue.next(16).await {
                    let (end, ended) = oneshot::channel();
                    let _ = tell.send((batch, end));
                    let _ = ended.await;
                }
            })
        });
        group.turns.wait = wait;
        (group, told)
    }

    fn name(number: usize) -> DestinationName {
        format!("d{number}").parse().unwrap()
    }

    #[tokio::test]
    async fn a_destination_that_waits_for_its_turn_gathers() {
        let (group, mut told) = group(Duration::from_secs(3600));
        let mut calls = Vec::new();
        for number in 0..TURNS {
            group.submit(&name(number), 0).await;
            calls.push(told.recv().await.unwrap());
        }
        group.submit(&name(TURNS), 1).await;
        tokio::task::yield_now().await;
        group.submit(&name(TURNS), 2).await;
        assert!(told.try_recv().is_err(), "it has no turn yet");
        calls.pop().unwrap().1.send(()).unwrap();
        assert_eq!(told.recv().await.unwrap().0, [1, 2]);
    }

    #[tokio::test]
    async fn nobody_waits_for_a_turn_that_does_not_come() {
        let (group, mut told) = group(Duration::from_millis(1));
        let mut calls = Vec::new();
        for number in 0..=TURNS {
            group.submit(&name(number), 0).await;
            calls.push(told.recv().await.unwrap());
        }
        assert_eq!(calls.len(), TURNS + 1, "and no call has ended");
    }

    #[test]
    fn calls_are_bounded_by_count_and_by_bytes_and_keep_the_order() {
        let sizes = [1, 1, 1, 9, 5, 5, 1];
        let calls = cut(&sizes, 2, 8, |size| *size);
        assert_eq!(calls, [&[1, 1][..], &[1], &[9], &[5], &[5, 1]]);
        assert!(cut(&[], 2, 8, |size: &usize| *size).is_empty());
    }
}
