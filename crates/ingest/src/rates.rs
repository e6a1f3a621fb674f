//! Limits how many messages per second this process accepts from a token, and for a destination.
//!
//! Uses the generic cell rate algorithm: a bucket holds the messages of one second, and is refilled evenly. A batch may
//! take more than the bucket holds; later messages then wait until the bucket has made up for it. Otherwise a batch
//! larger than the bucket could never be sent. The library that limits the sender's rate refuses such batches, so
//! ingest does not use it.

use std::{collections::HashMap, fmt::Write, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

/// With more buckets than this, the full ones are removed: a full bucket equals a new one.
const BUCKETS_MAX: usize = 10_000;
/// The length of the window that the headers report, in seconds.
const WINDOW_SECONDS: u64 = 1;

/// The buckets of one kind: of tokens or of destinations. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Rates(Arc<Mutex<HashMap<String, Bucket>>>);

#[derive(Debug, Clone, Copy)]
struct Bucket {
    /// When the bucket is full again.
    full_at: Instant,
}

/// How much of a rate is left, for the headers of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Left {
    rate_per_second_max: u32,
    /// How many messages can be sent at once.
    messages: u64,
    /// The time until the bucket is full again.
    full_in: Duration,
}

impl Rates {
    /// Takes `count` messages from the bucket of this name. The error is the time until the bucket allows a message.
    pub fn take(
        &self,
        name: &str,
        rate_per_second_max: u32,
        count: usize,
        now: Instant,
    ) -> Result<(), Duration> {
        if rate_per_second_max == 0 || count == 0 {
            return Ok(());
        }
        let each = Duration::from_secs(WINDOW_SECONDS) / rate_per_second_max;
        let mut buckets = self.0.lock();
        if buckets.len() >= BUCKETS_MAX && !buckets.contains_key(name) {
            buckets.retain(|_, bucket| bucket.full_at > now);
        }
        let full_at = buckets.get(name).map_or(now, |bucket| bucket.full_at.max(now));
        let taken = full_at - now;
        if taken + each > Duration::from_secs(WINDOW_SECONDS) {
            return Err(taken + each - Duration::from_secs(WINDOW_SECONDS));
        }
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        let bucket = Bucket { full_at: full_at + each.saturating_mul(count) };
        match buckets.get_mut(name) {
            Some(held) => *held = bucket,
            None => drop(buckets.insert(name.to_owned(), bucket)),
        }
        Ok(())
    }

    /// Takes `count` messages even if the bucket is empty: the rest of a batch that has begun.
    pub fn owe(&self, name: &str, rate_per_second_max: u32, count: usize, now: Instant) {
        if rate_per_second_max == 0 {
            return;
        }
        let each = Duration::from_secs(WINDOW_SECONDS) / rate_per_second_max;
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        let mut buckets = self.0.lock();
        if let Some(bucket) = buckets.get_mut(name) {
            bucket.full_at = bucket.full_at.max(now) + each.saturating_mul(count);
        }
    }

    /// The content of the bucket of this name; `None` without a limit.
    pub fn left(&self, name: &str, rate_per_second_max: u32, now: Instant) -> Option<Left> {
        if rate_per_second_max == 0 {
            return None;
        }
        let buckets = self.0.lock();
        let full_at = buckets.get(name).map_or(now, |bucket| bucket.full_at.max(now));
        let full_in = full_at - now;
        let free = Duration::from_secs(WINDOW_SECONDS).saturating_sub(full_in);
        let messages = free.as_nanos() * u128::from(rate_per_second_max) / 1_000_000_000;
        Some(Left {
            rate_per_second_max,
            messages: u64::try_from(messages).unwrap_or(u64::MAX),
            full_in,
        })
    }
}

/// The number of seconds to wait, rounded up.
pub fn whole_seconds(wait: Duration) -> u64 {
    wait.as_secs() + u64::from(wait.subsec_nanos() > 0)
}

/// The headers `RateLimit-Policy` and `RateLimit` (draft-ietf-httpapi-ratelimit-headers-10) for these rates and their
/// names.
pub fn headers(rates: &[(&str, Left)]) -> (String, String) {
    let (mut policy, mut state) = (String::new(), String::new());
    for (name, left) in rates {
        let comma = if policy.is_empty() { "" } else { ", " };
        let full_in = whole_seconds(left.full_in);
        // Writing to a string cannot fail.
        let _ =
            write!(policy, "{comma}\"{name}\";q={};w={WINDOW_SECONDS}", left.rate_per_second_max);
        let _ = write!(state, "{comma}\"{name}\";r={};t={full_in}", left.messages);
    }
    (policy, state)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn messages_of_one_second_pass_at_once_then_each_waits() {
        let (rates, start) = (Rates::default(), Instant::now());
        for _ in 0..4 {
            assert_eq!(rates.take("a", 4, 1, start), Ok(()));
        }
        assert_eq!(rates.take("a", 4, 1, start), Err(SECOND / 4));
        assert_eq!(rates.take("b", 4, 1, start), Ok(()), "each name has a bucket of its own");
        assert_eq!(rates.take("a", 4, 1, start + SECOND / 4), Ok(()));
        assert_eq!(rates.take("a", 4, 1, start + SECOND / 4), Err(SECOND / 4));
        assert!((0..9).all(|_| rates.take("a", 0, 1, start).is_ok()), "0 is no limit");
    }

    #[test]
    fn a_batch_larger_than_the_rate_is_paid_back() {
        let (rates, start) = (Rates::default(), Instant::now());
        assert_eq!(rates.take("a", 10, 50, start), Ok(()));
        assert_eq!(rates.take("a", 10, 1, start), Err(SECOND * 4 + SECOND / 10));
        assert_eq!(rates.take("a", 10, 1, start + SECOND * 5), Ok(()));
        rates.owe("a", 10, 10, start + SECOND * 5);
        assert!(rates.take("a", 10, 1, start + SECOND * 5).is_err());
        // The largest count is no overflow.
        assert_eq!(rates.take("b", 1, usize::MAX, start), Ok(()));
        assert!(rates.take("b", 1, 1, start).unwrap_err() > SECOND * 1_000_000);
    }

    #[test]
    fn the_headers_tell_each_rate_and_what_is_left() {
        let (rates, start) = (Rates::default(), Instant::now());
        rates.take("a", 4, 3, start).unwrap();
        let token = rates.left("a", 4, start).unwrap();
        let destination = rates.left("erp", 100, start).unwrap();
        let (policy, state) = headers(&[("token", token), ("destination", destination)]);
        assert_eq!(policy, "\"token\";q=4;w=1, \"destination\";q=100;w=1");
        assert_eq!(state, "\"token\";r=1;t=1, \"destination\";r=100;t=0");
        assert_eq!(rates.left("a", 0, start), None);
        assert_eq!(whole_seconds(SECOND / 4), 1);
    }

    #[test]
    fn full_buckets_are_forgotten() {
        let (rates, start) = (Rates::default(), Instant::now());
        for name in 0..BUCKETS_MAX {
            rates.take(&name.to_string(), 1, 1, start).unwrap();
        }
        rates.take("another", 1, 1, start + SECOND * 2).unwrap();
        assert_eq!(rates.0.lock().len(), 1);
    }
}
