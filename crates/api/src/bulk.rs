//! Bulk operations, such as a purge or a redrive: each runs in its own task, and its progress is in Redis. The answer
//! to a short operation comes when it has ended. A long operation continues after the answer; clients can watch and
//! cancel it.

use std::{
    collections::BTreeMap,
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::{
    Json,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::Instant;
use utoipa::{IntoParams, IntoResponses, ToSchema};
use uuid::Uuid;

use super::{
    Api, audit, draining,
    reingest::Moved,
    request::{Target, time_of},
    views::rfc3339,
};
use domain::{DestinationName, Sequence};
use http_server::{invalid::Location, problem::Problem};
use store::{Found, StoreError, server_clock_ms};

/// A running operation writes its progress to Redis at this interval.
const NOTE_EVERY: Duration = Duration::from_secs(1);
/// How long an answer waits for the end of an operation, unless `Prefer` says otherwise.
const WAIT: Duration = Duration::from_secs(10);
/// The longest wait that `Prefer` can ask for.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// An operation without progress for this long has lost its process.
const INTERRUPTED_AFTER_MS: u64 = 15_000;

tokio::task_local! {
    /// The id of an operation on several shards: all of them use the same.
    pub(super) static OPERATION: String;
}

/// The id of a new operation.
pub(super) fn new_id() -> String {
    Uuid::now_v7().to_string()
}

/// The kind of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = OperationKind)]
pub(super) enum Kind {
    Purge,
    Redrive,
    Discard,
    Replay,
    RetryHeads,
    RunNow,
    Repair,
}

/// How long the answer waits for the end of a bulk operation.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct Prefer {
    /// `respond-async`, or `wait=<seconds>` for the end (RFC 7240); 10 s if absent
    #[param(rename = "Prefer")]
    prefer: Option<String>,
}

/// The answers of a bulk operation.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) enum BulkAnswers {
    /// The operation has ended
    #[response(status = 200)]
    Done(Operation),
    /// The operation continues after this answer
    #[response(status = 202, headers(("Location" = String, description = "Where the operation can be read")))]
    GoesOn(Operation),
}

/// The state of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = OperationState)]
pub(super) enum State {
    Running,
    /// The operation has done everything.
    Succeeded,
    /// The operation stopped early; `problem` says why.
    Failed,
    /// A client cancelled the operation; the counts show what it did before.
    Cancelled,
    /// The process of the operation ended. Send the same request again to do the rest.
    Interrupted,
}

/// The value as the API spells it.
pub(super) fn name_of(value: impl Serialize) -> String {
    json!(value).as_str().unwrap_or_default().to_owned()
}

/// A bulk operation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub(super) struct Operation {
    pub(super) id: String,
    pub(super) kind: Kind,
    pub(super) destination: DestinationName,
    pub(super) state: State,
    /// True if the operation only counts.
    pub(super) dry_run: bool,
    #[schema(format = DateTime)]
    pub(super) started_at: String,
    #[schema(format = DateTime)]
    updated_at: String,
    /// Messages that the request selects, or problems that it has found, counted so far.
    pub(super) matched: u64,
    /// Messages that the operation has purged, redriven, discarded, replayed or retried; problems that it has repaired.
    pub(super) affected: u64,
    /// Messages that the operation could not change.
    pub(super) failed: u64,
    #[serde(flatten)]
    pub(super) details: Details,
    /// Why the operation failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<http_server::problem::ProblemObject>)]
    problem: Option<Value>,
}

/// Fields that only some kinds of operations have.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
#[schema(as = OperationDetails)]
pub(super) struct Details {
    /// `purge` with `dry_run`: the selected messages by state.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) by_state: BTreeMap<String, u64>,
    /// `purge`: messages of `affected` that leave only when their attempt has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) withdrawing: Option<u64>,
    /// `redrive`, `discard`: dead letters that the request names and that do not exist (any more).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) gone: Option<u64>,
    /// `replay`: messages that were already stored under the same idempotency key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) duplicates: Option<u64>,
    /// `replay`: entries of the log without a body.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) without_body: Option<u64>,
    /// `replay`: the range of sequences in the log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) first_sequence: Option<Sequence>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) last_sequence: Option<Sequence>,
    /// `replay`: the range of new sequences.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) new_first_sequence: Option<Sequence>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) new_last_sequence: Option<Sequence>,
    /// `redrive`: the new positions of the first 1,000 messages.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) deliveries: Vec<Moved>,
    /// `repair`: the problems found, by kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) items: Option<Vec<Found>>,
    /// `repair`: false if the operation could not compare everything: repair again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) counters_verified: Option<bool>,
}

