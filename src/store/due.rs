//! Takes failed messages up again when their backoff is over, to the millisecond where the pod
//! that failed them lives. Whatever it misses, the owner of the partition finds within a second.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use tokio::{sync::mpsc, time::Instant};
use tokio_util::sync::CancellationToken;

use super::{Failed, Status, Store};

/// Waits that are noted but not yet seen; more are left to the partition's owner.
const NOTES_MAX: usize = 1024;

/// Notes when a delay will be over. Cheap to clone.
#[derive(Clone)]
pub struct DueTimer {
    notes: mpsc::Sender<(Instant, u16)>,
}

impl DueTimer {
    /// Starts the timer, until `stop`.
    pub fn start(store: Store, stop: CancellationToken) -> DueTimer {
        let (notes, queue) = mpsc::channel(NOTES_MAX);
        tokio::spawn(run(store, queue, stop));
        DueTimer { notes }
    }

    /// A message of this partition is due after `wait`.
    pub fn note(&self, partition: u16, wait: Duration) {
        // The server compares whole milliseconds, so a look at the very instant is too early.
        let due = Instant::now() + wait + Duration::from_millis(2);
        let _ = self.notes.try_send((due, partition));
    }

    /// Notes those of `failed` that are tried again, as [`Store::fail`] answered.
    pub fn note_failed(&self, partition: u16, failed: &[Failed], statuses: &[Status]) {
        let again = failed.iter().zip(statuses).filter(|(_, status)| **status == Status::Ok);
        again.for_each(|(one, _)| self.note(partition, one.wait));
    }
}

async fn run(store: Store, mut notes: mpsc::Receiver<(Instant, u16)>, stop: CancellationToken) {
    let mut due: BTreeMap<Instant, BTreeSet<u16>> = BTreeMap::new();
    loop {
        let next = due.keys().next().copied();
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
                    due.entry(instant).or_default().insert(partition);
                }
                None => return,
            },
            () = over => {
                let later = due.split_off(&(Instant::now() + Duration::from_millis(1)));
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
