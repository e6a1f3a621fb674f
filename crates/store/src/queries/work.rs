//! Finds work: destinations with waiting messages, and destinations with heads that may leave. The answers are hints:
//! the scripts decide.

use std::{
    collections::{BTreeSet, HashSet},
    sync::Arc,
    time::Duration,
};

use redis::Value;

use crate::{
    Store, StoreError,
    calls::answered,
    entry::CatalogEntry,
    keys::{Claimers, PartitionKeys},
};
use domain::DestinationName;
use redis_client::{ServerTime, server_ms, texts};

/// The index of the last head that the owner checks in one scan for consumers. The heads may include tombstones.
const HEADS_MAX: isize = 63;
/// The most leases that are checked because they may end too late.
const LATE_LEASES_MAX: isize = 16;
/// A hint below this number is not a time, and means now (`lua/include/head.lua`).
const FIRST_TIME_MS: u64 = 1_000_000_000_000;
/// Hints for more than this time from now are compared with the longest backoff of their destination.
const FAR_MS: u64 = 5_000;
/// The most destinations of one partition, and the most hints of each kind, that one query returns.
const HINTS_MAX: isize = 10_000;
/// The most lanes whose backoff is over, and the most lanes whose hint is too late, that one query returns.
const DUE_LANES_MAX: isize = 256;
const LATE_LANES_MAX: isize = 16;

/// The time of a hint; `None` if the hint is not a time.
pub(super) fn time_of_hint(score: Option<f64>) -> Option<u64> {
    score.map(|score| score as u64).filter(|time_ms| *time_ms >= FIRST_TIME_MS)
}

/// Lanes whose head may be released. These are hints.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReleasableLanes {
    /// Lanes that do not wait for other lanes: their backoff is over, an operator retries their head, or their head
    /// is a tombstone.
    pub due: Vec<String>,
    /// The other lanes, sorted: the longest waiting first.
    pub waiting: Vec<String>,
    /// True if there may be more lanes.
    pub is_cut: bool,
    /// The time until the next backoff ends.
    pub next_due: Option<Duration>,
}

/// How long the numbers of current deliveries are stored, in seconds, unless renewed.
const DELIVERING_SECONDS: u64 = 3;

/// The current deliveries of a destination, as its owner records them every second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Delivering {
    /// How many messages are being delivered.
    pub messages: usize,
    /// How many deliveries wait for a connection.
    pub awaiting_connection: usize,
    /// If the receiver fails: when its next probe begins, in ms since 1970.
    pub probe_at_ms: Option<u64>,
}

impl Store {
    /// For each of these partitions that has any: destinations with waiting messages, longest unserved first. These
    /// are hints. An entry is empty if its server does not answer; an error if no server answers.
    pub async fn active_of_all(
        &self,
        partitions: &[u16],
        claimers: Claimers,
        max: usize,
    ) -> Result<Vec<(u16, Vec<String>)>, StoreError> {
        let partitions = self.occupied(partitions, |keys| [keys.active(claimers)]).await;
        let looks = partitions.iter().map(|partition| {
            let mut pipe = redis::pipe();
            pipe.zrange(self.keys().partition(*partition).active(claimers), 0, max as isize - 1);
            pipe
        });
        let names = self.names(&looks.collect::<Vec<_>>()).await?;
        Ok(partitions.into_iter().zip(names).collect())
    }

    /// Returns the given destinations that may have waiting messages. May return too many, never too few.
    pub async fn active_among(
        &self,
        mut all: Vec<Arc<CatalogEntry>>,
    ) -> Result<Vec<Arc<CatalogEntry>>, StoreError> {
        if all.len() > 1 {
            let partitions: BTreeSet<u16> = all.iter().map(|entry| entry.partition).collect();
            let partitions: Vec<u16> = partitions.into_iter().collect();
            let of = |keys: &PartitionKeys| [keys.active_builtin(), keys.active_worker()];
            let occupied = self.occupied(&partitions, of).await;
            all.retain(|entry| occupied.contains(&entry.partition));
        }
        let looks = all.iter().map(|entry| {
            let key = self.keys().partition(entry.partition).active(entry.claimers());
            let mut pipe = redis::pipe();
            pipe.zscore(key, entry.destination.name.as_str());
            pipe
        });
        let found = answered(self.query_each(&looks.collect::<Vec<_>>()).await)?;
        let is_active = |found: Option<Vec<Value>>| {
            found.is_some_and(|found| found.first().is_some_and(|since| *since != Value::Nil))
        };
        let active = all.into_iter().zip(found).filter(|(_, found)| is_active(found.clone()));
        Ok(active.map(|(entry, _)| entry).collect())
    }