impl Operation {
    fn new(kind: Kind, destination: DestinationName, dry_run: bool) -> Operation {
        let now_ms = server_clock_ms();
        Operation {
            id: OPERATION.try_with(String::clone).unwrap_or_else(|_| new_id()),
            kind,
            destination,
            state: State::Running,
            dry_run,
            started_at: rfc3339(now_ms),
            updated_at: rfc3339(now_ms),
            matched: 0,
            affected: 0,
            failed: 0,
            details: Details::default(),
            problem: None,
        }
    }

    /// Reads a stored operation. If its process has ended, the operation counts as interrupted.
    pub(super) fn read(text: &str, now_ms: u64) -> Result<Operation, Problem> {
        let read: Result<Operation, _> = serde_json::from_str(text);
        let mut operation =
            read.map_err(|error| Problem::from(StoreError::Unreadable(error.to_string())))?;
        let updated_ms = time_of(Location::Body, "updated_at", &operation.updated_at)?;
        let is_lost = now_ms > updated_ms + INTERRUPTED_AFTER_MS;
        if operation.state == State::Running && is_lost {
            operation.state = State::Interrupted;
        }
        Ok(operation)
    }
}

/// The progress of a running operation, for the task that carries it out.
pub(super) struct Progress {
    operation: Mutex<Operation>,
    is_cancelled: AtomicBool,
    api: Api,
    /// The rate that the request asks for, and the earliest time of the next message.
    pace: tokio::sync::Mutex<Option<(NonZeroU32, Instant)>>,
}

impl Progress {
    /// From now on, limits the operation to this many messages per second; `None`: as fast as possible.
    pub(super) async fn set_rate(&self, per_second: Option<NonZeroU32>) {
        *self.pace.lock().await = per_second.map(|rate| (rate, Instant::now()));
    }

    /// The most messages that one call may take, at most `most`, so that the calls keep the rate.
    pub(super) async fn at_once(&self, most: usize) -> usize {
        let rate = self.pace.lock().await.map(|(rate, _)| rate.get() as usize);
        rate.map_or(most, |rate| most.min(rate))
    }

    /// Waits until the rate allows this many messages, at most about a second. An error if the operation must stop.
    pub(super) async fn turn(&self, messages: usize) -> Result<(), Problem> {
        if let Some((rate, next)) = &mut *self.pace.lock().await {
            tokio::time::sleep_until(*next).await;
            let took = Duration::from_secs_f64(messages as f64 / f64::from(rate.get()));
            *next = Instant::now().max(*next) + took;
        }
        self.check()
    }

    /// Changes the fields of the operation.
    pub(super) fn update(&self, change: impl FnOnce(&mut Operation)) {
        change(&mut self.operation.lock());
    }

    /// An error if the operation must stop: a client cancelled it, or the process stops.
    pub(super) fn check(&self) -> Result<(), Problem> {
        match self.is_cancelled.load(Ordering::Relaxed) || self.api.stop.is_cancelled() {
            true => Err(draining()),
            false => Ok(()),
        }
    }

    /// The operation as it is now.
    fn now(&self) -> Operation {
        self.operation.lock().clone()
    }

