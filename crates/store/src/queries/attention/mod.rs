//! Which destinations need attention, and why: one definition for `reseq status --check`, doctor, metrics and the
//! console. It considers attempts that fail, and for how long they fail, not only states: a lane whose head is
//! retried for ever looks busy, but delivers nothing.

mod heads;

use std::{
    borrow::Borrow,
    collections::{BTreeMap, BTreeSet},
};

use bytes::Bytes;
use redis::{Pipeline, Value};
use serde::Serialize;
use utoipa::ToSchema;

use super::{pods::Ownership, stats::Stats};
use crate::{Store, attempts, entry::CatalogEntry, keys::Claimers};
use domain::{AttemptError, Attempts, DestinationName, Sequence, Stage, excerpt::excerpt};
use heads::untaken;
use redis_client::server_clock_ms;

/// If the attempts at a message fail for longer than this, its destination needs attention, in ms. Most receivers
/// restart within this time.
const FAILING_MS: u64 = 60_000;
/// The most attempts that one call reads: of one destination, and of all destinations. It reads at least one of each
/// destination.
const ATTEMPTS_MAX: usize = 50;
const ATTEMPTS_OF_ALL_MAX: usize = 2_000;

/// Why a destination needs attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = AttentionCause)]
pub enum Trouble {
    /// Redis holds data of the destination that cannot be read.
    Damaged,
    /// Messages wait for an operator: they have no attempts left, or were refused permanently.
    Halted,
    /// Messages have been failing for longer than a minute, and are retried.
    Failing,
    /// Messages are pending, and no pod with the role sender owns the destination's partition.
    NoOwner,
    /// Messages have waited for longer than a minute, and no worker or consumer takes any; or messages wait for
    /// processing, and no pod has the role processor.
    NoWorker,
    /// The destination has as many pending messages or bytes as it may have, and accepts no more.
    AtLimit,
    /// Processing or delivery is paused, and messages are pending.
    Paused,
    /// None of the other causes applies, but the oldest message arrived more than five minutes ago: processing or
    /// delivery is slow.
    Slow,
}

/// One reason why a destination needs attention.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Attention {
    /// The cause.
    pub cause: Trouble,
    /// The number of messages with this cause. For `damaged`, the number of keys and fields. For `failing`, an
    /// estimate if many messages fail.
    pub count: u64,
    /// Since when the cause applies, in ms since 1970; null if unknown.
    pub since: Option<u64>,
    /// The most frequent of the last errors, in short form: `status 503`.
    pub error: Option<String>,
}

/// Facts that decide the causes, in addition to the numbers of a destination.
#[derive(Debug, Clone, Default)]
pub(super) struct Facts {
    now_ms: u64,
    /// The attempts of some messages of the destination.
    attempts: Vec<Attempts>,
    /// Since when the first halted message is halted, and its last error.
    halted: Option<(u64, Option<AttemptError>)>,
    /// False if no live pod owns the destination's partition.
    has_owner: bool,
    /// False if the destination's messages wait for a processor, and no pod has this role.
    has_processor: bool,
    /// When the oldest message that nobody takes arrived.
    untaken_since_ms: Option<u64>,
}

impl Trouble {
    /// All causes, the worst first.
    pub const ALL: [Trouble; 8] = [
        Trouble::Damaged,
        Trouble::Halted,
        Trouble::Failing,
        Trouble::NoOwner,
        Trouble::NoWorker,
        Trouble::AtLimit,
        Trouble::Paused,
        Trouble::Slow,
    ];

    /// The name of the cause in the API and in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Trouble::Damaged => "damaged",
            Trouble::Halted => "halted",
            Trouble::Failing => "failing",
            Trouble::NoOwner => "no_owner",
            Trouble::NoWorker => "no_worker",
            Trouble::AtLimit => "at_limit",
            Trouble::Paused => "paused",
            Trouble::Slow => "slow",
        }
    }
}

