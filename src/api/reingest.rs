//! Enqueues messages again: redriven dead letters and replayed messages.

use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{memory_high, request::Target};
use crate::{
    domain::{Arrival, Body, Epoch, Position, Sequence, TransformKind},
    store::{CallSequence, CatalogEntry, Ingested, StoreError, chunks_by_size, retry_until},
    wire::{code::Code, problem::Problem},
};

/// Arrivals per call.
pub(super) const AT_ONCE: usize = 200;
/// The most bytes of bodies in one call (at least one message is taken).
pub(super) const CALL_BYTES_MAX: usize = 4 << 20;
/// How long to retry a call while Redis does not answer.
const RETRY: Duration = Duration::from_secs(10);
/// The most new positions that an answer lists.
const LISTED_MAX: usize = 1_000;

/// Stamps arrivals for one destination, one call at a time.
pub(super) struct Arrivals {
    caller: CallSequence,
    /// The partition's epoch, as last seen.
    epoch: Epoch,
    /// True if a repeat of the request creates no duplicates.
    is_repeatable: bool,
    pub(super) tally: Tally,
}

/// The results so far.
#[derive(Default)]
pub(super) struct Tally {
    pub(super) stamped: u64,
    pub(super) duplicates: u64,
    /// Dead letters that another request redrove or discarded.
    pub(super) gone: u64,
    pub(super) refused: u64,
    pub(super) first: Option<Sequence>,
    pub(super) last: Option<Sequence>,
    pub(super) new_first: Option<Sequence>,
    pub(super) new_last: Option<Sequence>,
    pub(super) deliveries: Vec<Moved>,
}

/// A message's old and new position.
#[derive(Serialize)]
pub(super) struct Moved {
    sequence: Sequence,
    new_sequence: Sequence,
    epoch: Epoch,
}

impl Tally {
    fn stamped(&mut self, old: Sequence, new: Position) {
        self.stamped += 1;
        self.covers(old);
        self.new_first.get_or_insert(new.sequence);
        self.new_last = Some(new.sequence);
        if self.deliveries.len() < LISTED_MAX {
            let Position { epoch, sequence } = new;
            self.deliveries.push(Moved { sequence: old, new_sequence: sequence, epoch });
        }
    }

    /// Includes an old sequence in the range of results.
    pub(super) fn covers(&mut self, old: Sequence) {
        self.first.get_or_insert(old);
        self.last = Some(old);
    }
}

impl Arrivals {
    /// For one request; `is_repeatable` if its repeat creates no duplicates.
    pub(super) fn new(target: &Target, is_repeatable: bool) -> Arrivals {
        let caller = target.api.store.unique_caller(&format!("again:{}", target.name));
        Arrivals { caller, epoch: 0, is_repeatable, tally: Tally::default() }
    }

    /// Stamps these in order, each with its old sequence. If this stops early, the problem says how
    /// to continue.
    pub(super) async fn stamp(
        &mut self,
        target: &mut Target,
        arrivals: &[(Sequence, Arrival)],
    ) -> Result<(), Problem> {
        let fits = |(_, arrival): &&(Sequence, Arrival)| {
            undeliverable(target.entry(), &arrival.message.body).is_none()
        };
        let fitting: Vec<_> = arrivals.iter().filter(fits).collect();
        self.tally.refused += (arrivals.len() - fitting.len()) as u64;
        let size = |one: &&(Sequence, Arrival)| one.1.message.body.bytes.len();
        for some in chunks_by_size(&fitting, AT_ONCE, CALL_BYTES_MAX, size) {
            let call: Vec<&Arrival> = some.iter().map(|(_, arrival)| arrival).collect();
            if let Some(problem) = stopped(target).await {
                return Err(self.with_tally(problem));
            }
            let answers = self.ingest(target, &call).await?;
            let mut is_full = false;
            for ((old, _), answer) in some.iter().zip(answers) {
                match answer {
                    Ingested::Stamped(position) => self.tally.stamped(*old, position),
                    Ingested::Duplicate(..) => {
                        self.tally.duplicates += 1;
                        self.tally.covers(*old);
                    }
                    Ingested::Gone => self.tally.gone += 1,
                    Ingested::Conflict | Ingested::Damaged => self.tally.refused += 1,
                    Ingested::BacklogFull => {
                        self.tally.refused += 1;
                        is_full = true;
                    }
                }
            }
            if is_full {
                return Err(self.with_tally(full()));
            }
        }
        Ok(())
    }