    /// Writes the progress to Redis.
    async fn note(&self, target: &Target) -> Result<(), StoreError> {
        self.update(|operation| operation.updated_at = rfc3339(server_clock_ms()));
        let operation = self.now();
        let (store, text) = (&self.api.store, json!(operation).to_string());
        if store.note_operation(target.entry(), &operation.id, &text).await? {
            self.is_cancelled.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Sets the final state.
    fn end(&self, ended: &Result<(), Problem>) {
        let is_cancelled = self.is_cancelled.load(Ordering::Relaxed);
        self.update(|operation| match ended {
            Ok(()) => operation.state = State::Succeeded,
            Err(_) if is_cancelled => operation.state = State::Cancelled,
            Err(_) if self.api.stop.is_cancelled() => operation.state = State::Interrupted,
            Err(problem) => {
                operation.state = State::Failed;
                operation.problem = Some(problem.json(None));
            }
        });
    }
}

/// Runs an operation. Answers 200 when the operation has ended, or 202 if it lasts longer than the client waits. The
/// operation then continues after the answer.
pub(super) async fn run<F>(
    target: &Target,
    kind: Kind,
    dry_run: bool,
    headers: &HeaderMap,
    work: impl FnOnce(Arc<Progress>) -> F,
) -> Result<Response, Problem>
where
    F: Future<Output = Result<(), Problem>> + Send + 'static,
{
    let wait = wait_of(headers)?;
    let operation = Operation::new(kind, target.name.clone(), dry_run);
    let progress = Arc::new(Progress {
        operation: Mutex::new(operation),
        is_cancelled: AtomicBool::new(false),
        api: target.api.clone(),
        pace: tokio::sync::Mutex::default(),
    });
    // If this fails, the operation has done nothing.
    progress.note(target).await?;
    let action = audit::current();
    if let Some(action) = &action {
        action.operation_begins(&progress.now().id, dry_run).await;
    }
    let (target_of_it, noted, work) = (target.clone(), progress.clone(), work(progress.clone()));
    let running = target.api.tasks.spawn(async move {
        let ended = carry_out(target_of_it, noted.clone(), work).await;
        if let Some(action) = action {
            let operation = noted.now();
            let affected = if dry_run { 0 } else { operation.affected };
            action.operation_ended(name_of(operation.state), affected).await;
        }
        ended
    });
    match tokio::time::timeout(wait, running).await {
        Ok(Ok(Ok(()))) => Ok(Json(progress.now()).into_response()),
        Ok(Ok(Err(problem))) => Err(with_operation(problem, &progress.now())),
        Ok(Err(_)) => Err(draining()),
        Err(_) => {
            let operation = progress.now();
            let path = path_of(&operation);
            Ok((StatusCode::ACCEPTED, [(header::LOCATION, path)], Json(operation)).into_response())
        }
    }
}

/// Carries out an operation, and writes its progress to Redis meanwhile. A cancelled operation has no problem.
async fn carry_out(
    target: Target,
    progress: Arc<Progress>,
    work: impl Future<Output = Result<(), Problem>>,
) -> Result<(), Problem> {
    let mut work = std::pin::pin!(work);
    let mut notes = tokio::time::interval(NOTE_EVERY);
    notes.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    notes.tick().await;
    let ended = loop {
        tokio::select! {
            ended = &mut work => break ended,
            _ = notes.tick() => {
                if let Err(error) = progress.note(&target).await {
                    tracing::warn!(%error, "the progress of an operation cannot be noted");
                }
            }
        }
    };
    progress.end(&ended);
    if let Err(error) = progress.note(&target).await {
        // The operation will show as interrupted. If the client repeats the request, it does the rest.
        tracing::warn!(%error, "the end of an operation cannot be noted");
    }
    let operation = progress.now();
    tracing::info!(
        destination = %operation.destination, kind = name_of(operation.kind), state = name_of(operation.state),
        affected = operation.affected, failed = operation.failed, "an operation has ended",
    );
    match operation.state {
        State::Cancelled => Ok(()),
        _ => ended,
    }
}

/// The path that shows the operation.
fn path_of(operation: &Operation) -> String {
    format!("/v1/destinations/{}/operations/{}", operation.destination, operation.id)
}

/// Adds the operation to the problem that stopped it.
fn with_operation(mut problem: Problem, operation: &Operation) -> Problem {
    problem.more.insert("operation".to_owned(), json!(operation));
    problem
}

/// How long the client waits: `Prefer: wait=<seconds>`, or `respond-async` (RFC 7240).
fn wait_of(headers: &HeaderMap) -> Result<Duration, Problem> {
    let (mut wait, mut is_async) = (None, false);
    for value in headers.get_all("prefer") {
        let text = value.to_str().unwrap_or_default();
        for preference in text.split([',', ';']).map(str::trim) {
            if preference.eq_ignore_ascii_case("respond-async") {
                is_async = true;
            }
            if let Some(seconds) = preference.strip_prefix("wait=") {
                let seconds: u64 = seconds.trim_matches('"').parse().map_err(|_| {
                    Problem::invalid_header("Prefer: wait is a number of seconds, such as wait=5")
                })?;
                wait = Some(Duration::from_secs(seconds).min(WAIT_MAX));
            }
        }
    }
    Ok(wait.unwrap_or(if is_async { Duration::ZERO } else { WAIT }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_client_says_how_long_it_waits() {
        let wait = |values: &[&'static str]| {
            let headers =
                values.iter().map(|value| (header::HeaderName::from_static("prefer"), *value));
            let headers = headers.map(|(name, value)| (name, value.parse().unwrap()));
            wait_of(&headers.collect()).map(|wait| wait.as_secs())
        };
        assert_eq!(wait(&[]).unwrap(), 10);
        assert_eq!(wait(&["respond-async"]).unwrap(), 0);
        assert_eq!(wait(&["respond-async, wait=5"]).unwrap(), 5);
        assert_eq!(wait(&["wait=\"7\"", "Respond-Async"]).unwrap(), 7);
        assert_eq!(wait(&["wait=3600; x=1, handling=lenient"]).unwrap(), 60);
        assert!(wait(&["wait=soon"]).unwrap_err().detail.contains("Prefer"));
    }
}