/// The causes for a destination with these numbers, the worst first.
fn attention(entry: &CatalogEntry, stats: &Stats, facts: &Facts) -> Vec<Attention> {
    let destination = &entry.destination;
    let plain = |cause, count| Attention { cause, count, since: None, error: None };
    let (mut found, pending) = (Vec::new(), stats.pending);
    if !stats.damaged.is_empty() {
        found.push(plain(Trouble::Damaged, stats.damaged.len() as u64));
    }
    if stats.halted > 0 {
        let (since, error) = facts.halted.clone().unzip();
        let error = error.flatten().map(|error| in_short(&error));
        found.push(Attention { cause: Trouble::Halted, count: stats.halted, since, error });
    }
    found.extend(failing(entry, stats, facts, FAILING_MS));
    if pending > 0 && !facts.has_owner {
        found.push(plain(Trouble::NoOwner, pending));
    }
    if !facts.has_processor && stats.waiting > 0 {
        found.push(plain(Trouble::NoWorker, stats.waiting));
    } else if let Some(since_ms) = facts.untaken_since_ms {
        let since = Some(since_ms);
        found.push(Attention { since, ..plain(Trouble::NoWorker, untaken(entry, stats)) });
    }
    let (bytes, bytes_max) = (stats.pending_bytes, destination.backlog_bytes_max);
    if pending >= destination.backlog_max || bytes_max > 0 && bytes >= bytes_max {
        found.push(plain(Trouble::AtLimit, pending));
    }
    if pending > 0 && (entry.paused.processing || entry.paused.delivery) {
        found.push(plain(Trouble::Paused, pending));
    }
    found
}

/// The messages that have been failing for at least this long. Skips messages of a paused stage: they are not tried.
fn failing(entry: &CatalogEntry, stats: &Stats, facts: &Facts, for_ms: u64) -> Option<Attention> {
    let (mut since_ms, mut count, mut errors) = (u64::MAX, 0, BTreeMap::<String, u64>::new());
    for attempts in facts.attempts.iter().filter(|attempts| attempts.halted_in.is_none()) {
        let Some((began_ms, (_, last))) = attempts.failing_since_ms().zip(attempts.errors.first())
        else {
            continue;
        };
        let is_paused = match last.stage {
            Stage::Transform => entry.paused.processing,
            Stage::Delivery => entry.paused.delivery,
        };
        if !is_paused && facts.now_ms.saturating_sub(began_ms) >= for_ms {
            (since_ms, count) = (since_ms.min(began_ms), count + 1);
            *errors.entry(in_short(last)).or_default() += 1;
        }
    }
    let error = errors.into_iter().max_by_key(|(_, count)| *count).map(|(error, _)| error)?;
    let read = facts.attempts.len() as u64;
    let count = (count * stats.with_attempts.max(read)).div_ceil(read);
    Some(Attention { cause: Trouble::Failing, count, since: Some(since_ms), error: Some(error) })
}

/// A short text for an error. Errors with the same cause have the same text.
fn in_short(error: &AttemptError) -> String {
    match error.status {
        Some(status) => format!("status {status}"),
        None => match error.detail.lines().next().unwrap_or_default() {
            "" => error.kind.as_str().to_owned(),
            line => excerpt(line.as_bytes()),
        },
    }
}

impl Store {
    /// Why each of these destinations needs attention, in order. Destinations without pending messages cost nothing.
    /// For the others, reads once the heartbeats and the owners of their partitions. For destinations with halted
    /// messages or stored attempts, makes one query each, all in one round trip. Reads heads of a limited number of
    /// destinations: where no worker or consumer takes messages, and where no other problem is found.
    pub async fn attention<K: Borrow<CatalogEntry>, S: Borrow<Stats>>(
        &self,
        all: &[(K, S)],
    ) -> Vec<Vec<Attention>> {
        let all: Vec<(&CatalogEntry, &Stats)> =
            all.iter().map(|(entry, stats)| (entry.borrow(), stats.borrow())).collect();
        let pending: Vec<(&CatalogEntry, &Stats)> =
            all.iter().copied().filter(|(_, stats)| stats.pending > 0).collect();
        let (unowned, has_processor) = self.unowned(&pending).await;
        let (mut attempts, mut untaken) =
            futures::join!(self.attempts_of(&pending), self.untaken_since(&pending));
        let facts = |entry: &CatalogEntry| {
            let name = &entry.destination.name;
            let (attempts, halted) = attempts.remove(name).unwrap_or_default();
            Facts {
                now_ms: server_clock_ms(),
                attempts,
                halted,
                has_owner: !unowned.contains(&entry.partition),
                has_processor: has_processor || entry.claimers() != Claimers::Builtin,
                untaken_since_ms: untaken.remove(name),
            }
        };
        let facts: Vec<Facts> = all.iter().map(|(entry, _)| *entry).map(facts).collect();
        let found = all.iter().zip(&facts);
        let mut found: Vec<Vec<Attention>> =
            found.map(|((entry, stats), facts)| attention(entry, stats, facts)).collect();
        self.add_slow(&all, &mut found).await;
        found
    }

