//! The JSON of messages in answers.

use std::collections::BTreeMap;

use base64::{Engine, engine::general_purpose::STANDARD};
use serde::Serialize;
use serde_json::value::RawValue;
use time::{OffsetDateTime, format_description::well_known::Rfc3339};
use utoipa::ToSchema;

use domain::{
    AttemptError, Body, DestinationName, ErrorKind, Ordering, Origin, Sequence, Stage, Stamped,
    State, WorkerName,
};
use formats::json::{joined_headers, json_body};
use http_server::problem::Problem;
use store::{CatalogEntry, DeadLetter, Leased, Listed, LogEntry};

/// A page of a list.
#[derive(Serialize, ToSchema)]
pub(super) struct Items<T> {
    pub(super) items: Vec<T>,
    /// The `cursor` of the next page; null on the last.
    pub(super) next_cursor: Option<String>,
}

/// The fields of every message.
#[derive(Serialize, ToSchema)]
#[schema(as = MessageFields)]
pub(super) struct Common {
    /// The shard of the message, in lists of a destination with several.
    #[serde(skip_serializing_if = "Option::is_none")]
    shard: Option<String>,
    sequence: Sequence,
    epoch: u64,
    pub(super) id: String,
    key: Option<String>,
    /// When the message arrived; absent if Redis has too little of the message to tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    received_at: Option<String>,
    attempts: u32,
    stalls: u32,
    bytes: u64,
    content_type: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    origin: Option<Was>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_error: Option<Failure>,
    /// The reason why the message cannot be read; absent if it can be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    damaged: Option<String>,
}

/// The original of a message that was redriven or replayed.
#[derive(Serialize, ToSchema)]
#[schema(as = Origin)]
struct Was {
    destination: DestinationName,
    epoch: u64,
    sequence: Sequence,
}

/// A failed attempt.
#[derive(Serialize, ToSchema)]
#[schema(as = Failure)]
pub(super) struct Failure {
    #[schema(format = DateTime)]
    occurred_at: String,
    stage: Stage,
    kind: ErrorKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    detail: String,
}

/// Fields that only the view of a single message has.
#[derive(Default, Serialize, ToSchema)]
#[schema(as = MessageContent)]
pub(super) struct Inside {
    /// The sequence of the message before this one in its lane, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    previous: Option<Sequence>,
    #[serde(skip_serializing_if = "Option::is_none")]
    headers: Option<BTreeMap<String, String>>,
    /// The body, if it is JSON that all parsers can read.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    body: Option<Box<RawValue>>,
    /// The body in base64, if `body` is absent: the body is not JSON that all parsers can read.
    #[serde(skip_serializing_if = "Option::is_none")]
    body_base64: Option<String>,
    /// The last errors.
    #[serde(skip_serializing_if = "Option::is_none")]
    errors: Option<Vec<Failure>>,
    /// True if a worker saved a checkpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    checkpoint: Option<bool>,
}

/// A pending message.
#[derive(Serialize, ToSchema)]
#[schema(as = PendingMessage)]
pub(super) struct Pending {
    #[serde(flatten)]
    pub(super) common: Common,
    state: State,
    #[serde(skip_serializing_if = "Option::is_none")]
    age_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    due_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    halted_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<u8>,
    withdrawing: bool,
    /// Set if workers asked to get the message again later.
    #[serde(skip_serializing_if = "Option::is_none")]
    asked_later: Option<AskedLater>,
    /// The lease of the worker or consumer that has the message.
    #[serde(skip_serializing_if = "Option::is_none")]
    lease: Option<HeldBy>,
    #[serde(flatten)]
    inside: Inside,
}

/// Requests of workers to get a message again later.
#[derive(Serialize, ToSchema)]
pub(super) struct AskedLater {
    /// How many times workers asked, since the message arrived or an operator retried it.
    times: u32,
    /// The message waits until this time because a worker asked; absent if it does not wait for this reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    until: Option<String>,
}

impl AskedLater {
    fn of(listed: &Listed) -> Option<AskedLater> {
        let times = listed.message.attempts.asked_later;
        let until = listed.due_ms.filter(|_| listed.waits_for_later()).map(rfc3339);
        (times > 0).then_some(AskedLater { times, until })
    }
}

