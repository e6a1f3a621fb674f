//! Decides what becomes of a message after a failed attempt: one rule for transforms and deliveries.

use std::time::Duration;

use crate::{
    Backoff, Destination, OnExhausted, ProcessingOptions, Stage, Tombstone, attempts::LATER_MAX,
};

/// Whether another attempt may succeed after a failed one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finality {
    /// Another attempt may succeed.
    Retryable,
    /// No attempt at this message will ever succeed.
    Permanent,
    /// Another attempt may succeed. After the last one, an operator must act: the fault is in the configuration.
    RetryableThenHalts,
    /// No attempt at any message will succeed: the receiver is gone, and an operator must act.
    Halts,
}

/// What becomes of a message after a failed attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Disposition {
    /// Make another attempt after this time.
    Postpone(Duration),
    /// Halt: the message keeps its position, and its lane waits for an operator.
    Halt,
    /// Withdraw: the message leaves without being delivered, for this reason.
    Withdraw(Tombstone, String),
}

impl Disposition {
    /// How long the message waits for another attempt, if one follows.
    pub fn wait(&self) -> Option<Duration> {
        match self {
            Disposition::Postpone(wait) => Some(*wait),
            Disposition::Halt | Disposition::Withdraw(..) => None,
        }
    }
}

/// When a failed attempt is repeated, and what happens when no more attempts are left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// The stage of the attempts.
    pub stage: Stage,
    /// The most attempts; 0: no limit.
    pub attempts_max: u32,
    /// The wait between attempts.
    pub backoff: Backoff,
    /// The longest wait that a receiver or service may ask for (`Retry-After`).
    pub asked_max: Duration,
    /// What happens when no more attempts are left.
    pub on_exhausted: OnExhausted,
}

impl RetryPolicy {
    /// The policy for the processing of a message with these options.
    pub fn of_transform(destination: &Destination, options: &ProcessingOptions) -> RetryPolicy {
        let transform = &destination.transform;
        let limits = [transform.attempts_max, options.attempts_max];
        RetryPolicy {
            stage: Stage::Transform,
            attempts_max: limits.into_iter().filter(|most| *most > 0).min().unwrap_or_default(),
            backoff: Backoff {
                base_ms: options.backoff_ms.unwrap_or(transform.backoff_ms),
                max_ms: transform.backoff_max_ms,
            },
            asked_max: Duration::from_millis(transform.retry_after_max_ms),
            on_exhausted: destination.on_exhausted,
        }
    }

    /// The policy for deliveries.
    pub fn of_delivery(destination: &Destination) -> RetryPolicy {
        let delivery = &destination.delivery;
        RetryPolicy {
            stage: Stage::Delivery,
            attempts_max: delivery.attempts_max,
            backoff: delivery.backoff(),
            asked_max: Duration::from_millis(delivery.retry_after_max_ms),
            on_exhausted: destination.on_exhausted,
        }
    }

    /// Decides what becomes of a message after its failed attempt number `failed`, from 1. The next attempt waits at
    /// least as long as the receiver or service `asked` for (`Retry-After`). `chance` is a random number in `[0, 1)`.
    pub fn after(
        &self,
        failed: u32,
        finality: Finality,
        asked: Option<Duration>,
        chance: f64,
    ) -> Disposition {
        let is_retryable = matches!(finality, Finality::Retryable | Finality::RetryableThenHalts);
        if is_retryable && (self.attempts_max == 0 || failed < self.attempts_max) {
            let asked = asked.unwrap_or_default().min(self.asked_max);
            return Disposition::Postpone(self.backoff.wait(failed, chance).max(asked));
        }
        match finality {
            Finality::Halts | Finality::RetryableThenHalts => Disposition::Halt,
            _ => self.exhausted(finality == Finality::Permanent),
        }
    }

    /// Decides what becomes of a message whose worker asks to get it later, after `wait`. This is its request number
    /// `asked`.
    pub fn after_request(&self, asked: u32, wait: Duration) -> Disposition {
        match asked > LATER_MAX {
            true => self.exhausted(false),
            false => Disposition::Postpone(wait),
        }
    }

