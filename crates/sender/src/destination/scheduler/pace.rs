//! Limits how many deliveries of a destination begin in one second (`delivery.rate_per_second_max`).

use std::{num::NonZeroU32, sync::Arc, time::Duration};

use governor::{
    Quota, RateLimiter,
    clock::Clock,
    middleware::NoOpMiddleware,
    state::{InMemoryState, NotKeyed},
};
use parking_lot::Mutex;
use tokio::time::Instant;

type StdInstant = std::time::Instant;
type Limiter = RateLimiter<NotKeyed, InMemoryState, GivenClock, NoOpMiddleware<StdInstant>>;

/// After a quiet time, one second's deliveries divided by this may begin at once.
const BURST_PART: u32 = 20;

/// The generic cell rate algorithm of `governor`: deliveries begin evenly, with the small burst above.
#[derive(Default)]
pub(super) struct Pace {
    rate_per_second_max: u32,
    limit: Option<(Limiter, GivenClock)>,
}

/// A clock that shows the time passed in by the caller, so that tests do not wait.
#[derive(Clone)]
struct GivenClock(Arc<Mutex<StdInstant>>);

impl GivenClock {
    fn set(&self, now: Instant) {
        *self.0.lock() = now.into_std();
    }
}

impl Clock for GivenClock {
    type Instant = StdInstant;

    fn now(&self) -> StdInstant {
        *self.0.lock()
    }
}

impl Pace {
    /// Sets the rate of the definition. If the rate stays the same, earlier deliveries still count.
    pub(super) fn set(&mut self, rate_per_second_max: u32, now: Instant) {
        if self.rate_per_second_max == rate_per_second_max {
            return;
        }
        self.rate_per_second_max = rate_per_second_max;
        self.limit = NonZeroU32::new(rate_per_second_max).map(|number| {
            let burst =
                NonZeroU32::new(rate_per_second_max / BURST_PART).unwrap_or(NonZeroU32::MIN);
            let clock = GivenClock(Arc::new(Mutex::new(now.into_std())));
            let quota = Quota::per_second(number).allow_burst(burst);
            (RateLimiter::direct_with_clock(quota, clock.clone()), clock)
        });
    }

    /// Takes the slot of one delivery. If no slot is free, the error says how long to wait.
    pub(super) fn take(&self, now: Instant) -> Result<(), Duration> {
        let Some((limiter, clock)) = &self.limit else { return Ok(()) };
        clock.set(now);
        limiter.check().map_err(|early| early.wait_time_from(now.into_std()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn burst_is_a_twentieth_of_a_second_then_deliveries_wait() {
        let start = Instant::now();
        let mut pace = Pace::default();
        assert!((0..1000).all(|_| pace.take(start).is_ok()), "without a limit none waits");
        pace.set(2, start);
        assert_eq!(pace.take(start), Ok(()));
        let wait = Duration::from_millis(500);
        assert_eq!(pace.take(start), Err(wait));
        pace.set(2, start);
        assert_eq!(pace.take(start), Err(wait), "the same definition again is no new second");
        assert_eq!(pace.take(start + wait), Ok(()));
        assert_eq!(pace.take(start + wait), Err(wait));
        pace.set(40, start);
        assert_eq!((pace.take(start), pace.take(start)), (Ok(()), Ok(())));
        assert!(pace.take(start).is_err());
        pace.set(0, start);
        assert_eq!(pace.take(start), Ok(()));
    }
}
