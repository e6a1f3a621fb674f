//! The permit of a process to hold messages that must be alone. Such a message may have crashed its workers more than
//! once; no other suspect may be in its process.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::Instant,
};

use domain::DestinationName;

/// How long the permit is kept for a destination. A claim delays the messages that it leaves out by a second
/// (`lua/include/suspects.lua`), and a poll finds them a second later at most.
const KEPT: Duration = Duration::from_secs(3);

/// The permit. It is free again when the last clone is dropped.
pub(super) type Alone = Arc<OwnedSemaphorePermit>;

/// Hands out the only permit. A destination that needed the permit and did not get it is the next to get it.
pub(super) struct OneAlone {
    free: Arc<Semaphore>,
    /// The destination for which the permit is kept, and until when.
    kept: Option<(DestinationName, Instant)>,
}

impl OneAlone {
    pub(super) fn new() -> OneAlone {
        OneAlone { free: Arc::new(Semaphore::new(1)), kept: None }
    }

    /// Takes the permit for a claim of this destination, if nobody holds it and it is not kept for another destination.
    pub(super) fn take(&mut self, name: &DestinationName, now: Instant) -> Option<Alone> {
        if self.kept.as_ref().is_some_and(|(other, until)| other != name && now < *until) {
            return None;
        }
        let permit = self.free.clone().try_acquire_owned().ok()?;
        self.kept = None;
        Some(Arc::new(permit))
    }

    /// Keeps the permit for this destination: a claim without the permit may have left out messages that must be alone.
    pub(super) fn keep_for(&mut self, name: &DestinationName, now: Instant) {
        if self.kept.as_ref().is_none_or(|(_, until)| *until <= now) {
            self.kept = Some((name.clone(), now + KEPT));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_destination_that_needs_the_permit_gets_it_before_others() {
        let [busy, other, needs] = ["busy", "other", "needs"].map(|name| name.parse().unwrap());
        let (mut one, now) = (OneAlone::new(), Instant::now());
        let held = one.take(&busy, now).unwrap();
        assert!(one.take(&needs, now).is_none());
        one.keep_for(&needs, now);
        one.keep_for(&other, now);
        drop(held);
        assert!(one.take(&busy, now).is_none() && one.take(&other, now).is_none());
        let held = one.take(&needs, now).unwrap();
        drop(held);
        assert!(one.take(&busy, now).is_some());
        one.keep_for(&needs, now);
        assert!(one.take(&busy, now + KEPT).is_some(), "it does not need it any more");
    }
}
