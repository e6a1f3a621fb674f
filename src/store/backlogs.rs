//! The numbers of many destinations in one round trip.

use std::borrow::Borrow;

use redis::{Pipeline, Value};

use super::{Known, Stats, Store, StoreError};
use crate::domain::Ordering;

/// What of a destination's hash the numbers are made of.
const FIELDS: [&str; 12] = [
    "last",
    "settled",
    "ready",
    "delayed",
    "delivered",
    "dropped",
    "skipped",
    "cancelled",
    "held",
    "halted_ready",
    "bytes",
    "withdrawn",
];

/// A hash's numbers, length of the waiting list, messages being delivered, halted, dead letters.
type Answer = (Vec<Option<i64>>, u64, Option<u64>, u64, u64);
impl Store {
    /// The numbers of destinations, in order, without their heads.
    pub async fn backlogs<K: Borrow<Known>>(&self, all: &[K]) -> Result<Vec<Stats>, StoreError> {
        self.backlogs_each(all).await.into_iter().collect()
    }

    /// The same, where a server that does not answer costs only its own.
    pub async fn backlogs_each<K: Borrow<Known>>(
        &self,
        all: &[K],
    ) -> Vec<Result<Stats, StoreError>> {
        let looks = all.iter().map(|known| self.look_at(known.borrow()));
        let answers = self.query_each(&looks.collect::<Vec<_>>()).await;
        let read = |(known, answer): (&K, Result<Vec<Value>, StoreError>)| {
            let answer = redis::from_redis_value(Value::Array(answer?));
            let answer = answer.map_err(|_| super::unexpected("a look at numbers"))?;
            Ok(stats(known.borrow(), answer))
        };
        all.iter().zip(answers).map(read).collect()
    }

    fn look_at(&self, known: &Known) -> Pipeline {
        let keys = self.keys().destination(&known.destination.name);
        let mut pipe = Pipeline::new();
        pipe.hmget(keys.hash(), &FIELDS);
        match known.destination.ordering {
            Ordering::None => pipe.zcard(keys.waiting()),
            Ordering::Destination | Ordering::Key => pipe.llen(keys.waiting()),
        };
        pipe.get(keys.delivering()).zcard(keys.halted()).zcard(keys.dead());
        pipe
    }

    /// The numbers of one destination, of one instant.
    pub(super) async fn backlog_now(&self, known: &Known) -> Result<Stats, StoreError> {
        let mut pipe = self.look_at(known);
        pipe.atomic();
        Ok(stats(known, self.query(&pipe).await?))
    }
}

fn stats(known: &Known, (numbers, listed, delivering, halted, dead): Answer) -> Stats {
    let number = |name: &str| {
        let at = FIELDS.iter().position(|field| *field == name);
        // What was damaged may have made a number go below nothing.
        at.and_then(|at| numbers.get(at).copied().flatten())
            .map_or(0, |number| number.max(0) as u64)
    };
    let pending = number("last").saturating_sub(number("settled"));
    let waiting = listed.saturating_sub(number("withdrawn")) + number("held");
    let finished = number("ready").saturating_sub(number("halted_ready"));
    let delivering = delivering.unwrap_or_default().min(finished);
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
        dead,
        delivered_total: number("delivered"),
        dropped_total: number("dropped"),
        skipped_total: number("skipped"),
        cancelled_total: number("cancelled"),
        paused: known.paused,
        head: None,
        heads: Vec::new(),
    }
}
