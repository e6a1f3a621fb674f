//! Enqueues messages again: dead letters that are redriven, and messages that are replayed.

use std::{sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use utoipa::ToSchema;

use super::{bulk::Progress, request::Target};
use domain::{Arrival, Body, Epoch, Position, Sequence, TransformKind};
use formats::code::Code;
use http_server::problem::Problem;
use store::{CallSequence, CatalogEntry, Ingested, StoreError, chunks_by_size, retry_until};

/// The most arrivals of one call.
pub(super) const AT_ONCE: usize = 200;
/// The most bytes of bodies in one call (at least one message is taken).
pub(super) const CALL_BYTES_MAX: usize = 4 << 20;
/// How long to retry a call while Redis does not answer.
const RETRY: Duration = Duration::from_secs(10);
/// The most new positions that an answer lists.
const LISTED_MAX: usize = 1_000;

/// Stamps arrivals for one destination, one call at a time.
pub(super) struct Arrivals {
    call_sequence: CallSequence,
    /// The partition's epoch, as last seen.
    epoch: Epoch,
    /// True if a repeat of the request creates no duplicates.
    is_repeatable: bool,
    progress: Arc<Progress>,
    /// The last old sequence that was enqueued again.
    last: Option<Sequence>,
}

/// The old and the new position of a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = NewPosition)]
pub(super) struct Moved {
    sequence: Sequence,
    new_sequence: Sequence,
    epoch: Epoch,
}

impl Arrivals {
    /// Arrivals of one operation. `is_repeatable`: a repeat of the request creates no duplicates.
    pub(super) fn new(target: &Target, is_repeatable: bool, progress: Arc<Progress>) -> Arrivals {
        let call_sequence = target.api.store.new_call_sequence(&format!("again:{}", target.name));
        Arrivals { call_sequence, epoch: 0, is_repeatable, progress, last: None }
    }

    /// Stamps these arrivals in order, each with its old sequence. If this stops early, the problem says how to
    /// continue.
    pub(super) async fn stamp(
        &mut self,
        target: &mut Target,
        arrivals: &[(Sequence, Arrival)],
    ) -> Result<(), Problem> {
        let fits = |(_, arrival): &&(Sequence, Arrival)| {
            undeliverable(target.entry(), &arrival.message.body).is_none()
        };
        let fitting: Vec<_> = arrivals.iter().filter(fits).collect();
        let unfit = (arrivals.len() - fitting.len()) as u64;
        self.progress.update(|operation| operation.failed += unfit);
        let size = |one: &&(Sequence, Arrival)| one.1.message.body.bytes.len();
        let at_once = self.progress.at_once(AT_ONCE).await;
        for some in chunks_by_size(&fitting, at_once, CALL_BYTES_MAX, size) {
            let call: Vec<&Arrival> = some.iter().map(|(_, arrival)| arrival).collect();
            self.progress.turn(call.len()).await.map_err(|problem| self.with_rest(problem))?;
            if let Some(problem) = memory_full(target).await {
                return Err(self.with_rest(problem));
            }
            let answers = self.ingest(target, &call).await?;
            if self.note(some, &answers) {
                return Err(self.with_rest(full()));
            }
        }
        Ok(())
    }

    /// Notes the answers to a call. True if the backlog is full.
    fn note(&mut self, some: &[&(Sequence, Arrival)], answers: &[Ingested]) -> bool {
        let mut is_full = false;
        let last = &mut self.last;
        self.progress.update(|operation| {
            let details = &mut operation.details;
            for ((old, _), answer) in some.iter().zip(answers) {
                match answer {
                    Ingested::Stamped(Position { epoch, sequence }) => {
                        operation.affected += 1;
                        *last = Some(*old);
                        details.new_first_sequence.get_or_insert(*sequence);
                        details.new_last_sequence = Some(*sequence);
                        if details.deliveries.len() < LISTED_MAX {
                            let (epoch, new_sequence) = (*epoch, *sequence);
                            details.deliveries.push(Moved { sequence: *old, new_sequence, epoch });
                        }
                    }
                    Ingested::Duplicate(..) => {
                        details.duplicates = Some(details.duplicates.unwrap_or_default() + 1);
                        *last = Some(*old);
                    }
                    Ingested::Gone => details.gone = Some(details.gone.unwrap_or_default() + 1),
                    Ingested::Conflict
                    | Ingested::Damaged
                    | Ingested::SourceGap(_)
                    | Ingested::SourcesFull => operation.failed += 1,
                    Ingested::BacklogFull => {
                        operation.failed += 1;
                        is_full = true;
                    }
                }
            }
        });
        is_full
    }

    /// Makes one call, and repeats it when the epoch or the definition is stale.
    async fn ingest(
        &mut self,
        target: &mut Target,
        arrivals: &[&Arrival],
    ) -> Result<Vec<Ingested>, Problem> {
        let store = target.api.store.clone();
        let deadline = Instant::now() + RETRY;
        loop {
            let (call_sequence, epoch, entry) =
                (&self.call_sequence, self.epoch, target.entry().clone());
            let call = || store.ingest(call_sequence, &entry, epoch, arrivals);
            match retry_until(Some(deadline), call).await {
                Ok(answers) => return Ok(answers),
                Err(StoreError::StaleEpoch(now)) => self.epoch = now,
                Err(StoreError::StaleDefinition | StoreError::UnknownDestination) => {
                    target.refresh().await?;
                }
                Err(error) => {
                    self.call_sequence.give_up();
                    return Err(self.with_rest(refusal(error)));
                }
            }
        }
    }

    /// Adds to a problem how to continue the operation.
    fn with_rest(&self, mut problem: Problem) -> Problem {
        let rest = match self.last {
            Some(last) if !self.is_repeatable => format!(
                "continue with from_sequence = {}: a repeat would enqueue them twice; with an \
                 idempotency_key it would not",
                last + 1
            ),
            _ => "send the same again later for the rest".to_owned(),
        };
        if problem.code == Code::RedisUnavailable {
            // A part of the request may be done, so the detail must not say that nothing was stored.
            problem.detail = "Redis is not available".into();
        }
        let mut enqueued = 0;
        self.progress.update(|operation| enqueued = operation.affected);
        problem.detail += &format!("; {enqueued} were enqueued again, {rest}");
        problem
    }
}

/// A problem if Redis has too little memory to stamp more.
async fn memory_full(target: &Target) -> Option<Problem> {
    let api = &target.api;
    match api.store.memory(target.entry().partition).await {
        Ok(memory) => memory.is_at(api.memory_high_percent).then(|| StoreError::OutOfMemory.into()),
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

/// The reason why this destination can never deliver this body, if there is one. Only without a transform.
pub(super) fn undeliverable(entry: &CatalogEntry, body: &Body) -> Option<&'static str> {
    let as_is = entry.destination.transform.kind == TransformKind::None;
    (as_is && entry.destination.breaks_lines(&body.bytes))
        .then_some("body: it contains a line break, but the destination frames messages as lines")
}