    /// The messages of the destination that fail, even if only for a short time.
    pub async fn failing(&self, entry: &CatalogEntry, stats: &Stats) -> Option<Attention> {
        let found = self.attempts_of(&[(entry, stats)]).await.into_values().next();
        let (attempts, _) = found.unwrap_or_default();
        let now_ms = server_clock_ms();
        failing(entry, stats, &Facts { now_ms, attempts, ..Facts::default() }, 0)
    }

    /// The partitions of these destinations that no live pod owns, and whether any pod has the role processor.
    async fn unowned(&self, pending: &[(&CatalogEntry, &Stats)]) -> (BTreeSet<u16>, bool) {
        let partitions: BTreeSet<u16> = pending.iter().map(|(entry, _)| entry.partition).collect();
        if partitions.is_empty() {
            return (partitions, true);
        }
        let partitions: Vec<u16> = partitions.into_iter().collect();
        let (owners, pods) = futures::join!(self.owners(&partitions), self.live_pods());
        let is_free =
            |owner: &Result<Ownership, _>| owner.as_ref().is_ok_and(|found| found.owner.is_none());
        let free = partitions.into_iter().zip(owners).filter(|(_, owner)| is_free(owner));
        // The first heartbeat of a pod does not name its roles.
        let has_processor = pods.map_or(true, |pods| {
            pods.iter().any(|pod| pod.roles.is_empty() || pod.has_role("processor"))
        });
        (free.map(|(partition, _)| partition).collect(), has_processor)
    }

