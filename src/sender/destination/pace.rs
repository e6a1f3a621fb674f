//! How many deliveries of a destination may begin in one second (`delivery.rate_per_second_max`).

use std::{num::NonZeroU32, time::Duration};

use governor::{
    DefaultDirectRateLimiter, Quota, RateLimiter,
    clock::{Clock, DefaultClock},
};

/// So much of a second's deliveries may begin at once after a quiet time: a twentieth.
const BURST_PART: u32 = 20;

/// The generic cell rate algorithm of `governor`: evenly, and with no more of a burst than above.
#[derive(Default)]
pub(super) struct Pace {
    rate_per_second_max: u32,
    limiter: Option<DefaultDirectRateLimiter>,
}

impl Pace {
    /// Follows the definition. What was begun counts as long as the number stays the same.
    pub(super) fn set(&mut self, rate_per_second_max: u32) {
        if self.rate_per_second_max == rate_per_second_max {
            return;
        }
        self.rate_per_second_max = rate_per_second_max;
        self.limiter = NonZeroU32::new(rate_per_second_max).map(|number| {
            let burst =
                NonZeroU32::new(rate_per_second_max / BURST_PART).unwrap_or(NonZeroU32::MIN);
            RateLimiter::direct(Quota::per_second(number).allow_burst(burst))
        });
    }

    /// Takes the turn for one delivery, or says how long there is none.
    pub(super) fn take(&self) -> Result<(), Duration> {
        let Some(limiter) = &self.limiter else { return Ok(()) };
        limiter.check().map_err(|early| early.wait_time_from(DefaultClock::default().now()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_a_twentieth_of_a_second_and_then_each_waits_its_turn() {
        let mut pace = Pace::default();
        assert!((0..1000).all(|_| pace.take().is_ok()), "without a limit none waits");
        pace.set(2);
        assert_eq!(pace.take(), Ok(()));
        let wait = pace.take().unwrap_err();
        assert!(wait <= Duration::from_millis(500), "{wait:?}");
        pace.set(2);
        assert!(pace.take().is_err(), "the same definition again is no new second");
        pace.set(40);
        assert_eq!((pace.take(), pace.take()), (Ok(()), Ok(())));
        assert!(pace.take().is_err());
        pace.set(0);
        assert_eq!(pace.take(), Ok(()));
    }
}
