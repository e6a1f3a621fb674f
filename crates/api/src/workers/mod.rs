//! `/v1/leases`: the API for the user's own workers, in any language with HTTP and JSON.

mod active;
pub(super) mod complete;
mod ends;
mod handout;
pub(super) mod lease;
pub(super) mod lease_updates;
mod on_arrival;
mod waiter_queue;

pub use on_arrival::WaitingWorkers;

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use axum::{
    Extension,
    body::{Body, Bytes},
    extract::{FromRequest, FromRequestParts, Request},
    http::header,
    response::{IntoResponse, Response},
};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use utoipa::ToSchema;

use active::ActiveDestinations;
use waiter_queue::{Served, WaiterQueues};

use super::{Api, read_json};
use domain::{DestinationName, LeaseToken, Stamped};
use formats::code::Code;
use http_server::{
    client_connection::{ClientConnection, Lost, Tracked},
    principal::Principal,
    problem::Problem,
};
use store::{CallSequence, CatalogEntry, Failed, Status, StoreError, server_clock};
use telemetry::{Noted, SpanOf};

/// The most messages of one lease call, and the most items of the other calls.
pub(super) const ITEMS_MAX: usize = 1000;
/// The most bytes of errors and checkpoints that one call to Redis reads and writes.
const ATTEMPTS_BYTES_MAX: usize = 1 << 20;
/// The most bytes of outputs and attempts that one call to Redis writes.
const CALL_BYTES_MAX: usize = 4 << 20;
/// The longest a lease call may wait, in milliseconds.
pub(super) const WAIT_MS_MAX: u64 = 60_000;
/// The resource that calls use while they wait. Each token has a share of it.
pub(super) const WAITS: &str = "connections with calls that wait for messages";
/// Bounds of a lease, in milliseconds.
const LEASE_MS: std::ops::RangeInclusive<u64> = 100..=24 * 3_600_000;
/// The longest wait that a worker may ask for before the next attempt, in milliseconds.
const RETRY_MS_MAX: u64 = 24 * 3_600_000;

/// The most destinations whose idle call sequences are kept.
const IDLE_DESTINATIONS_MAX: usize = 1024;

/// State shared by the requests of workers: idle call sequences (each call in flight has its own), queues of waiting
/// requests, how much each destination was served, and which destinations may have messages.
#[derive(Default)]
pub struct WorkerRequests {
    idle: Mutex<HashMap<DestinationName, Vec<CallSequence>>>,
    lines: Arc<WaiterQueues>,
    served: Served,
    active: ActiveDestinations,
}

impl WorkerRequests {
    pub(super) fn take(&self, api: &Api, name: &DestinationName) -> CallSequence {
        let mut idle = self.idle.lock();
        let kept = idle.get_mut(name).and_then(Vec::pop);
        kept.unwrap_or_else(|| api.store.new_call_sequence(&format!("worker:{name}")))
    }

    pub(super) fn put_back(&self, name: &DestinationName, call_sequence: CallSequence) {
        // If the last call had no answer, it is not repeated. The next call gets a new number.
        call_sequence.give_up();
        let mut idle = self.idle.lock();
        if idle.len() >= IDLE_DESTINATIONS_MAX && !idle.contains_key(name) {
            // Removes any entry, because a call sequence can always be created again.
            let other = idle.keys().next().cloned();
            other.map(|other| idle.remove(&other));
        }
        idle.entry(name.clone()).or_default().push(call_sequence);
    }
}

/// Notes the attempt of a worker, if the trace of its message is recorded.
fn note_span(token: &LeaseToken, message: &Stamped, outcome: &'static str, error: Option<&str>) {
    telemetry::note_span(
        message,
        &Noted {
            stage: SpanOf::Transform,
            attempt: message.attempts.number(),
            begun: telemetry::time_of(token.claimed_ms),
            ended: server_clock(),
            outcome,
            error,
            links: &[],
            waited_for: None,
        },
    );
}

/// Counts the results that workers returned for a destination.
fn count_results(name: &DestinationName, outcome: &'static str, statuses: &[Status]) {
    let is_stale = |status: &&Status| matches!(status, Status::StaleLease | Status::Settled);
    let stale = statuses.iter().filter(is_stale).count();
    telemetry::worker_results(name.as_str(), outcome, statuses.len() - stale);
    if outcome == "completed" && statuses.len() > stale {
        telemetry::WORKERS.succeeded(name.as_str(), (statuses.len() - stale) as u64);
    }
    telemetry::worker_results(name.as_str(), "stale", stale);
}

