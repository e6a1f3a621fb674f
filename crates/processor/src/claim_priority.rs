//! Decides which processor claims from a destination first. A wake-up reaches every processor, but only one of them
//! gets the message, and a claim that finds nothing costs Redis nearly as much as one that finds a message. So each
//! processor computes the same order of the live processors for a destination (rendezvous hashing: Thaler and
//! Ravishankar, "Using name-based mappings to increase hit rates", 1998). The first processor claims at once. Each of
//! the others waits longer than the processor before it, because the processors before it may be busy, or gone. Then it
//! asks Redis which of the destinations that it left to others still have waiting messages. The order only divides the
//! work. If processors do not agree on it, for example because one has just started, claims find nothing or begin
//! later. No I/O.

use std::{
    collections::{HashSet, VecDeque},
    hash::{DefaultHasher, Hash, Hasher},
    time::Duration,
};

use tokio::time::Instant;

use domain::DestinationName;

/// The period of the checks is this plus the average time of a claim.
const PERIOD: Duration = Duration::from_millis(5);
/// The longest period, even if claims are slow.
const PERIOD_MAX: Duration = Duration::from_millis(100);
/// The most periods that a processor waits, even if more processors are before it.
const PERIODS_MAX: usize = 4;

pub(super) struct ClaimPriority {
    /// This processor's pod.
    pod: String,
    /// The pods of the other processors.
    others: Vec<String>,
    /// The destinations that are left to others, by check: the next check takes the first set.
    left: VecDeque<HashSet<DestinationName>>,
    /// When the next check is due.
    next: Option<Instant>,
    /// The time that claims take: a moving average.
    claim_takes: Duration,
}

impl ClaimPriority {
    pub(super) fn new(pod: &str) -> ClaimPriority {
        ClaimPriority {
            pod: pod.to_owned(),
            others: Vec::new(),
            left: VecDeque::new(),
            next: None,
            claim_takes: Duration::ZERO,
        }
    }

    /// Sets the pods of all live processors.
    pub(super) fn live(&mut self, pods: impl Iterator<Item = String>) {
        self.others = pods.filter(|pod| *pod != self.pod).collect();
    }

    /// Notes how long a claim took.
    pub(super) fn claimed(&mut self, took: Duration) {
        self.claim_takes = (self.claim_takes * 7 + took) / 8;
    }

    /// Decides about a destination that may have waiting messages. True if this processor leaves the destination to
    /// others until its next check.
    pub(super) fn defers(&mut self, name: &DestinationName, now: Instant) -> bool {
        let mine = rank(&self.pod, name);
        let before = self.others.iter().filter(|other| rank(other, name) < mine).count();
        if before == 0 {
            return false;
        }
        if !self.left.iter().any(|names| names.contains(name)) {
            let periods = before.min(PERIODS_MAX);
            self.left.resize_with(self.left.len().max(periods + 1), HashSet::new);
            self.left[periods].insert(name.clone());
        }
        self.next.get_or_insert(now + period(self.claim_takes));
        true
    }

    /// The time of the next check; `None`: no destination is left to others.
    pub(super) fn next(&self) -> Option<Instant> {
        self.next
    }

    /// The destinations to check now.
    pub(super) fn take(&mut self, now: Instant) -> HashSet<DestinationName> {
        let due = self.left.pop_front().unwrap_or_default();
        let is_empty = self.left.iter().all(HashSet::is_empty);
        self.next = (!is_empty).then(|| now + period(self.claim_takes));
        due
    }

    /// Forgets the destinations that are left to others.
    pub(super) fn clear(&mut self) {
        (self.left, self.next) = (VecDeque::new(), None);
    }
}

/// The place of a pod in the order of a destination: the lowest is first. Pods of the same version compute the same.
fn rank(pod: &str, name: &DestinationName) -> u64 {
    let mut hasher = DefaultHasher::new();
    (pod, name.as_str()).hash(&mut hasher);
    hasher.finish()
}

fn period(claim_takes: Duration) -> Duration {
    (PERIOD + claim_takes).min(PERIOD_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PODS: [&str; 3] = ["a", "b", "c"];

    fn all() -> Vec<ClaimPriority> {
        let live = |pod: &&str| {
            let mut rivals = ClaimPriority::new(pod);
            rivals.live(PODS.iter().map(|pod| (*pod).to_owned()));
            rivals
        };
        PODS.iter().map(live).collect()
    }

    fn names() -> Vec<DestinationName> {
        (0..300).map(|number| format!("d-{number}").parse().unwrap()).collect()
    }

    #[test]
    fn destinations_have_one_first_processor_and_spread_evenly() {
        let (mut all, now, mut firsts) = (all(), Instant::now(), [0; 3]);
        for name in names() {
            let first: Vec<usize> = (0..3).filter(|at| !all[*at].defers(&name, now)).collect();
            assert_eq!(first.len(), 1, "{name}");
            firsts[first[0]] += 1;
        }
        assert!(firsts.iter().all(|count| (70..130).contains(count)), "{firsts:?}");
        let mut alone = ClaimPriority::new("a");
        assert!(!alone.defers(&names()[0], now));
        assert_eq!(alone.next(), None);
    }

    #[test]
    fn only_destinations_of_a_gone_processor_get_another_first() {
        let (mut before, mut after, now) = (all(), all(), Instant::now());
        after.pop();
        after
            .iter_mut()
            .for_each(|rivals| rivals.live(PODS[..2].iter().map(|pod| (*pod).to_owned())));
        for name in names() {
            let was = (0..3).find(|at| !before[*at].defers(&name, now));
            let is = (0..2).find(|at| !after[*at].defers(&name, now));
            assert!(was == Some(2) || was == is, "{name}: {was:?}, {is:?}");
        }
    }

    #[test]
    fn second_checks_after_one_to_two_periods_third_one_later() {
        let (mut all, start, name) = (all(), Instant::now(), names().remove(0));
        let mut checked = Vec::new();
        for rivals in &mut all {
            let mut periods = 0;
            while rivals.defers(&name, start) && periods < 10 {
                let due = start + PERIOD * (periods + 1);
                periods += 1;
                assert_eq!(rivals.next(), Some(due));
                if rivals.take(due).contains(&name) {
                    break;
                }
            }
            assert!(rivals.next().is_none(), "nothing is left");
            checked.push(periods);
        }
        checked.sort_unstable();
        assert_eq!(checked, [0, 2, 3]);
    }

    #[test]
    fn the_slower_claims_are_the_longer_the_others_wait() {
        let (mut rivals, now) = (all().remove(0), Instant::now());
        let theirs = names().into_iter().find(|name| rivals.defers(name, now)).unwrap();
        rivals.clear();
        assert_eq!(rivals.next(), None);
        for _ in 0..50 {
            rivals.claimed(Duration::from_millis(40));
        }
        rivals.defers(&theirs, now);
        let wait = rivals.next().unwrap() - now;
        assert!(wait > Duration::from_millis(40) && wait < Duration::from_millis(46), "{wait:?}");
        for _ in 0..50 {
            rivals.claimed(Duration::from_secs(1));
        }
        assert_eq!(period(rivals.claim_takes), PERIOD_MAX);
    }
}
