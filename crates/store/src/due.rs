//! Returns messages to `waiting` when their backoff or delay is over, and ends the rests of destinations. The pod
//! that set a delay does this to the millisecond. If it misses one, the owner of the partition finds it within a
//! second.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use tokio::{sync::mpsc, time::Instant};
use tokio_util::sync::CancellationToken;

use super::{CatalogEntry, Claimed, Failed, Status, Store};
use domain::Due;
use redis_client::server_clock_ms;

/// The most delays in the queue that the timer has not read yet. Further delays are left to the partition's owner.
const NOTES_MAX: usize = 1024;
/// An arrival that is due within this time, in ms, gets a timer.
const SOON_MS: u64 = 60_000;

/// Schedules the end of delays. Cheap to clone.
#[derive(Clone)]
pub struct DueTimer {
    notes: mpsc::Sender<(Instant, u16)>,
}

impl DueTimer {
    /// Creates a timer, and the future that runs it until `stop`.
    pub fn new(store: Store, stop: CancellationToken) -> (DueTimer, impl Future<Output = ()>) {
        let (notes, queue) = mpsc::channel(NOTES_MAX);
        (DueTimer { notes }, run(store, queue, stop))
    }

    /// Schedules a message of this partition that is due after `wait`.
    pub fn note(&self, partition: u16, wait: Duration) {
        // The server compares whole milliseconds, so a call at exactly that time would be too early.
        let due = Instant::now() + wait + Duration::from_millis(1);
        let _ = self.notes.try_send((due, partition));
    }

    /// Schedules an arrival of this partition. Leaves it to the owner if it is not due soon.
    pub fn note_arrival(&self, partition: u16, due: Due) {
        let wait_ms = match due {
            Due::After(wait_ms) => wait_ms,
            Due::At(at_ms) => at_ms.saturating_sub(server_clock_ms()),
        };
        if wait_ms <= SOON_MS {
            self.note(partition, Duration::from_millis(wait_ms));
        }
    }

    /// Schedules the end of the rest that a claim has begun.
    pub fn note_rest(&self, entry: &CatalogEntry, claimed: &Claimed) {
        claimed.rest.into_iter().for_each(|rest| self.note(entry.partition, rest));
    }

    /// Schedules the failed messages that are retried, according to the answer of [`Store::fail`].
    pub fn note_failed(&self, partition: u16, failed: &[Failed], statuses: &[Status]) {
        let again = failed.iter().zip(statuses).filter(|(_, status)| **status == Status::Ok);
        let waits = again.filter_map(|(one, _)| one.disposition.wait());
        waits.for_each(|wait| self.note(partition, wait));
    }
}

async fn run(store: Store, mut notes: mpsc::Receiver<(Instant, u16)>, stop: CancellationToken) {
    // Keyed by ms since `start`, rounded up: one call handles all messages that are due in the same ms.
    let start = Instant::now();
    let mut due: BTreeMap<u64, BTreeSet<u16>> = BTreeMap::new();
    loop {
        let next = due.keys().next().map(|ms| start + Duration::from_millis(*ms));
        let over = async {
            match next {
                Some(instant) => tokio::time::sleep_until(instant).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = stop.cancelled() => return,
            note = notes.recv() => match note {
                Some((instant, partition)) => {
                    let ms = instant.saturating_duration_since(start).as_millis() as u64 + 1;
                    due.entry(ms).or_default().insert(partition);
                }
                None => return,
            },
            () = over => {
                let later = due.split_off(&(start.elapsed().as_millis() as u64 + 1));
                let now = std::mem::replace(&mut due, later);
                let partitions: BTreeSet<u16> = now.into_values().flatten().collect();
                let partitions: Vec<u16> = partitions.into_iter().collect();
                if let Err(error) = store.recover(&partitions).await {
                    tracing::debug!(%error, "cannot recover due messages; the partition's owner will");
                }
            }
        }
    }
}
