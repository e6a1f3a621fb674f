//! Spares a receiver that fails (`delivery.breaker_failures`). No I/O; the caller passes the time in.
//!
//! ```text
//!            failures in a row, of several messages         a delivery is accepted
//!   Closed ──────────────────────────────────────► Open ──────────────────────────► Recovering
//!     ▲                                            │  ▲                                 │
//!     │                        the probe has failed└──┘     the failures begin again    │
//!     └──────────────────────────────────────────────── five seconds without ◄──────────┘
//! ```
//!
//! While the breaker is open, one delivery at a time begins: the probe. It begins after 1 s, then after 2, 4, 5, 5 … s.
//! After the first accepted delivery, deliveries begin at 10 a second, twice as many after each half second.

mod receiver;

pub(super) use receiver::{Hosts, Probes, Receiver};

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use tokio::time::Instant;

/// The wait before the first probe.
const PAUSE: Duration = Duration::from_secs(1);
/// The longest wait between two probes, unless the receiver asks for more.
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// After this time deliveries are not limited any more: about 7,000 have begun.
const RECOVERY: Duration = Duration::from_secs(5);
/// In the first second of a recovery, 10 · (2² - 1) / (2 · ln 2) = 22 deliveries may begin.
const RECOVERY_SCALE: f64 = 10.0 / (2.0 * std::f64::consts::LN_2);

/// A delivery that the breaker let through while it was open. If this is dropped, another probe may begin.
type Probe = Arc<()>;

/// The breaker of a destination, or of a host.
#[derive(Debug, Default)]
pub(super) struct Breaker {
    /// The number of failures in a row that opens the breaker; 0: it never opens.
    failures_max: u32,
    /// Failures in a row, and the message of the first one.
    failures: u32,
    first: Option<u64>,
    /// True if several messages have failed. One message that fails again and again has its own backoff.
    are_of_several: bool,
    state: State,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Closed,
    Open {
        probe_at: Instant,
        pause: Duration,
        probe: Weak<()>,
    },
    Recovering {
        since: Instant,
        begun: u32,
    },
}

impl Breaker {
    pub(super) fn new(failures_max: u32) -> Breaker {
        Breaker { failures_max, ..Breaker::default() }
    }

    /// Adopts the limit of a changed definition.
    pub(super) fn set_failures_max(&mut self, failures_max: u32) {
        self.failures_max = failures_max;
        if failures_max == 0 {
            self.state = State::Closed;
        }
    }

    /// Asks whether a delivery may begin now. If not, the error says how long to wait, unless a delivery ends before.
    pub(super) fn take(&mut self, now: Instant) -> Result<Option<Probe>, Duration> {
        match &mut self.state {
            State::Closed => Ok(None),
            State::Open { probe, .. } if probe.strong_count() > 0 => Err(PAUSE_MAX),
            State::Open { probe_at, .. } if now < *probe_at => Err(*probe_at - now),
            State::Open { probe, .. } => {
                let begun = Probe::default();
                *probe = Arc::downgrade(&begun);
                Ok(Some(begun))
            }
            State::Recovering { since, .. } if now >= *since + RECOVERY => {
                self.state = State::Closed;
                Ok(None)
            }
            State::Recovering { since, begun } => {
                let next = (f64::from(*begun) / RECOVERY_SCALE).ln_1p() / 4f64.ln();
                let at = *since + Duration::from_secs_f64(next);
                if now < at {
                    return Err(at - now);
                }
                *begun += 1;
                Ok(None)
            }
        }
    }

    /// Called when the receiver has accepted a message, or answered that it never will: the receiver works.
    pub(super) fn works(&mut self, now: Instant) {
        (self.failures, self.first, self.are_of_several) = (0, None, false);
        if let State::Open { .. } = self.state {
            self.state = State::Recovering { since: now, begun: 0 };
        }
    }