    /// For each of these partitions that has any: destinations with a releasable head or a pending withdrawal. These
    /// are hints. Also returns destinations whose hint is further ahead than their longest backoff, `wait_max_ms`:
    /// the hint was stored while Redis's clock was ahead, and the next release corrects it. An entry is empty if its
    /// server does not answer; an error if no server answers.
    pub async fn releasable(
        &self,
        partitions: &[u16],
        wait_max_ms: impl Fn(&str) -> u64,
    ) -> Result<Vec<Vec<String>>, StoreError> {
        let of = |keys: &PartitionKeys| [keys.releasable(), keys.withdrawing(), keys.consumers()];
        let partitions = self.occupied(partitions, of).await;
        let keys: Vec<_> = partitions.iter().map(|number| self.keys().partition(*number)).collect();
        let hints: Vec<_> = keys.iter().map(|keys| keys.releasable()).collect();
        let clocks = self.clocks(&hints).await;
        let looks = keys.iter().zip(&hints).zip(&clocks).map(|((keys, key), now_ms)| {
            let (now_ms, mut pipe) = (now_ms.unwrap_or_default(), redis::pipe());
            pipe.zrange(keys.withdrawing(), 0, HINTS_MAX - 1);
            pipe.zrange(keys.consumers(), 0, HINTS_MAX - 1);
            pipe.zrangebyscore_limit(key, "-inf", now_ms.max(FIRST_TIME_MS), 0, HINTS_MAX);
            pipe.zrangebyscore_limit_withscores(key, now_ms + FAR_MS, "+inf", 0, HINTS_MAX);
            pipe
        });
        let found = answered(self.query_each(&looks.collect::<Vec<_>>()).await)?;
        let read = |(found, now_ms): (Option<Vec<Value>>, Option<u64>)| {
            let mut found = found.unwrap_or_default().into_iter();
            let mut next = || texts(found.next(), "a query of a partition").unwrap_or_default();
            let mut names = [next(), next(), next()].concat();
            let far: Option<Vec<(Vec<u8>, f64)>> =
                found.next().and_then(|far| redis::from_redis_value(far).ok());
            let far = far.unwrap_or_default().into_iter();
            let far = far.filter_map(|(name, ms)| Some((String::from_utf8(name).ok()?, ms as u64)));
            let is_late = |name: &str, ms: u64| ms > now_ms.unwrap_or_default() + wait_max_ms(name);
            names.extend(far.filter(|(name, ms)| is_late(name, *ms)).map(|(name, _)| name));
            names
        };
        Ok(found.into_iter().zip(clocks).map(read).collect())
    }

    /// The names that each of these queries returns (one command each). An entry is empty if its server does not
    /// answer; an error if no server answers.
    pub(crate) async fn names(
        &self,
        looks: &[redis::Pipeline],
    ) -> Result<Vec<Vec<String>>, StoreError> {
        let found = answered(self.query_each(looks).await)?;
        let read = |found: Option<Vec<Value>>| match found {
            Some(found) => texts(found.into_iter().next(), "a query of a partition"),
            None => Ok(Vec::new()),
        };
        let found = found.into_iter().map(read);
        // An unreadable answer for one partition must not hide the other answers.
        Ok(found.map(Result::unwrap_or_default).collect())
    }