    /// One call, repeated when the epoch or the definition is stale.
    async fn ingest(
        &mut self,
        target: &mut Target,
        arrivals: &[&Arrival],
    ) -> Result<Vec<Ingested>, Problem> {
        let store = target.api.store.clone();
        let deadline = Instant::now() + RETRY;
        loop {
            let (caller, epoch, entry) = (&self.caller, self.epoch, target.entry().clone());
            let call = || store.ingest(caller, &entry, epoch, arrivals);
            match retry_until(Some(deadline), call).await {
                Ok(answers) => return Ok(answers),
                Err(StoreError::StaleEpoch(now)) => self.epoch = now,
                Err(StoreError::StaleDefinition | StoreError::UnknownDestination) => {
                    target.refresh().await?;
                }
                Err(error) => {
                    self.caller.give_up();
                    return Err(self.with_tally(refusal(error)));
                }
            }
        }
    }

    /// Adds to a problem what was done before it, and how to continue.
    fn with_tally(&self, mut problem: Problem) -> Problem {
        let Tally { stamped, duplicates, gone, refused, last, .. } = &self.tally;
        let rest = match last {
            Some(last) if !self.is_repeatable => format!(
                "continue with from_sequence = {}: a repeat would enqueue them twice; with an \
                 idempotency_key it would not",
                last + 1
            ),
            _ => "send the same again later for the rest".to_owned(),
        };
        if problem.code == Code::RedisUnavailable {
            // Part of the request may have been done, so do not say that nothing was.
            problem.detail = "Redis is not available".into();
        }
        problem.detail += &format!("; {stamped} were enqueued again, {rest}");
        let done = [
            ("stamped", json!(stamped)),
            ("duplicates", json!(duplicates)),
            ("gone", json!(gone)),
            ("refused", json!(refused)),
            ("first_sequence", json!(self.tally.first)),
            ("last_sequence", json!(self.tally.last)),
        ];
        let done = done.into_iter().map(|(name, value): (&str, Value)| (name.to_owned(), value));
        problem.more.extend(done);
        problem
    }
}

/// Why nothing more may be stamped now.
async fn stopped(target: &Target) -> Option<Problem> {
    let api = &target.api;
    if api.stop.is_cancelled() {
        let detail = "this pod is stopping; send to another pod";
        return Some(Problem::new(Code::Draining, detail));
    }
    match api.store.memory(target.entry().partition).await {
        Ok(memory) => memory.is_at(api.memory_high_percent).then(memory_high),
        Err(error) => Some(Problem::from(error)),
    }
}

/// Maps an error of the store as ingest does.
fn refusal(error: StoreError) -> Problem {
    match error {
        StoreError::CannotConfirm(problem) => Problem::new(Code::CannotConfirm, problem),
        error => Problem::from(error),
    }
}

/// The problem when the destination's backlog is full.
fn full() -> Problem {
    let detail = "the destination has as many pending messages, or bytes, as its limits allow \
                  (backlog_max, backlog_bytes_max)";
    Problem::new(Code::BacklogFull, detail)
}

/// Why this destination can never deliver this body, if nothing transforms it.
pub(super) fn undeliverable(entry: &CatalogEntry, body: &Body) -> Option<&'static str> {
    let as_is = entry.destination.transform.kind == TransformKind::None;
    (as_is && entry.destination.breaks_lines(&body.bytes))
        .then_some("body: it contains a line break, but the destination frames messages as lines")
}
