//! Finds work: destinations with waiting messages, and with heads that may leave. The answers are
//! hints: the scripts decide.

use std::{collections::HashSet, sync::Arc};

use redis::Value;

use crate::{
    domain::DestinationName,
    redis_client::{ServerTime, server_ms, texts},
    store::{Store, StoreError, calls::answered, entry::CatalogEntry, keys::Claimers},
};

/// The most heads that the owner looks at in one scan for consumers, less one: a tombstone may be one of them.
const HEADS_MAX: isize = 63;
/// The most leases that are looked at because they end too late, less one.
const LATE_LEASES_MAX: isize = 15;

/// How long the number of messages in delivery is stored, in seconds, unless renewed.
const DELIVERING_SECONDS: u64 = 3;

impl Store {
    /// For each of these partitions, in order: destinations with waiting messages, longest unserved
    /// first. A hint. Empty where a server does not answer; an error if none answers.
    pub async fn active_of_all(
        &self,
        partitions: &[u16],
        claimers: Claimers,
        max: usize,
    ) -> Result<Vec<Vec<String>>, StoreError> {
        let looks = partitions.iter().map(|partition| {
            let mut pipe = redis::pipe();
            pipe.zrange(self.keys().partition(*partition).active(claimers), 0, max as isize - 1);
            pipe
        });
        self.names(&looks.collect::<Vec<_>>()).await
    }

    /// Those of these destinations that may have waiting messages. May return too many, never too
    /// few.
    pub async fn active_among(
        &self,
        all: Vec<Arc<CatalogEntry>>,
    ) -> Result<Vec<Arc<CatalogEntry>>, StoreError> {
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

    /// Destinations of these partitions with a releasable head, and those with leases of consumers. A hint.
    /// Empty where a server does not answer; an error if none answers.
    pub async fn releasable(&self, partitions: &[u16]) -> Result<Vec<Vec<String>>, StoreError> {
        let keys: Vec<_> =
            partitions.iter().map(|number| self.keys().partition(*number).releasable()).collect();
        let clocks = self.clocks(&keys).await;
        let looks = keys.iter().zip(clocks).map(|(key, now_ms)| {
            let mut pipe = redis::pipe();
            pipe.zrangebyscore_limit(key, "-inf", now_ms.unwrap_or_default(), 0, 10_000);
            pipe
        });
        let consumers = partitions.iter().map(|number| {
            let mut pipe = redis::pipe();
            pipe.zrange(self.keys().partition(*number).consumers(), 0, 9_999);
            pipe
        });
        self.names(&looks.chain(consumers).collect::<Vec<_>>()).await
    }

    /// The names that each of these queries returns (one command each). Empty where a server does
    /// not answer; an error if none answers.
    pub(in crate::store) async fn names(
        &self,
        looks: &[redis::Pipeline],
    ) -> Result<Vec<Vec<String>>, StoreError> {
        let found = answered(self.query_each(looks).await)?;
        let read = |found: Option<Vec<Value>>| match found {
            Some(found) => texts(found.into_iter().next(), "a query of a partition"),
            None => Ok(Vec::new()),
        };
        let found = found.into_iter().map(read);
        // An unreadable answer of one partition must not hide the others.
        Ok(found.map(Result::unwrap_or_default).collect())
    }

    /// With ordering by key: lanes with a releasable head, longest waiting first. A hint.
    pub async fn releasable_lanes(
        &self,
        entry: &CatalogEntry,
        max: usize,
    ) -> Result<Vec<String>, StoreError> {
        let key = self.keys().destination(&entry.destination.name).lanes();
        let mut pipe = redis::pipe();
        pipe.zrange_withscores(&key, 0, max as isize - 1).cmd("TIME");
        // `TIME` runs after the read, so it is not earlier than the time of any hint that was read.
        type Found = (Vec<(Vec<u8>, f64)>, ServerTime);
        let (lanes, time): Found = self.query_at(key.as_bytes(), &pipe).await?;
        let now_ms = server_ms(time) as f64;
        let due = lanes.into_iter().take_while(|(_, not_before)| *not_before <= now_ms);
        // A lane that is not valid UTF-8 is skipped, so that it does not hide others.
        Ok(due.filter_map(|(lane, _)| String::from_utf8(lane).ok()).collect())
    }

    /// With consumers: lanes that the owner must look at, because of what consumers said or because their lease is over;
    /// and some lanes whose head may be for the owner. A hint.
    pub async fn lanes_of_consumers(
        &self,
        entry: &CatalogEntry,
        max: usize,
    ) -> Result<Vec<String>, StoreError> {
        let keys = self.keys().destination(&entry.destination.name);
        let mut pipe = redis::pipe();
        pipe.zrange_withscores(keys.consumer_lease_ends(), 0, max as isize - 1);
        pipe.cmd("ZRANGE").arg(keys.consumer_lease_ends()).arg(0).arg(LATE_LEASES_MAX);
        pipe.arg("REV").arg("WITHSCORES");
        pipe.zrange(keys.lanes(), 0, HEADS_MAX).cmd("TIME");
        type Ends = Vec<(Vec<u8>, f64)>;
        type Found = (Ends, Ends, Vec<Vec<u8>>, ServerTime);
        let (ends, last, heads, time): Found =
            self.query_at(keys.lanes().as_bytes(), &pipe).await?;
        let now_ms = server_ms(time);
        // A lease that ends later than any may was given while the clock was ahead.
        let late_ms = (now_ms + entry.destination.delivery.timeout_ms) as f64;
        let due = ends.into_iter().filter(|(_, end)| *end <= now_ms as f64);
        let late = last.into_iter().filter(|(_, end)| *end > late_ms);
        let lanes = due.chain(late).map(|(lane, _)| lane).chain(heads);
        let mut seen = HashSet::new();
        let lanes = lanes.filter_map(|lane| String::from_utf8(lane).ok());
        Ok(lanes.filter(|lane| seen.insert(lane.clone())).take(max).collect())
    }

    /// Stores how many messages of each destination are being delivered now, for display.
    pub async fn note_delivering(
        &self,
        counts: &[(DestinationName, usize)],
    ) -> Result<(), StoreError> {
        let notes = counts.iter().map(|(name, count)| {
            let mut pipe = redis::pipe();
            pipe.set_ex(self.keys().destination(name).delivering(), count, DELIVERING_SECONDS);
            pipe
        });
        let noted = self.query_each(&notes.collect::<Vec<_>>()).await;
        noted.into_iter().find_map(Result::err).map_or(Ok(()), Err)
    }
}
