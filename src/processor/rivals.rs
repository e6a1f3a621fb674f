//! Which destinations other processors usually claim from first. A wake-up reaches every processor, but only one of
//! them gets the message, and a claim that finds nothing costs Redis nearly as much as one that does. So a processor
//! that came too late before waits a moment, and then asks for all such destinations at once which still have waiting
//! messages. Nobody coordinates this: the processor that is first stays first, until it is busy or gone. No I/O.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use tokio::time::Instant;

use crate::domain::DestinationName;

/// After this many claims in a row that found nothing, a destination has a rival.
const MISSES: u8 = 2;
/// How many destinations are remembered. Others are claimed from at once.
const REMEMBERED_MAX: usize = 100_000;
/// How long a rival has to claim, in addition to the time that claims take now.
const WAIT: Duration = Duration::from_millis(5);
/// The longest wait, however slow claims are.
const WAIT_MAX: Duration = Duration::from_millis(100);

#[derive(Default)]
pub(super) struct Rivals {
    /// How many claims in a row have found nothing, by destination.
    misses: HashMap<DestinationName, u8>,
    /// Destinations with a wake-up since the last check.
    fresh: HashSet<DestinationName>,
    /// Those with one before it: the next check asks for these.
    ripe: HashSet<DestinationName>,
    /// When the next check is due.
    next: Option<Instant>,
    /// How long claims take: a moving average.
    claim_takes: Duration,
}

impl Rivals {
    /// A claim took `took` and found `count` messages.
    pub(super) fn claimed(&mut self, name: &DestinationName, count: usize, took: Duration) {
        self.claim_takes = (self.claim_takes * 7 + took) / 8;
        if count > 0 {
            self.misses.remove(name);
        } else if let Some(misses) = self.misses.get_mut(name) {
            *misses = misses.saturating_add(1);
        } else if self.misses.len() < REMEMBERED_MAX {
            self.misses.insert(name.clone(), 1);
        }
    }

    /// A wake-up came for this destination. True if it is left to a rival, until a check.
    pub(super) fn defers(&mut self, name: &DestinationName, now: Instant) -> bool {
        if self.misses.get(name).is_none_or(|misses| *misses < MISSES) {
            return false;
        }
        if !self.ripe.contains(name) {
            self.fresh.insert(name.clone());
        }
        self.next.get_or_insert(now + wait(self.claim_takes));
        true
    }

    /// When [`Rivals::take`] is due; `None`: nothing is deferred.
    pub(super) fn next(&self) -> Option<Instant> {
        self.next
    }

    /// The destinations to check now. Each has waited for one to two periods.
    pub(super) fn take(&mut self, now: Instant) -> HashSet<DestinationName> {
        let ripe = std::mem::replace(&mut self.ripe, std::mem::take(&mut self.fresh));
        self.next = (!self.ripe.is_empty()).then(|| now + wait(self.claim_takes));
        ripe
    }

    /// Forgets destinations that are gone.
    pub(super) fn misses(&mut self) -> &mut HashMap<DestinationName, u8> {
        &mut self.misses
    }
}

fn wait(claim_takes: Duration) -> Duration {
    (WAIT + claim_takes).min(WAIT_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> DestinationName {
        text.parse().unwrap()
    }

    fn missed(rivals: &mut Rivals, name: &DestinationName) {
        for _ in 0..MISSES {
            rivals.claimed(name, 0, Duration::ZERO);
        }
    }

    #[test]
    fn only_who_came_too_late_several_times_in_a_row_waits() {
        let (mut rivals, a, now) = (Rivals::default(), name("a"), Instant::now());
        assert!(!rivals.defers(&a, now));
        rivals.claimed(&a, 0, Duration::ZERO);
        assert!(!rivals.defers(&a, now), "the message may have been cancelled");
        rivals.claimed(&a, 0, Duration::ZERO);
        assert!(rivals.defers(&a, now));
        assert!(!rivals.defers(&name("b"), now));
        rivals.claimed(&a, 1, Duration::ZERO);
        assert!(!rivals.defers(&a, now), "this one was first");
    }

    #[test]
    fn what_is_deferred_is_checked_once_after_one_to_two_periods() {
        let (mut rivals, a, b, now) = (Rivals::default(), name("a"), name("b"), Instant::now());
        missed(&mut rivals, &a);
        missed(&mut rivals, &b);
        assert_eq!(rivals.next(), None);
        rivals.defers(&a, now);
        assert_eq!(rivals.next(), Some(now + WAIT));
        assert!(rivals.take(now + WAIT).is_empty());
        rivals.defers(&b, now + WAIT);
        rivals.defers(&a, now + WAIT);
        assert_eq!(rivals.next(), Some(now + WAIT * 2));
        assert_eq!(rivals.take(now + WAIT * 2), HashSet::from([a]));
        assert_eq!(rivals.take(now + WAIT * 3), HashSet::from([b]));
        assert_eq!(rivals.next(), None, "nothing is left");
    }

    #[test]
    fn the_slower_claims_are_the_longer_a_rival_has() {
        let (mut rivals, a, now) = (Rivals::default(), name("a"), Instant::now());
        for _ in 0..50 {
            rivals.claimed(&a, 0, Duration::from_millis(40));
        }
        rivals.defers(&a, now);
        let wait = rivals.next().unwrap() - now;
        assert!(wait > Duration::from_millis(40) && wait < Duration::from_millis(46), "{wait:?}");
        for _ in 0..50 {
            rivals.claimed(&a, 0, Duration::from_secs(1));
        }
        assert_eq!(super::wait(rivals.claim_takes), WAIT_MAX);
    }
}
