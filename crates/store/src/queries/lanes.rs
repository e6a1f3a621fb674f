//! The lanes of a destination with the most pending messages, found by a scan of the keys in Redis. One call visits a
//! limited part of the keys.

use std::{collections::HashMap, time::Duration};

use redis::{Cmd, Pipeline};
use tokio::time::Instant;

use super::messages::Listed;
use crate::{
    Store, StoreError,
    entry::{CatalogEntry, set_key},
};
use domain::{Ordering, Sequence};
use redis_client::Deployment;

/// The most steps of a scan in one call.
const STEPS_MAX: usize = 20;
/// After this time, a call does not begin another step.
const TIME_MAX: Duration = Duration::from_millis(500);
/// The most lanes whose messages one round trip counts.
const COUNTED_AT_ONCE: usize = 500;

/// A lane, and the number of its messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneSize {
    /// The ordering key; `None` if the destination is one lane.
    pub key: Option<String>,
    /// Messages that have not left.
    pub pending: u64,
    /// Messages that are processed and have not left.
    pub ready: u64,
    /// The head, without its body; `None` if it has just left.
    pub head: Option<Listed>,
}

/// The largest lanes in the visited part of the keys.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LanesScanned {
    /// The lanes, sorted: the most pending messages first.
    pub lanes: Vec<LaneSize>,
    /// Where the next call continues; `None` at the end.
    pub next: Option<u64>,
    /// The share of the server's keys visited so far, 0 to 1. Unknown in a cluster.
    pub progress: Option<f64>,
}

impl Store {
    /// Visits the next part of the keys, and returns at most `max` lanes of this part: those with the most pending
    /// messages. A lane is in exactly one part, except that a scan may visit a key twice.
    pub async fn scan_lanes(
        &self,
        entry: &CatalogEntry,
        cursor: u64,
        max: usize,
    ) -> Result<LanesScanned, StoreError> {
        let sizes = match entry.destination.ordering {
            Ordering::None => {
                return Ok(LanesScanned { progress: Some(1.0), ..Default::default() });
            }
            Ordering::Destination => match self.pending_of(entry).await? {
                0 => Sizes::new(),
                count => Sizes::from([(None, count)]),
            },
            Ordering::Key => return self.scan_keyed(entry, cursor, max).await,
        };
        let lanes = self.with_heads(entry, sizes.into_iter().collect()).await?;
        Ok(LanesScanned { lanes, next: None, progress: Some(1.0) })
    }

    async fn pending_of(&self, entry: &CatalogEntry) -> Result<u64, StoreError> {
        let count: u64 = self.ask(&Cmd::zcard(self.keys_of(entry).in_progress(None))).await?;
        Ok(count)
    }

    async fn scan_keyed(
        &self,
        entry: &CatalogEntry,
        cursor: u64,
        max: usize,
    ) -> Result<LanesScanned, StoreError> {
        let keys = self.keys_of(entry);
        let (begun, mut next, mut top) = (Instant::now(), cursor, Sizes::new());
        for _ in 0..STEPS_MAX {
            let (after, found) = self.scan_keys(&keys, next).await?;
            next = after;
            let lane = |key: &bytes::Bytes| {
                let noun = std::str::from_utf8(keys.noun_of(key)?).ok()?;
                noun.strip_prefix("in-progress:").map(str::to_owned)
            };
            let lanes: Vec<String> = found.iter().filter_map(lane).collect();
            for some in lanes.chunks(COUNTED_AT_ONCE) {
                let mut pipe = Pipeline::new();
                for lane in some {
                    pipe.zcard(keys.in_progress(Some(lane)));
                }
                let counts = self.query_lenient(&pipe).await?;
                for (lane, count) in some.iter().zip(counts) {
                    // Count an unreadable key as empty.
                    let count: u64 = redis::from_redis_value(count).unwrap_or_default();
                    if count > 0 {
                        top.insert(Some(lane.clone()), count);
                    }
                }
                keep_largest(&mut top, max);
            }
            if next == 0 || begun.elapsed() > TIME_MAX {
                break;
            }
        }
        let mut sizes: Vec<(Option<String>, u64)> = top.into_iter().collect();
        sizes.sort_by(|(a_key, a), (b_key, b)| b.cmp(a).then_with(|| a_key.cmp(b_key)));
        let in_cluster = self.client().deployment() == Deployment::Cluster;
        Ok(LanesScanned {
            lanes: self.with_heads(entry, sizes).await?,
            next: (next != 0).then_some(next),
            progress: (!in_cluster).then(|| progress(next)),
        })
    }