/// Resolves when the client closes its direction of the connection.
pub(super) async fn left(client: Option<&ClientConnection>) {
    match client {
        Some(client) => client.left().await,
        None => std::future::pending().await,
    }
}

fn half_a_minute() -> u64 {
    30_000
}

pub(super) fn one() -> usize {
    1
}

/// A list of claimed messages, each with the action on it.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = LeaseItems)]
pub(super) struct Items<T> {
    #[schema(min_items = 1, max_items = 1000)]
    items: Vec<T>,
}

/// The action on one claimed message.
pub(crate) trait Item: DeserializeOwned + Send {
    /// The token of the lease.
    fn token(&self) -> &str;

    /// Checks the values of an item (output, wait, length of the lease, checkpoint), and refuses wrong ones. `at`: the
    /// index in the request.
    fn check(&mut self, _at: usize, _api: &Api) -> Result<(), Problem> {
        Ok(())
    }
}

/// One result for each item, in order.
#[derive(Serialize, ToSchema)]
#[schema(as = LeaseResults)]
pub(crate) struct Results {
    results: Vec<ItemResult>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = LeaseResult)]
struct ItemResult {
    token: String,
    status: Status,
    /// When the extended lease expires.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
    /// What happens to the message if this attempt was its last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    exhausted: Option<&'static str>,
    /// With `attempt_timeout`: the cause and the remedy.
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
}

impl Results {
    fn set(&mut self, index: usize, status: Status) {
        self.results[index].status = status;
    }

    pub(super) fn fill(&mut self, at: &[usize], statuses: &[Status]) {
        at.iter().zip(statuses).for_each(|(&index, &status)| self.set(index, status));
    }

    /// When the extended lease of this item expires.
    pub(super) fn expires_at(&mut self, index: usize, at: String) {
        self.results[index].expires_at = Some(at);
    }

    /// Reports that the attempts of these items ended because they lasted too long.
    fn timed_out(&mut self, at: &[usize], detail: &str) {
        for &index in at {
            let result = &mut self.results[index];
            if result.status == Status::Ok {
                result.status = Status::AttemptTimeout;
                result.detail = Some(detail.to_owned());
            }
        }
    }

    /// Marks these items as damaged.
    pub(super) fn damaged(&mut self, at: &[usize]) {
        at.iter().for_each(|&index| self.set(index, Status::Damaged));
    }

    /// Reports what happens to messages whose attempts are used up.
    fn exhausted(&mut self, at: &[usize], ended: &[Failed]) {
        for (&index, one) in at.iter().zip(ended) {
            let result = &mut self.results[index];
            result.exhausted = one.outcome(result.status);
            if result.exhausted.is_some() {
                result.status = Status::Ok;
            }
        }
    }
}

/// The items of one destination: their indexes in the request, and their leases.
pub(super) struct Group {
    pub(super) entry: Arc<CatalogEntry>,
    pub(super) at: Vec<usize>,
    pub(super) tokens: Vec<LeaseToken>,
}

impl Group {
    fn push(&mut self, index: usize, token: LeaseToken) {
        self.at.push(index);
        self.tokens.push(token);
    }

    /// Splits the group: the items whose index satisfies `is_first`, and the others.
    fn split(self, is_first: impl Fn(usize) -> bool) -> (Group, Group) {
        let Group { entry, at, tokens } = self;
        let mut first = Group { entry: entry.clone(), at: Vec::new(), tokens: Vec::new() };
        let mut others = Group { entry, at: Vec::new(), tokens: Vec::new() };
        for (index, token) in at.into_iter().zip(tokens) {
            if is_first(index) { &mut first } else { &mut others }.push(index, token);
        }
        (first, others)
    }
}

/// The items of a request, grouped by destination, with a preliminary result for each. An item whose token is
/// invalid, or whose destination is gone, has a stale lease.
pub(crate) struct Batch<T> {
    pub(super) items: Vec<T>,
    pub(super) results: Results,
    pub(super) groups: Vec<Group>,
}

impl<T: Item> FromRequest<Api> for Batch<T> {
    type Rejection = Response;