    /// Called when a delivery of a message has failed. `asked`: the wait that the receiver asked for.
    pub(super) fn fails(
        &mut self,
        now: Instant,
        message: u64,
        is_probe: bool,
        asked: Option<Duration>,
    ) {
        self.failures = self.failures.saturating_add(1);
        self.are_of_several |= *self.first.get_or_insert(message) != message;
        let asked = asked.unwrap_or_default();
        match &mut self.state {
            State::Open { probe_at, pause, .. } => {
                if is_probe {
                    *pause = (*pause * 2).min(PAUSE_MAX);
                    *probe_at = now + *pause;
                }
                *probe_at = (*probe_at).max(now + asked);
            }
            State::Closed | State::Recovering { .. } => {
                let is_enough = self.failures_max > 0 && self.failures >= self.failures_max;
                if is_enough && self.are_of_several {
                    let (probe_at, probe) = (now + PAUSE.max(asked), Weak::new());
                    self.state = State::Open { probe_at, pause: PAUSE, probe };
                }
            }
        }
    }

    /// When the next probe begins, if the breaker is open. While a probe is in progress, this time is over.
    pub(super) fn probe_at(&self) -> Option<Instant> {
        match self.state {
            State::Open { probe_at, .. } => Some(probe_at),
            State::Closed | State::Recovering { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// Open since `now`, after failures of several messages.
    fn open(now: Instant) -> Breaker {
        let mut breaker = Breaker::new(3);
        (1..=3).for_each(|message| breaker.fails(now, message, false, None));
        breaker
    }

    #[test]
    fn failures_in_a_row_of_several_messages_open_it() {
        let now = Instant::now();
        let mut breaker = Breaker::new(3);
        (0..100).for_each(|_| breaker.fails(now, 7, false, None));
        assert!(breaker.take(now).is_ok(), "one message has its own backoff");
        breaker.works(now);
        for message in [1, 2] {
            breaker.fails(now, message, false, None);
        }
        assert!(breaker.take(now).is_ok() && breaker.probe_at().is_none());
        breaker.fails(now, 1, false, None);
        assert_eq!(breaker.take(now).unwrap_err(), PAUSE);
        assert_eq!(breaker.probe_at(), Some(now + PAUSE));
        let mut off = Breaker::new(0);
        (0..100).for_each(|message| off.fails(now, message, false, None));
        assert!(off.take(now).is_ok());
    }

    #[test]
    fn one_probe_at_a_time_and_the_waits_double() {
        let start = Instant::now();
        let (mut breaker, mut now) = (open(start), start);
        for pause in [1_000, 2_000, 4_000, 5_000, 5_000].map(ms) {
            assert_eq!(breaker.take(now).unwrap_err(), pause);
            now += pause;
            let probe = breaker.take(now).unwrap();
            assert!(probe.is_some());
            assert!(breaker.take(now + ms(60_000)).is_err(), "one is in progress");
            breaker.fails(now, 1, true, None);
        }
        breaker.fails(now, 9, false, Some(ms(90_000)));
        assert_eq!(breaker.take(now).unwrap_err(), ms(90_000), "the receiver asked for it");
    }

    #[test]
    fn a_probe_that_never_ends_is_replaced_once_it_is_dropped() {
        let start = Instant::now();
        let mut breaker = open(start);
        let probe = breaker.take(start + PAUSE).unwrap();
        assert!(breaker.take(start + PAUSE).is_err());
        drop(probe);
        assert!(breaker.take(start + PAUSE).unwrap().is_some());
    }

    #[test]
    fn after_a_success_a_thousand_begin_within_five_seconds() {
        let start = Instant::now();
        let mut breaker = open(start);
        breaker.works(start);
        let (mut now, mut begun) = (start, Vec::new());
        while begun.len() < 1_000 {
            match breaker.take(now) {
                Ok(probe) => {
                    assert!(probe.is_none());
                    begun.push(now - start);
                }
                Err(wait) => now += wait,
            }
        }
        let within = |limit| begun.iter().filter(|time| **time < limit).count();
        assert_eq!((within(ms(1)), within(ms(500)), within(ms(1_000))), (1, 8, 22));
        assert!(begun[999] < RECOVERY, "{:?}", begun[999]);
        assert!((0..10_000).all(|_| breaker.take(start + RECOVERY).is_ok()));
    }

    #[test]
    fn failures_during_a_recovery_open_it_again() {
        let start = Instant::now();
        let mut breaker = open(start);
        breaker.works(start);
        (1..=3).for_each(|message| breaker.fails(start, message, false, None));
        assert_eq!(breaker.take(start).unwrap_err(), PAUSE);
    }
}