    async fn with_heads(
        &self,
        entry: &CatalogEntry,
        sizes: Vec<(Option<String>, u64)>,
    ) -> Result<Vec<LaneSize>, StoreError> {
        if sizes.is_empty() {
            return Ok(Vec::new());
        }
        let keys = self.keys_of(entry);
        let mut pipe = Pipeline::new();
        for (lane, _) in &sizes {
            let lane = set_key(entry, lane.as_deref());
            pipe.zcard(keys.ready(lane)).zrange(keys.in_progress(lane), 0, 0);
        }
        let mut answers = self.query_lenient(&pipe).await?.into_iter();
        let mut found: Vec<(u64, Option<Sequence>)> = Vec::with_capacity(sizes.len());
        while let (Some(ready), Some(head)) = (answers.next(), answers.next()) {
            let head: Vec<Sequence> = redis::from_redis_value(head).unwrap_or_default();
            let ready = redis::from_redis_value(ready).unwrap_or_default();
            found.push((ready, head.first().copied()));
        }
        let heads: Vec<Sequence> = found.iter().filter_map(|(_, head)| *head).collect();
        let listed = self.listed(entry, &heads).await?;
        let mut listed: HashMap<Sequence, Listed> =
            listed.into_iter().map(|one| (one.message.position.sequence, one)).collect();
        let lanes = sizes.into_iter().zip(found).map(|((key, pending), (ready, head))| LaneSize {
            key,
            pending,
            ready,
            head: head.and_then(|head| listed.remove(&head)),
        });
        Ok(lanes.collect())
    }
}

/// The pending messages of each lane.
type Sizes = HashMap<Option<String>, u64>;

/// Removes the smallest lanes until at most `max` are left.
fn keep_largest(sizes: &mut Sizes, max: usize) {
    if sizes.len() <= max {
        return;
    }
    let mut counts: Vec<u64> = sizes.values().copied().collect();
    counts.sort_unstable_by(|a, b| b.cmp(a));
    let least = counts[max - 1];
    let mut rest = max - counts.iter().filter(|count| **count > least).count();
    sizes.retain(|_, count| {
        let is_among_last = *count == least && rest > 0;
        rest -= usize::from(is_among_last);
        *count > least || is_among_last
    });
}

/// The share of the keys that a scan has visited. Redis counts its cursor up from the highest bit.
fn progress(cursor: u64) -> f64 {
    match cursor {
        0 => 1.0,
        _ => cursor.reverse_bits() as f64 / u64::MAX as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_largest_are_kept() {
        let mut sizes: Sizes = (0..100).map(|n| (Some(n.to_string()), n / 2)).collect();
        keep_largest(&mut sizes, 3);
        let mut counts: Vec<u64> = sizes.values().copied().collect();
        counts.sort_unstable();
        assert_eq!(counts, [48, 49, 49]);
    }

    #[test]
    fn a_cursor_tells_how_far_a_scan_is() {
        // A table of eight buckets is visited in this order, after 0.
        for (visited, cursor) in [4_u64, 2, 6, 1, 5, 3, 7].into_iter().enumerate() {
            let share = (visited + 1) as f64 / 8.0;
            assert!((progress(cursor) - share).abs() < 1e-9, "{cursor}: {}", progress(cursor));
        }
        assert_eq!(progress(0), 1.0);
    }
}
