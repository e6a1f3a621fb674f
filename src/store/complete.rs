//! The ends of a lease: complete, fail, extend (`lua/complete.lua`, `lua/fail.lua`,
//! `lua/extend.lua`).

use std::{
    collections::{BTreeSet, HashMap},
    time::Duration,
};

use bytes::Bytes;
use redis::{FromRedisValue, ParsingError, Value};

use super::{
    CallSequence, CatalogEntry, Claimers, Store, StoreError, attempts, record, unexpected,
};
use crate::{
    domain::{AttemptError, LeaseToken, Sequence, Stamped},
    faults::planted,
};

/// How many messages one command reads, without bodies that are stored apart. The attempts of each
/// may take 75 kB.
const HEADERS_MAX: usize = 100;

/// The result of a script for one lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Done.
    Ok,
    /// Done, and the message's attempts are used up.
    Halted,
    /// The lease is no longer the caller's; nothing was changed.
    StaleLease,
    /// The message had already been finished; nothing was changed, and nothing needs to be.
    Settled,
    /// The data of its lane or destination in Redis is damaged. The lease runs on unchanged.
    Damaged,
}

impl FromRedisValue for Status {
    fn from_redis_value(value: Value) -> Result<Self, ParsingError> {
        match String::from_redis_value(value)?.as_str() {
            "ok" => Ok(Status::Ok),
            "halted" => Ok(Status::Halted),
            "stale_lease" => Ok(Status::StaleLease),
            "settled" => Ok(Status::Settled),
            "damaged" => Ok(Status::Damaged),
            other => Err(ParsingError::from(format!("unknown status {other:?}"))),
        }
    }
}

/// A claimed message with the result of its processing.
#[derive(Debug, Clone)]
pub struct Completion {
    /// The lease.
    pub token: LeaseToken,
    /// The message, with the output as its body, or a tombstone.
    pub output: Stamped,
    /// The output equals the input, and nothing else is noted: Redis keeps the stored record.
    pub is_unchanged: bool,
}

/// A claimed message whose attempt failed.
#[derive(Debug, Clone)]
pub struct Failed {
    /// The lease.
    pub token: LeaseToken,
    /// How long to wait before the next attempt.
    pub wait: Duration,
    /// True if another attempt cannot help.
    pub is_final: bool,
    /// What went wrong.
    pub error: AttemptError,
}

/// An extension of one lease.
#[derive(Debug, Clone)]
pub struct Extension {
    /// The lease.
    pub token: LeaseToken,
    /// The checkpoint for the next attempt, as JSON, if this one fails. `None` keeps the earlier
    /// one.
    pub checkpoint: Option<String>,
}

impl Store {
    /// Stores outputs of one destination's messages and makes them ready. One status each, in
    /// order; at most 1,000 messages.
    pub async fn complete(
        &self,
        caller: &CallSequence,
        known: &CatalogEntry,
        completions: &[Completion],
    ) -> Result<Vec<Status>, StoreError> {
        let call = |schema| self.complete_in(schema, caller, known, completions);
        self.in_schema(known.partition, call).await
    }

    async fn complete_in(
        &self,
        schema: u32,
        caller: &CallSequence,
        known: &CatalogEntry,
        completions: &[Completion],
    ) -> Result<Vec<Status>, StoreError> {
        let keys = self.keys().destination(&known.destination.name);
        // The script expects them in the order of their sequences.
        let mut order: Vec<usize> = (0..completions.len()).collect();
        order.sort_by_key(|&which| completions[which].token.sequence);
        let sorted = || order.iter().map(|&which| &completions[which]);
        let mut lanes: Vec<Option<&str>> = Vec::new();
        let mut index = HashMap::new();
        let lane_of: Vec<usize> = sorted()
            .map(|completion| {
                let lane = known.destination.lane_key(completion.token.key.as_deref());
                *index.entry(lane).or_insert_with(|| {
                    lanes.push(lane);
                    lanes.len()
                })
            })
            .collect();

        let (name, mut call) = self.script(|scripts| &scripts.complete);
        call.key(keys.partition.call(&caller.name)).key(keys.hash()).key(keys.messages());
        call.key(keys.attempts()).key(keys.partition.leases()).key(keys.partition.releasable());
        call.key(keys.lanes()).key(keys.partition.wake_releasable());
        call.key(keys.waiting()).key(keys.partition.delayed());
        call.key(keys.partition.active(Claimers::Builtin));
        call.key(keys.partition.active(Claimers::Worker)).key(keys.partition.wake_waiting());
        call.key(keys.partition.epoch()).key(keys.bodies());
        for lane in &lanes {
            call.key(keys.in_progress(*lane)).key(keys.ready(*lane));
        }
        call.arg(caller.number()).arg(known.destination.name.as_str());
        call.arg(lanes.len()).arg(schema).arg(completions.len());
        for lane in &lanes {
            call.arg(lane.unwrap_or_default());
        }
        for completion in sorted() {
            call.arg(completion.token.sequence);
        }
        for completion in sorted() {
            call.arg(completion.token.member());
        }
        let mut bodies = Vec::new();
        for (which, Completion { output, is_unchanged, .. }) in (1_usize..).zip(sorted()) {
            if *is_unchanged {
                call.arg("");
                continue;
            }
            let written = record::of_stamped(output, known.destination.ordering, schema);
            call.arg(written.record);
            bodies.extend(written.bodies.into_iter().map(|(part, body)| (which, part, body)));
        }
        if lanes.len() > 1 {
            for lane in lane_of {
                call.arg(lane);
            }
        }
        for (which, part, body) in bodies {
            call.arg(which).arg(part.suffix()).arg(body.as_deref().unwrap_or_default());
        }
        let exceptions = self.run::<Vec<(usize, Status)>>(name, &call).await;
        let damaged = exceptions.iter().flatten().filter(|(_, status)| *status == Status::Damaged);
        let mut damaged_keys = BTreeSet::new();
        for (which, _) in damaged {
            let at = order.get(usize::wrapping_sub(*which, 1)).copied();
            let Some(one) = at.and_then(|at| completions.get(at)) else { continue };
            let lane = known.destination.lane_key(one.token.key.as_deref());
            damaged_keys.extend([keys.in_progress(lane), keys.ready(lane), keys.bodies()]);
        }
        if !damaged_keys.is_empty() {
            self.note_damaged_keys(known, name, damaged_keys.into_iter().collect());
            if planted::is("damaged_lane_fails_all") {
                return Err(StoreError::Failed("one of the lanes is damaged".into()));
            }
        }
        let statuses = exceptions.and_then(|exceptions| {
            let mut statuses = vec![Status::Ok; completions.len()];
            for (which, status) in exceptions {
                let at = order.get(usize::wrapping_sub(which, 1));
                statuses[*at.ok_or_else(|| unexpected("complete"))?] = status;
            }
            Ok(statuses)
        });
        caller.answered(statuses)
    }