    async fn from_request(request: Request, api: &Api) -> Result<Batch<T>, Response> {
        let (mut parts, body) = request.into_parts();
        let caller = Extension::from_request_parts(&mut parts, api).await;
        let Extension(caller) = caller.map_err(IntoResponse::into_response)?;
        let body = Bytes::from_request(Request::from_parts(parts, body), api).await;
        let items = read_json(body, api.batch_bytes_max).map_err(IntoResponse::into_response)?;
        batch(api, &caller, items).await.map_err(IntoResponse::into_response)
    }
}

async fn batch<T: Item>(
    api: &Api,
    caller: &Principal,
    Items { mut items }: Items<T>,
) -> Result<Batch<T>, Problem> {
    for (at, item) in items.iter_mut().enumerate() {
        item.check(at, api)?;
    }
    check_range("items", items.len() as u64, 1..=ITEMS_MAX as u64)?;
    let mut by_name: BTreeMap<DestinationName, (Vec<usize>, Vec<LeaseToken>)> = BTreeMap::new();
    for (index, item) in items.iter().enumerate() {
        if let Ok(token) = LeaseToken::decode(item.token()) {
            caller.check(&token.destination)?;
            let (at, tokens) = by_name.entry(token.destination.clone()).or_default();
            at.push(index);
            tokens.push(token);
        }
    }
    let mut groups = Vec::with_capacity(by_name.len());
    for (name, (at, tokens)) in by_name {
        if let Some(entry) = existing(api, &name).await? {
            groups.push(Group { entry, at, tokens });
        }
    }
    let stale = |item: &T| ItemResult {
        token: item.token().to_owned(),
        status: Status::StaleLease,
        expires_at: None,
        exhausted: None,
        detail: None,
    };
    let results = Results { results: items.iter().map(stale).collect() };
    Ok(Batch { items, results, groups })
}

/// The approximate size of the stored attempts of a message, in bytes.
fn bytes_left(message: &Stamped) -> usize {
    let attempts = &message.attempts;
    let details = attempts.errors.iter().map(|(_, error)| error.detail.len());
    attempts.checkpoint.as_ref().map_or(0, String::len) + details.sum::<usize>()
}

/// The answer, or `None` if the data of the destination is damaged. Then only the items of this destination fail.
pub(super) fn unless_damaged<T>(answer: Result<T, StoreError>) -> Result<Option<T>, Problem> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if error.is_damage() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The messages of these leases; `None` in the list if a message is gone, and `None` for all if they cannot be read.
async fn messages_of(api: &Api, group: &Group) -> Result<Option<Vec<Option<Stamped>>>, Problem> {
    let sequences: Vec<u64> = group.tokens.iter().map(|token| token.sequence).collect();
    // The body is needed only if the log keeps bodies.
    unless_damaged(match group.entry.destination.log_bodies {
        true => api.store.messages(&group.entry, &sequences).await,
        false => api.store.headers(&group.entry, &sequences).await,
    })
}

pub(super) fn check_range(
    what: &str,
    value: u64,
    range: std::ops::RangeInclusive<u64>,
) -> Result<(), Problem> {
    if range.contains(&value) {
        return Ok(());
    }
    let (min, max) = range.into_inner();
    Err(Problem::invalid_field(format!("{what}: {value} is outside {min} to {max}")))
}

/// Checks the wait that an item of a request asks for in this field.
pub(super) fn check_wait(at: usize, field: &str, wait_ms: Option<u64>) -> Result<(), Problem> {
    check_range(&format!("items[{at}].{field}"), wait_ms.unwrap_or_default(), 0..=RETRY_MS_MAX)
}

/// An answer with messages for a worker. The server calls `lost` if the client does not get the answer.
pub(super) fn handing_out(
    answer: &impl Serialize,
    client: Option<ClientConnection>,
    lost: Lost,
) -> Result<Response, Problem> {
    let text = serde_json::to_vec(answer).map_err(|error| {
        let detail = format!("the messages cannot be written as JSON: {error}");
        Problem::new(Code::Unreadable, detail)
    })?;
    let body = Body::new(Tracked::new(text.into(), client, lost));
    Ok(([(header::CONTENT_TYPE, "application/json")], body).into_response())
}

async fn existing(api: &Api, name: &DestinationName) -> Result<Option<Arc<CatalogEntry>>, Problem> {
    Ok(api.catalog.find(name).await?)
}

pub(super) async fn find(api: &Api, name: &DestinationName) -> Result<Arc<CatalogEntry>, Problem> {
    let entry = existing(api, name).await?;
    entry.ok_or_else(|| Problem::unknown_destination(name.as_str()))
}