    /// The attempts of some messages of each destination, and when its first halted message halted, with the last
    /// error.
    async fn attempts_of(
        &self,
        pending: &[(&CatalogEntry, &Stats)],
    ) -> BTreeMap<DestinationName, (Vec<Attempts>, Option<(u64, Option<AttemptError>)>)> {
        let some: Vec<&CatalogEntry> = pending
            .iter()
            .filter(|(_, stats)| stats.with_attempts > 0 || stats.halted > 0)
            .map(|(entry, _)| *entry)
            .collect();
        let most = (ATTEMPTS_OF_ALL_MAX / some.len().max(1)).clamp(1, ATTEMPTS_MAX);
        let looks = some.iter().map(|entry| {
            let keys = self.keys_of(entry);
            let mut pipe = Pipeline::new();
            pipe.cmd("HRANDFIELD").arg(keys.attempts()).arg(most).arg("WITHVALUES");
            pipe.zrange_withscores(keys.halted(), 0, 0);
            pipe
        });
        let found = self.query_each(&looks.collect::<Vec<_>>()).await;
        let read = |(entry, found): (&&CatalogEntry, Result<Vec<Value>, _>)| {
            let mut found = found.ok()?.into_iter();
            let mut next = || found.next().unwrap_or(Value::Nil);
            let pairs: Vec<(Sequence, Bytes)> = redis::from_redis_value(next()).unwrap_or_default();
            let halted: Vec<(Sequence, f64)> = redis::from_redis_value(next()).unwrap_or_default();
            let all: BTreeMap<Sequence, Attempts> =
                pairs.iter().map(|(sequence, kept)| (*sequence, attempts::read(kept))).collect();
            let halted = halted.first().map(|(_, since)| {
                let of_halted = all.values().find(|attempts| attempts.halted_in.is_some());
                let error = of_halted.and_then(|attempts| attempts.errors.first());
                (*since as u64, error.map(|(_, error)| error.clone()))
            });
            let attempts = all.into_values().collect();
            Some((entry.destination.name.clone(), (attempts, halted)))
        };
        some.iter().zip(found).filter_map(read).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::Paused;
    use domain::{Destination, ErrorKind};
    use heads::UNTAKEN_MS;

    const NOW_MS: u64 = 1_800_000_000_000;

    fn entry(json: &str, paused: Paused) -> CatalogEntry {
        let destination: Destination = serde_json::from_str(json).unwrap();
        CatalogEntry { destination, of_all_shards: None, version: 1, partition: 0, paused, born: 1 }
    }

    fn well() -> Facts {
        Facts { now_ms: NOW_MS, has_owner: true, has_processor: true, ..Facts::default() }
    }

    /// Attempts that have been failing for so long.
    fn failing_for(ms: u64, status: u16) -> Attempts {
        let error = AttemptError::new(Stage::Delivery, ErrorKind::Status, "no").with_status(status);
        let errors = vec![(NOW_MS, error.clone()), (NOW_MS - ms, error)];
        Attempts { failed: 9, errors, ..Attempts::default() }
    }

    #[test]
    fn each_cause_is_found_and_a_busy_destination_is_well() {
        const PLAIN: &str = r#"{"name": "erp", "url": "http://a/", "backlog_max": 10}"#;
        let plain = entry(PLAIN, Paused::default());
        let pending = |pending| Stats { pending, ready: pending, ..Stats::default() };
        let causes = |entry: &CatalogEntry, stats: &Stats, facts: &Facts| -> Vec<Trouble> {
            attention(entry, stats, facts).into_iter().map(|found| found.cause).collect()
        };
        assert_eq!(causes(&plain, &pending(9), &well()), []);
        assert_eq!(causes(&plain, &pending(10), &well()), [Trouble::AtLimit]);
        let nobody = Facts { has_owner: false, ..well() };
        assert_eq!(causes(&plain, &pending(9), &nobody), [Trouble::NoOwner]);
        assert_eq!(causes(&plain, &pending(0), &nobody), []);
        let damaged = Stats { damaged: vec!["halted"], halted: 1, ..pending(1) };
        assert_eq!(causes(&plain, &damaged, &well()), [Trouble::Damaged, Trouble::Halted]);
        let waiting = Stats { waiting: 3, ..pending(3) };
        let no_processor = Facts { has_processor: false, ..well() };
        assert_eq!(causes(&plain, &waiting, &no_processor), [Trouble::NoWorker]);
        let untaken = Facts { untaken_since_ms: Some(NOW_MS - UNTAKEN_MS), ..well() };
        assert_eq!(causes(&plain, &waiting, &untaken), [Trouble::NoWorker]);

        let paused = entry(PLAIN, Paused { delivery: true, ..Paused::default() });
        let fails = Facts { attempts: vec![failing_for(FAILING_MS, 503)], ..well() };
        assert_eq!(causes(&plain, &pending(1), &fails), [Trouble::Failing]);
        // Nobody tries it while delivery is paused.
        assert_eq!(causes(&paused, &pending(1), &fails), [Trouble::Paused]);
        assert_eq!(causes(&paused, &pending(0), &well()), []);
    }

    #[test]
    fn failing_messages_are_those_that_fail_for_a_minute() {
        let plain = entry(r#"{"name": "erp", "url": "http://a/"}"#, Paused::default());
        let halted = Attempts { halted_in: Some(Stage::Delivery), ..failing_for(FAILING_MS, 500) };
        let later = Attempts { waits_for_later: true, ..failing_for(FAILING_MS, 500) };
        let soon = failing_for(FAILING_MS - 1, 500);
        let none = Attempts { failed: 0, ..failing_for(FAILING_MS, 500) };
        let harmless = vec![halted, later, soon, none];
        let facts = |attempts| Facts { attempts, ..well() };
        // Of 800 stored attempts, eight are read.
        let stats = Stats { pending: 1_000, with_attempts: 800, ..Stats::default() };
        assert_eq!(attention(&plain, &stats, &facts(harmless.clone())), []);
        let old = [(2 * FAILING_MS, 503), (FAILING_MS, 500), (FAILING_MS, 503), (FAILING_MS, 503)];
        let old = old.map(|(ms, status)| failing_for(ms, status));
        let found = attention(&plain, &stats, &facts([harmless, old.into()].concat()));
        let expected = Attention {
            cause: Trouble::Failing,
            count: 400,
            since: Some(NOW_MS - 2 * FAILING_MS),
            error: Some("status 503".to_owned()),
        };
        assert_eq!(found, [expected]);
    }
}