    /// If a destination has several lanes: the lanes with a releasable head. Returns at most `max` lanes that wait
    /// for their turn. Also returns lanes whose hint is too late, as in [`Store::releasable`].
    pub async fn releasable_lanes(
        &self,
        entry: &CatalogEntry,
        max: usize,
    ) -> Result<ReleasableLanes, StoreError> {
        let key = self.keys_of(entry).lanes();
        let mut pipe = redis::pipe();
        pipe.zrangebyscore_limit(&key, 0, 0, 0, DUE_LANES_MAX);
        pipe.zrangebyscore_limit(&key, "(0", format!("({FIRST_TIME_MS}"), 0, max as isize);
        pipe.zrangebyscore_limit_withscores(&key, FIRST_TIME_MS, "+inf", 0, DUE_LANES_MAX);
        pipe.cmd("ZRANGE").arg(&key).arg(0).arg(LATE_LANES_MAX - 1).arg("REV").arg("WITHSCORES");
        pipe.cmd("TIME");
        type Scored = Vec<(Vec<u8>, f64)>;
        type Found = (Vec<Vec<u8>>, Vec<Vec<u8>>, Scored, Scored, ServerTime);
        let (first, waiting, soonest, latest, time): Found =
            self.query_at(key.as_bytes(), &pipe).await?;
        // `TIME` runs after the reads, so a hint that was correct when it was read does not count as late.
        let (now_ms, wait_max_ms) = (server_ms(time), entry.destination.delivery.wait_max_ms());
        let next = soonest.iter().find(|(_, ms)| *ms as u64 > now_ms);
        let next_due = next.map(|(_, ms)| Duration::from_millis(*ms as u64 - now_ms));
        let over = soonest.partition_point(|(_, ms)| *ms as u64 <= now_ms);
        let late = latest.partition_point(|(_, ms)| *ms as u64 > now_ms + wait_max_ms);
        // Lanes whose backoff continues do not count: there is nothing to do for them.
        let is_cut = max > 0 && waiting.len() == max
            || first.len().max(over) == DUE_LANES_MAX as usize
            || late == LATE_LANES_MAX as usize;
        let (over, late) = (soonest.into_iter().take(over), latest.into_iter().take(late));
        // Skip a lane whose key is not valid UTF-8, so that it does not hide other lanes.
        let texts = |lanes: Vec<Vec<u8>>| {
            lanes.into_iter().filter_map(|lane| String::from_utf8(lane).ok()).collect::<Vec<_>>()
        };
        let due = first.into_iter().chain(over.chain(late).map(|(lane, _)| lane)).collect();
        Ok(ReleasableLanes { due: texts(due), waiting: texts(waiting), is_cut, next_due })
    }

    /// With consumers: lanes that the owner must look at, because consumers have acknowledged messages or because a
    /// lease is over. If `has_room`, also some lanes whose head only the owner may handle. These are hints.
    pub async fn lanes_of_consumers(
        &self,
        entry: &CatalogEntry,
        max: usize,
        has_room: bool,
    ) -> Result<ReleasableLanes, StoreError> {
        let keys = self.keys_of(entry);
        let mut pipe = redis::pipe();
        pipe.zrange_withscores(keys.consumer_lease_ends(), 0, max as isize - 1);
        pipe.cmd("ZRANGE").arg(keys.consumer_lease_ends()).arg(0).arg(LATE_LEASES_MAX - 1);
        pipe.arg("REV").arg("WITHSCORES");
        pipe.zrange(keys.lanes(), 0, HEADS_MAX).cmd("TIME");
        type Ends = Vec<(Vec<u8>, f64)>;
        type Found = (Ends, Ends, Vec<Vec<u8>>, ServerTime);
        let (ends, last, heads, time): Found =
            self.query_at(keys.lanes().as_bytes(), &pipe).await?;
        let now_ms = server_ms(time);
        // If a lease ends later than any lease may end, it was granted while the clock was ahead.
        let late_ms = (now_ms + entry.destination.delivery.timeout_ms) as f64;
        let due = ends.into_iter().filter(|(_, end)| *end <= now_ms as f64);
        let late: Vec<_> = last.into_iter().filter(|(_, end)| *end > late_ms).collect();
        let has_more_late = late.len() == LATE_LEASES_MAX as usize;
        let mut seen = HashSet::new();
        let mut texts = |lanes: Vec<Vec<u8>>| {
            let lanes = lanes.into_iter().filter_map(|lane| String::from_utf8(lane).ok());
            lanes.filter(|lane| seen.insert(lane.clone())).collect::<Vec<_>>()
        };
        let due = texts(due.chain(late).map(|(lane, _)| lane).collect());
        let waiting = if has_room { texts(heads) } else { Vec::new() };
        let is_cut = due.len() >= max || has_more_late;
        Ok(ReleasableLanes { due, waiting, is_cut, next_due: None })
    }

    /// Stores the current deliveries of each destination, for display. The keys expire only in case the sender dies.
    /// If the clock steps back, they live longer.
    pub async fn note_delivering(
        &self,
        deliveries: &[(DestinationName, Delivering)],
    ) -> Result<(), StoreError> {
        let notes = deliveries.iter().map(|(name, now)| {
            let (keys, mut pipe) = (self.keys().destination(name), redis::pipe());
            let notes = [
                (keys.delivering(), now.messages as u64),
                (keys.awaiting_connection(), now.awaiting_connection as u64),
                (keys.probe_at(), now.probe_at_ms.unwrap_or_default()),
            ];
            for (key, number) in notes {
                match number {
                    0 => pipe.del(key),
                    number => pipe.set_ex(key, number, DELIVERING_SECONDS),
                };
            }
            pipe
        });
        let noted = self.query_each(&notes.collect::<Vec<_>>()).await;
        noted.into_iter().find_map(Result::err).map_or(Ok(()), Err)
    }
}
