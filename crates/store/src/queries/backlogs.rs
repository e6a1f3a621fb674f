//! The backlogs of many destinations in one round trip.

use std::borrow::Borrow;

use redis::{Pipeline, Value};

use super::stats::Stats;
use crate::{Store, StoreError, entry::CatalogEntry};
use domain::{DeliveryKind, Ordering};
use redis_client::server_clock_ms;

/// The fields of a destination's hash from which the numbers are computed.
const FIELDS: [&str; 13] = [
    "last",
    "settled",
    "ready",
    "delayed",
    "delivered",
    "dropped",
    "dead_lettered",
    "cancelled",
    "awaiting_turn",
    "halted_ready",
    "bytes",
    "withdrawn",
    HALTED,
];

/// The field that names the key with the wrong type that halts the destination. It holds no number.
const HALTED: &str = "wrong_type";
/// How the numbers report such a key.
const IS_HALTED: &str = "a key has the wrong type: reseq why names it";

/// The numbers that are not fields of the hash, in the order of the query.
const COUNTED: [&str; 5] = ["waiting", "delivering", "halted", "dead_letters", "attempts"];

impl Store {
    /// The backlogs of destinations, in order, without heads.
    pub async fn backlogs<K: Borrow<CatalogEntry>>(
        &self,
        all: &[K],
    ) -> Result<Vec<Stats>, StoreError> {
        self.backlogs_each(all).await.into_iter().collect()
    }

    /// Like `backlogs`, but if a server does not answer, only its own destinations fail.
    pub async fn backlogs_each<K: Borrow<CatalogEntry>>(
        &self,
        all: &[K],
    ) -> Vec<Result<Stats, StoreError>> {
        let looks = all.iter().map(|entry| self.look_at(entry.borrow()));
        let answers = self.query_each(&looks.collect::<Vec<_>>()).await;
        let read = |(entry, answer): (&K, Result<Vec<Value>, StoreError>)| {
            Ok(stats(entry.borrow(), answer?))
        };
        let mut all_stats: Vec<_> = all.iter().zip(answers).map(read).collect();
        for (entry, stats) in all.iter().zip(&mut all_stats) {
            if let Err(StoreError::Failed(_)) = stats {
                *stats = self.backlog_damaged(entry.borrow()).await;
            }
        }
        all_stats
    }

    fn look_at(&self, entry: &CatalogEntry) -> Pipeline {
        let keys = self.keys_of(entry);
        let mut pipe = Pipeline::new();
        pipe.hmget(keys.hash(), &FIELDS);
        match entry.destination.ordering {
            Ordering::None => pipe.zcard(keys.waiting()),
            Ordering::Destination | Ordering::Key => pipe.llen(keys.waiting()),
        };
        match entry.destination.delivery.kind {
            // The lanes that consumers hold. A lane counts until its consumer acknowledges.
            DeliveryKind::Pull => {
                pipe.zcount(keys.consumer_lease_ends(), server_clock_ms(), "+inf")
            }
            DeliveryKind::Push | DeliveryKind::None => pipe.get(keys.delivering()),
        };
        pipe.zcard(keys.halted()).zcard(keys.dead_letters()).hlen(keys.attempts());
        pipe
    }

    /// The backlog of one destination, read atomically.
    pub(super) async fn backlog_now(&self, entry: &CatalogEntry) -> Result<Stats, StoreError> {
        match self.query_at_once(&self.look_at(entry)).await {
            Ok(answers) => Ok(stats(entry, answers)),
            Err(StoreError::Failed(_)) => self.backlog_damaged(entry).await,
            Err(error) => Err(error),
        }
    }

    /// The numbers that can be read although some keys have the wrong type.
    async fn backlog_damaged(&self, entry: &CatalogEntry) -> Result<Stats, StoreError> {
        Ok(stats(entry, self.query_lenient(&self.look_at(entry)).await?))
    }
}

fn stats(entry: &CatalogEntry, answers: Vec<Value>) -> Stats {
    let mut answers = answers.into_iter();
    let (mut damaged, mut numbers) = (Vec::new(), [0_u64; FIELDS.len()]);
    let fields = answers.next().unwrap_or(Value::Nil);
    match redis::from_redis_value::<Vec<Value>>(fields) {
        Ok(fields) if fields.len() == FIELDS.len() => {
            for ((value, number), name) in fields.into_iter().zip(&mut numbers).zip(FIELDS) {
                match redis::from_redis_value::<Option<i64>>(value) {
                    // Damage may have made a number negative.
                    Ok(found) => *number = found.unwrap_or_default().max(0).unsigned_abs(),
                    Err(_) if name == HALTED => damaged.push(IS_HALTED),
                    Err(_) => damaged.push(name),
                }
            }
        }
        _ => damaged.push("the destination's hash"),
    }
    let mut counted = [0_u64; COUNTED.len()];
    for ((name, count), answer) in COUNTED.iter().zip(&mut counted).zip(answers) {
        // Only `delivering` may be missing.
        match redis::from_redis_value::<Option<u64>>(answer) {
            Ok(Some(found)) => *count = found,
            Ok(None) if *name == "delivering" => {}
            _ => damaged.push(name),
        }
    }
    let [listed, delivering, halted, dead_letters, with_attempts] = counted;
    let number = |name: &str| {
        let at = FIELDS.iter().position(|field| *field == name);
        at.map_or(0, |at| numbers[at])
    };
    let pending = number("last").saturating_sub(number("settled"));
    let waiting = listed.saturating_sub(number("withdrawn")) + number("awaiting_turn");
    let finished = number("ready").saturating_sub(number("halted_ready"));
    let delivering = delivering.min(finished);
    let elsewhere = waiting + finished + number("delayed") + halted;
    Stats {
        last_sequence: number("last"),
        pending,
        waiting,
        processing: pending.saturating_sub(elsewhere),
        ready: finished - delivering,
        delivering,
        halted,
        delayed: number("delayed"),
        pending_bytes: number("bytes"),
        dead_letters,
        delivered_total: number("delivered"),
        dropped_total: number("dropped"),
        dead_lettered_total: number("dead_lettered"),
        cancelled_total: number("cancelled"),
        paused: entry.paused,
        damaged,
        attention: Vec::new(),
        with_attempts,
        head: None,
        heads: Vec::new(),
    }
}