    /// Decides what becomes of a message without another attempt: it can never succeed, or has used up its attempts.
    pub fn exhausted(&self, is_permanent: bool) -> Disposition {
        let reason = match (self.stage, is_permanent) {
            (Stage::Transform, true) => "failed for good",
            (Stage::Transform, false) => "its attempts were used up",
            (Stage::Delivery, true) => "the receiver will never take it",
            (Stage::Delivery, false) => "the attempts at its delivery are used up",
        };
        let how = match self.on_exhausted {
            OnExhausted::Halt => return Disposition::Halt,
            OnExhausted::DeadLetter => Tombstone::DeadLettered,
            OnExhausted::Drop => Tombstone::Dropped,
        };
        Disposition::Withdraw(how, reason.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(attempts_max: u32, on_exhausted: OnExhausted) -> RetryPolicy {
        let mut destination = Destination::new("erp".parse().unwrap(), "http://h/");
        destination.delivery.attempts_max = attempts_max;
        destination.delivery.retry_after_max_ms = 9_000;
        destination.on_exhausted = on_exhausted;
        RetryPolicy::of_delivery(&destination)
    }

    #[test]
    fn message_is_tried_again_until_its_attempts_are_used_up() {
        let of = |attempts_max, failed| {
            let asked = Some(Duration::from_secs(60));
            policy(attempts_max, OnExhausted::Halt).after(failed, Finality::Retryable, asked, 0.0)
        };
        let postponed = Disposition::Postpone(Duration::from_secs(9));
        assert_eq!(of(0, 1_000_000), postponed, "0: for ever");
        assert_eq!((of(3, 1), of(3, 2)), (postponed.clone(), postponed));
        assert_eq!(
            (of(3, 3), of(3, 4), of(1, 1)),
            (Disposition::Halt, Disposition::Halt, Disposition::Halt)
        );
    }

    #[test]
    fn final_refusal_is_not_retried_and_gone_always_halts() {
        let of = |on_exhausted, finality| policy(0, on_exhausted).after(1, finality, None, 0.5);
        let withdrawn = |how| Disposition::Withdraw(how, "the receiver will never take it".into());
        assert_eq!(of(OnExhausted::Halt, Finality::Permanent), Disposition::Halt);
        assert_eq!(
            of(OnExhausted::DeadLetter, Finality::Permanent),
            withdrawn(Tombstone::DeadLettered)
        );
        assert_eq!(of(OnExhausted::Drop, Finality::Permanent), withdrawn(Tombstone::Dropped));
        for on_exhausted in [OnExhausted::Halt, OnExhausted::DeadLetter, OnExhausted::Drop] {
            assert_eq!(of(on_exhausted, Finality::Halts), Disposition::Halt);
        }
    }

    #[test]
    fn wait_asked_for_is_the_least_up_to_a_cap() {
        let wait = |asked_ms| {
            let asked = Some(Duration::from_millis(asked_ms));
            policy(0, OnExhausted::Halt).after(1, Finality::Retryable, asked, 0.5).wait()
        };
        let waits = [0, 7_000, 60_000].map(wait);
        assert_eq!(waits, [100, 7_000, 9_000].map(|ms| Some(Duration::from_millis(ms))));
    }

    #[test]
    fn fewer_attempts_of_destination_and_producer_count() {
        let of = |attempts_max, asked| {
            let mut destination = Destination::new("erp".parse().unwrap(), "http://h/");
            destination.transform.attempts_max = attempts_max;
            let options = ProcessingOptions { attempts_max: asked, ..Default::default() };
            RetryPolicy::of_transform(&destination, &options).attempts_max
        };
        assert_eq!([of(3, 2), of(2, 3), of(3, 0), of(0, 2), of(0, 0)], [2, 2, 3, 2, 0]);
    }

    #[test]
    fn worker_may_ask_for_a_message_later_up_to_a_limit() {
        let wait = Duration::from_secs(5);
        let after = |asked| policy(1, OnExhausted::Halt).after_request(asked, wait);
        assert_eq!(after(LATER_MAX), Disposition::Postpone(wait));
        assert_eq!(after(LATER_MAX + 1), Disposition::Halt);
    }
}