    /// The messages with these sequences, with bodies and attempts so far. `None` if it is gone.
    pub async fn messages(
        &self,
        known: &CatalogEntry,
        sequences: &[Sequence],
    ) -> Result<Vec<Option<Stamped>>, StoreError> {
        let read = async || {
            let mut found = self.headers(known, sequences).await?;
            let mut present: Vec<&mut Stamped> = found.iter_mut().flatten().collect();
            self.fill(known, &mut present).await?;
            Ok::<_, StoreError>(found)
        };
        let found = read().await?;
        // Between the two reads a body may have been replaced or removed: read once more.
        match found.iter().flatten().any(|message| message.damaged.is_some()) {
            true => read().await,
            false => Ok(found),
        }
    }

    /// Like `messages`, without the bodies that are stored apart.
    pub async fn headers(
        &self,
        known: &CatalogEntry,
        sequences: &[Sequence],
    ) -> Result<Vec<Option<Stamped>>, StoreError> {
        let name = &known.destination.name;
        let keys = self.keys().destination(name);
        if sequences.is_empty() {
            return Ok(Vec::new());
        }
        let mut pipe = redis::pipe();
        for some in sequences.chunks(HEADERS_MAX) {
            pipe.hmget(keys.messages(), some).hmget(keys.attempts(), some);
        }
        let answers: Vec<Vec<Option<Bytes>>> = self.query(&pipe).await?;
        let pairs = answers.chunks_exact(2).zip(sequences.chunks(HEADERS_MAX));
        let all = pairs.flat_map(|(pair, some)| {
            pair[0].iter().cloned().zip(pair[1].iter().cloned()).zip(some)
        });
        let read = |((bytes, kept), sequence): ((Option<Bytes>, Option<Bytes>), &Sequence)| {
            let attempts = attempts::read(&kept.unwrap_or_default());
            Some(record::read_or_damaged(bytes?, name, *sequence, attempts))
        };
        Ok(all.map(read).collect())
    }

    /// Ends failed attempts. The messages are tried again after their wait.
    pub async fn fail(
        &self,
        caller: &CallSequence,
        known: &CatalogEntry,
        failed: &[Failed],
    ) -> Result<Vec<Status>, StoreError> {
        let keys = self.keys().destination(&known.destination.name);
        let (name, mut call) = self.script(|scripts| &scripts.fail);
        call.key(keys.partition.call(&caller.name)).key(keys.hash()).key(keys.waiting());
        call.key(keys.messages()).key(keys.attempts()).key(keys.partition.leases());
        call.key(keys.partition.delayed()).key(keys.halted());
        call.key(keys.partition.active(Claimers::Builtin));
        call.key(keys.partition.active(Claimers::Worker)).key(keys.partition.wake_waiting());
        call.key(keys.partition.epoch());
        call.arg(caller.number()).arg(known.destination.name.as_str());
        for one in failed {
            call.arg(one.token.sequence).arg(one.token.member()).arg(one.wait.as_millis() as u64);
            call.arg(u8::from(one.is_final)).arg(attempts::error_text(&one.error));
        }
        caller.answered(self.run(name, &call).await)
    }

    /// Extends leases on one destination's messages to `lease` from now, and stores checkpoints.
    /// Also returns the new deadline, in ms since 1970 by the server's clock.
    pub async fn extend(
        &self,
        known: &CatalogEntry,
        extensions: &[Extension],
        lease: Duration,
    ) -> Result<(u64, Vec<Status>), StoreError> {
        let keys = self.keys().destination(&known.destination.name);
        let (name, mut call) = self.script(|scripts| &scripts.extend);
        call.key(keys.messages()).key(keys.partition.leases()).key(keys.attempts());
        call.key(keys.partition.epoch());
        call.arg(lease.as_millis() as u64);
        for Extension { token, checkpoint } in extensions {
            call.arg(token.sequence).arg(token.member());
            call.arg(checkpoint.as_deref().unwrap_or_default());
        }
        let mut answer = self.run::<Vec<Value>>(name, &call).await?.into_iter();
        let read = |value| u64::from_redis_value(value).ok();
        let deadline = answer.next().and_then(read).ok_or_else(|| unexpected("extend"))?;
        let statuses: Result<_, ParsingError> = answer.map(Status::from_redis_value).collect();
        Ok((deadline, statuses.map_err(|_| unexpected("extend"))?))
    }
}