/// The lease on a message that a worker processes or a consumer holds.
#[derive(Serialize, ToSchema)]
#[schema(as = MessageLease)]
pub(super) struct HeldBy {
    /// The name that the worker gave, or the pod of a built-in transform; absent if the worker gave none.
    #[serde(skip_serializing_if = "Option::is_none")]
    worker: Option<WorkerName>,
    /// The name that the consumer gave; absent if it gave none.
    #[serde(skip_serializing_if = "Option::is_none")]
    consumer: Option<WorkerName>,
    /// When the lease expires, unless it is extended.
    #[schema(format = DateTime)]
    expires_at: String,
}

impl HeldBy {
    /// The lease on a message in this state.
    fn of(lease: &Leased, state: State) -> HeldBy {
        let holder = lease.holder.clone();
        let (worker, consumer) = match state {
            State::Ready => (None, holder),
            _ => (holder, None),
        };
        HeldBy { worker, consumer, expires_at: rfc3339(lease.expires_ms) }
    }
}

/// A dead letter.
#[derive(Serialize, ToSchema)]
#[schema(as = DeadLetter)]
pub(super) struct Letter {
    #[serde(flatten)]
    pub(super) common: Common,
    state: State,
    #[schema(format = DateTime)]
    dead_lettered_at: String,
    stage: Stage,
    reason: String,
    #[serde(flatten)]
    inside: Inside,
}

/// An entry of the log, which may be unreadable.
#[derive(Serialize, ToSchema)]
#[schema(as = LogEntry)]
#[serde(untagged)]
pub(super) enum Left {
    Gone(Gone),
    Damaged(Unreadable),
}

/// A log entry that cannot be read.
#[derive(Serialize, ToSchema)]
pub(super) struct Unreadable {
    /// The shard of the message, in lists of a destination with several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) shard: Option<String>,
    pub(super) sequence: Sequence,
    /// The reason why the entry cannot be read.
    pub(super) damaged: String,
}

/// A message that has left.
#[derive(Serialize, ToSchema)]
#[schema(as = GoneMessage)]
pub(super) struct Gone {
    /// The shard of the message, in lists of a destination with several.
    #[serde(skip_serializing_if = "Option::is_none")]
    shard: Option<String>,
    sequence: Sequence,
    epoch: u64,
    pub(super) id: String,
    key: Option<String>,
    state: State,
    #[schema(format = DateTime)]
    received_at: String,
    #[schema(format = DateTime)]
    settled_at: String,
    attempts: u32,
    latency: Latency,
    dead_letter: bool,
}

#[derive(Serialize, ToSchema)]
struct Latency {
    waited_ms: Option<u64>,
    processing_ms: Option<u64>,
    delivery_ms: u64,
    total_ms: u64,
}

impl Common {
    fn of(message: &Stamped) -> Common {
        Common {
            shard: None,
            sequence: message.position.sequence,
            epoch: message.position.epoch,
            id: message.message.id.clone(),
            key: message.message.key.clone(),
            received_at: message.message.received().map(rfc3339),
            attempts: message.attempts.failed,
            stalls: message.attempts.stalls,
            bytes: message.accounted_bytes,
            content_type: message.message.body.content_type.clone(),
            origin: message.origin.as_ref().map(Was::of),
            last_error: message.attempts.errors.first().map(Failure::of),
            damaged: message.damaged.clone(),
        }
    }
}

impl Was {
    fn of(origin: &Origin) -> Was {
        let Origin { destination, position } = origin;
        Was { destination: destination.clone(), epoch: position.epoch, sequence: position.sequence }
    }
}

impl Failure {
    pub(super) fn of((at_ms, error): &(u64, AttemptError)) -> Failure {
        let AttemptError { stage, kind, status, detail } = error.clone();
        Failure { occurred_at: rfc3339(*at_ms), stage, kind, status, detail }
    }
}

impl Inside {
    fn of(message: &Stamped, json_depth_max: usize) -> Inside {
        let (body, body_base64) = body_shown(&message.message.body, json_depth_max);
        Inside {
            previous: message.previous,
            headers: Some(joined_headers(&message.message.headers)),
            body,
            body_base64,
            errors: Some(message.attempts.errors.iter().map(Failure::of).collect()),
            checkpoint: Some(message.attempts.checkpoint.is_some()),
        }
    }
}

