//! The epochs that this pod has seen for each partition. Scripts that may begin a new epoch get these epochs as an
//! argument, so that a new epoch is always higher (`lua/include/epoch.lua`).

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::time::Instant;

use super::{CatalogEntry, Store, StoreError};
use domain::{DestinationName, Epoch};

/// NTP constantly corrects clocks by less than this, so a smaller step back does not count.
const STEP_MS_MIN: u64 = 500;

/// The highest epochs seen in each partition, and the length of an owner's lease.
pub(super) struct Epochs {
    seen: Vec<Seen>,
    lease_ms: u64,
}

struct Seen {
    /// The epoch of the partition itself.
    own: AtomicU64,
    /// Since when this pod knows the epoch.
    since: Mutex<Instant>,
    /// The time of the partition's server, in ms since 1970, and when this pod had read it.
    clock: Mutex<Option<(u64, Instant)>>,
    /// Members that must still be moved back after a step of the clock.
    behind: Mutex<Vec<Behind>>,
    /// The highest epoch that a message carried, or in which a destination was created. It may be above the epoch of
    /// the partition.
    carried: AtomicU64,
    /// The epoch that messages carry, from the last refusal of an arrival.
    stamped: AtomicU64,
}

/// The kinds of entries that end at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Ends {
    /// A lease.
    Lease,
    /// A delay, or a backoff in processing.
    Delay,
    /// A backoff in delivery.
    Backoff,
}

/// Members of one kind in one destination that must be moved back, each with the time at which it ends.
#[derive(Debug)]
pub(super) struct Behind {
    pub(super) destination: DestinationName,
    pub(super) ends: Ends,
    pub(super) members: Vec<(String, u64)>,
    pub(super) back_ms: u64,
}

impl Epochs {
    pub(super) fn new(partitions: u16, owner_lease: Duration) -> Epochs {
        let seen = (0..partitions).map(|_| Seen {
            own: AtomicU64::new(0),
            since: Mutex::new(Instant::now()),
            clock: Mutex::default(),
            behind: Mutex::default(),
            carried: AtomicU64::new(0),
            stamped: AtomicU64::new(0),
        });
        let seen = seen.collect();
        Epochs { seen, lease_ms: owner_lease.as_millis() as u64 }
    }

    /// Records the epoch that Redis returned for a partition. Returns since when this pod knows the highest epoch.
    pub(super) fn note(&self, partition: u16, epoch: Epoch) -> Instant {
        let Some(seen) = self.seen.get(usize::from(partition)) else { return Instant::now() };
        let mut since = seen.since.lock();
        if seen.own.fetch_max(epoch, Ordering::Relaxed) < epoch {
            *since = Instant::now();
        }
        *since
    }

    /// Checks whether the clock of the server has stepped back since it was recorded for this partition. If so,
    /// returns the recorded time and the length of the step, in ms. The query was sent at `asked`, and Redis returned
    /// `now_ms`. The step is a lower bound, so that a slow answer does not count as a step.
    pub(super) fn stepped_back(
        &self,
        partition: u16,
        now_ms: u64,
        asked: Instant,
    ) -> Option<(u64, u64)> {
        let seen = self.seen.get(usize::from(partition))?;
        let (then_ms, at) = (*seen.clock.lock())?;
        let passed_ms = asked.saturating_duration_since(at).as_millis() as u64;
        let back_ms = (then_ms + passed_ms).saturating_sub(now_ms);
        (back_ms > STEP_MS_MIN).then_some((then_ms, back_ms))
    }

    /// Records the clock of a partition's server: it showed `now_ms` at `answered`.
    pub(super) fn note_clock(&self, partition: u16, now_ms: u64, answered: Instant) {
        if let Some(seen) = self.seen.get(usize::from(partition)) {
            let mut clock = seen.clock.lock();
            *clock = Some((now_ms, answered));
        }
    }

    /// Takes the members that must be moved back.
    pub(super) fn take_behind(&self, partition: u16) -> Vec<Behind> {
        let Some(seen) = self.seen.get(usize::from(partition)) else { return Vec::new() };
        std::mem::take(&mut seen.behind.lock())
    }

    pub(super) fn add_behind(&self, partition: u16, more: impl IntoIterator<Item = Behind>) {
        if let Some(seen) = self.seen.get(usize::from(partition)) {
            seen.behind.lock().extend(more);
        }
    }

    /// Records an epoch that messages carry, or may carry.
    pub(super) fn note_carried(&self, partition: u16, epoch: Epoch) {
        if let Some(seen) = self.seen.get(usize::from(partition)) {
            seen.carried.fetch_max(epoch, Ordering::Relaxed);
        }
    }

    /// Records the epoch that messages of a destination carry, as Redis returned it.
    pub(super) fn note_stamped(&self, partition: u16, epoch: Epoch) {
        self.note_carried(partition, epoch);
        if let Some(seen) = self.seen.get(usize::from(partition)) {
            seen.stamped.store(epoch, Ordering::Relaxed);
        }
    }

    /// The known epochs of a partition, as an argument for scripts.
    pub(super) fn known(&self, partition: u16) -> String {
        self.text(partition, self.lease_ms)
    }

    pub(super) fn text(&self, partition: u16, lease_ms: u64) -> String {
        let load = |of: &AtomicU64| of.load(Ordering::Relaxed);
        let seen = self.seen.get(usize::from(partition));
        let (own, carried) = seen.map_or((0, 0), |seen| (load(&seen.own), load(&seen.carried)));
        format!("{lease_ms} {own} {carried}")
    }
}

impl Store {
    /// The known epochs of a partition, as an argument for scripts.
    pub(super) fn known_of_epoch(&self, partition: u16) -> String {
        self.inner.epochs.known(partition)
    }

    /// The epoch that the next messages of a destination probably carry: the epoch of the partition, or the epoch in
    /// which the destination was created if that is higher. If it is wrong, Redis refuses the call and returns the
    /// right one.
    pub fn message_epoch(&self, entry: &CatalogEntry) -> Epoch {
        let seen = self.inner.epochs.seen.get(usize::from(entry.partition));
        seen.map_or(0, |seen| seen.stamped.load(Ordering::Relaxed)).max(entry.born)
    }

    /// Returns the answer unchanged. Records the epoch if the answer is a refusal that names it.
    pub(super) fn learned<T>(
        &self,
        partition: u16,
        answer: Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        if let Err(StoreError::StaleEpoch(epoch) | StoreError::Owned(epoch)) = &answer {
            self.inner.epochs.note(partition, *epoch);
        }
        answer
    }

    /// Forgets all epochs, like a pod that has just started. For tests that restore older data of Redis.
    pub fn forget_epochs(&self) {
        for seen in &self.inner.epochs.seen {
            seen.own.store(0, Ordering::Relaxed);
            seen.carried.store(0, Ordering::Relaxed);
            seen.stamped.store(0, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_epoch_is_remembered_of_each_partition() {
        let epochs = Epochs::new(2, Duration::from_secs(5));
        epochs.note(1, 9);
        epochs.note(1, 7);
        epochs.note(2, 11);
        epochs.note_carried(1, 12);
        epochs.note_carried(1, 10);
        assert_eq!((epochs.known(0), epochs.known(1)), ("5000 0 0".into(), "5000 9 12".into()));
    }
}
