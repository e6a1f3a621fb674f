//! Takes failed messages up again when their backoff is over, and delayed ones when they are due, to
//! the millisecond where the pod that failed them, or took them in, lives. Whatever it misses, the
//! owner of the partition finds within a second.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use tokio::{sync::mpsc, time::Instant};
use tokio_util::sync::CancellationToken;

use super::{Failed, Status, Store};
use crate::{domain::Due, redis_client::server_clock_ms};

/// Waits that are noted but not yet seen; more are left to the partition's owner.
const NOTES_MAX: usize = 1024;
/// An arrival that is due within this time, in milliseconds, is noted.
const SOON_MS: u64 = 60_000;

/// Notes when a delay will be over. Cheap to clone.
#[derive(Clone)]
pub struct DueTimer {
    notes: mpsc::Sender<(Instant, u16)>,
}

impl DueTimer {
    /// A timer, and what runs it until `stop`.
    pub fn new(store: Store, stop: CancellationToken) -> (DueTimer, impl Future<Output = ()>) {
        let (notes, queue) = mpsc::channel(NOTES_MAX);
        (DueTimer { notes }, run(store, queue, stop))
    }

    /// A message of this partition is due after `wait`.
    pub fn note(&self, partition: u16, wait: Duration) {
        // The server compares whole milliseconds, so a look at the very instant is too early.
        let due = Instant::now() + wait + Duration::from_millis(1);
        let _ = self.notes.try_send((due, partition));
    }

    /// A message of this partition was taken in that is due then. What is not due soon, its owner finds.
    pub fn note_arrival(&self, partition: u16, due: Due) {
        let wait_ms = match due {
            Due::After(wait_ms) => wait_ms,
            Due::At(at_ms) => at_ms.saturating_sub(server_clock_ms()),
        };
        if wait_ms <= SOON_MS {
            self.note(partition, Duration::from_millis(wait_ms));
        }
    }

    /// Notes those of `failed` that are tried again, as [`Store::fail`] answered.
    pub fn note_failed(&self, partition: u16, failed: &[Failed], statuses: &[Status]) {
        let again = failed.iter().zip(statuses).filter(|(_, status)| **status == Status::Ok);
        again.for_each(|(one, _)| self.note(partition, one.wait));
    }
}

async fn run(store: Store, mut notes: mpsc::Receiver<(Instant, u16)>, stop: CancellationToken) {
    // By the millisecond since now, rounded up: however many are due in one, they are one look.
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
                    tracing::debug!(%error, "cannot take up what is due; its owner will");
                }
            }
        }
    }
}