impl Pending {
    /// The view for a list. If `whole` gives the deepest nesting of JSON, also the fields of the view of a single
    /// message.
    pub(super) fn of(
        destination_entry: &CatalogEntry,
        listed: &Listed,
        now_ms: u64,
        whole: Option<usize>,
    ) -> Pending {
        let message = &listed.message;
        let by_priority = destination_entry.destination.ordering == Ordering::None;
        Pending {
            common: Common::of(message),
            state: listed.state,
            age_ms: message.message.age_ms(now_ms),
            due_at: listed.due_ms.map(rfc3339),
            halted_at: listed.halted_ms.map(rfc3339),
            priority: by_priority.then_some(message.priority),
            withdrawing: listed.withdrawing,
            asked_later: AskedLater::of(listed),
            lease: listed.lease.as_ref().map(|lease| HeldBy::of(lease, listed.state)),
            inside: whole.map(|depth_max| Inside::of(message, depth_max)).unwrap_or_default(),
        }
    }
}

impl Letter {
    /// The view for a list. If `whole` gives the deepest nesting of JSON, also the fields of the view of a single
    /// message.
    pub(super) fn of(letter: &DeadLetter, whole: Option<usize>) -> Letter {
        Letter {
            common: Common::of(&letter.message),
            state: State::DeadLettered,
            dead_lettered_at: rfc3339(letter.at_ms),
            stage: letter.stage,
            reason: letter.reason.clone(),
            inside: whole
                .map(|depth_max| Inside::of(&letter.message, depth_max))
                .unwrap_or_default(),
        }
    }
}

impl Gone {
    /// The view of a log entry.
    pub(super) fn of(sequence: Sequence, entry: &LogEntry, dead_letter: bool) -> Gone {
        Gone {
            shard: None,
            sequence,
            epoch: entry.epoch,
            id: entry.id.clone(),
            key: entry.key.clone(),
            state: entry.outcome,
            received_at: rfc3339(entry.received_ms),
            settled_at: rfc3339(entry.settled_ms),
            attempts: entry.attempts,
            latency: Latency {
                waited_ms: entry.processed.map(|processed| processed.waited_ms),
                processing_ms: entry.processed.map(|processed| processed.took_ms),
                delivery_ms: entry.delivery_ms,
                total_ms: entry.settled_ms.saturating_sub(entry.received_ms),
            },
            dead_letter,
        }
    }
}

/// A body as JSON if its content type is JSON and every parser can read it; otherwise as base64.
pub(super) fn body_shown(
    body: &Body,
    json_depth_max: usize,
) -> (Option<Box<RawValue>>, Option<String>) {
    match json_body(&body.content_type, &body.bytes, json_depth_max) {
        Some(json) => (Some(json), None),
        None => (None, Some(STANDARD.encode(&body.bytes))),
    }
}

/// The body in a request: JSON, or base64 with a content type; `None` if the request has no body.
pub(super) fn body_given(
    json: Option<&RawValue>,
    base64: Option<&str>,
    content_type: Option<&str>,
    bytes_max: usize,
) -> Result<Option<Body>, Problem> {
    let (bytes, default) = match (json, base64) {
        (Some(_), Some(_)) => {
            return Err(Problem::invalid_field("body: give either it or body_base64, not both"));
        }
        (None, None) if content_type.is_some() => {
            let detail = "content_type: only with body_base64, which is missing";
            return Err(Problem::invalid_field(detail));
        }
        (None, None) => return Ok(None),
        (Some(json), None) => (json.get().as_bytes().to_vec(), "application/json"),
        (None, Some(text)) => {
            let bytes = STANDARD
                .decode(text)
                .map_err(|_| Problem::invalid_field("body_base64: is not base64"))?;
            (bytes, "application/octet-stream")
        }
    };
    if bytes.len() > bytes_max {
        return Err(Problem::body_too_large(bytes_max));
    }
    let content_type = content_type.unwrap_or(default);
    domain::message::check_text("content_type", content_type, 256)
        .map_err(Problem::invalid_field)?;
    Ok(Some(Body { content_type: content_type.to_owned(), bytes: bytes.into() }))
}

/// A time in ms since 1970, as RFC 3339 text.
pub(super) fn rfc3339(ms: u64) -> String {
    OffsetDateTime::from_unix_timestamp_nanos(i128::from(ms) * 1_000_000)
        .ok()
        .and_then(|instant| instant.format(&Rfc3339).ok())
        .unwrap_or_default()
}
