//! `/v1/leases`: what a user's own worker needs, in any language that speaks HTTP and JSON.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use axum::{
    Json,
    body::Bytes,
    extract::{State, rejection::BytesRejection},
};
use base64::{Engine, engine::general_purpose::STANDARD};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use time::{OffsetDateTime, format_description::well_known::Rfc3339};
use tokio::{sync::broadcast, time::Instant};

use super::{Api, problem_of, read_json};
use crate::{
    domain::{Body, DestinationName, LeaseToken, Message, Stamped},
    store::{Caller, Claimed, Claimers, Completion, Failed, Known, Status, StoreError, Wake},
    telemetry,
    wire::problem::Problem,
};

/// The most messages of one lease call, and items of the others.
const ITEMS_MAX: usize = 1000;
/// The longest a lease call may wait, in milliseconds.
const WAIT_MS_MAX: u64 = 60_000;
/// Bounds of a lease, in milliseconds.
const LEASE_MS: std::ops::RangeInclusive<u64> = 100..=24 * 3_600_000;
/// The longest wait that a worker may ask for before the next attempt, in milliseconds.
const RETRY_MS_MAX: u64 = 24 * 3_600_000;

/// Callers for calls on behalf of workers: one for each that is under way at once.
#[derive(Default)]
pub struct Callers {
    idle: Mutex<HashMap<DestinationName, Vec<Caller>>>,
    made: AtomicU64,
}

impl Callers {
    fn take(&self, api: &Api, name: &DestinationName) -> Caller {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let caller = idle.get_mut(name).and_then(Vec::pop);
        caller.unwrap_or_else(|| {
            let number = self.made.fetch_add(1, Ordering::Relaxed);
            api.store.caller(&format!("worker:{name}:{number}"))
        })
    }

    fn put_back(&self, name: &DestinationName, caller: Caller) {
        // An answer that did not come is not asked for again here.
        caller.give_up();
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.entry(name.clone()).or_default().push(caller);
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LeaseRequest {
    destinations: Vec<DestinationName>,
    #[serde(default = "one")]
    max: usize,
    #[serde(default)]
    wait_ms: u64,
    #[serde(default = "half_a_minute")]
    lease_ms: u64,
}

fn one() -> usize {
    1
}

fn half_a_minute() -> u64 {
    30_000
}

#[derive(Serialize)]
pub(super) struct Leases {
    leases: Vec<Lease>,
}

/// A message under a worker's lease.
#[derive(Serialize)]
struct Lease {
    token: String,
    destination: DestinationName,
    sequence: u64,
    epoch: u64,
    id: String,
    key: Option<String>,
    attempt: u32,
    deadline: String,
    content_type: String,
    headers: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body_base64: Option<String>,
}

/// `POST /v1/leases`
pub(super) async fn lease(
    State(api): State<Api>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<Leases>, Problem> {
    let request: LeaseRequest = read_json(body, api.batch_bytes_max)?;
    check_range("max", request.max as u64, 1..=ITEMS_MAX as u64)?;
    check_range("wait_ms", request.wait_ms, 0..=WAIT_MS_MAX)?;
    check_range("lease_ms", request.lease_ms, LEASE_MS)?;
    if request.destinations.is_empty() || request.destinations.len() > ITEMS_MAX {
        let detail = format!("destinations: name 1 to {ITEMS_MAX} of them");
        return Err(Problem::invalid_field(detail));
    }
    // Listen first, then look: what comes in between is heard.
    let mut wakes = api.wakes.listen();
    let deadline = Instant::now() + Duration::from_millis(request.wait_ms);
    loop {
        let leases = claim(&api, &request).await?;
        if !leases.is_empty() || Instant::now() >= deadline || api.stop.is_cancelled() {
            return Ok(Json(Leases { leases }));
        }
        let poll = (Instant::now() + Duration::from_secs(1)).min(deadline);
        tokio::select! {
            () = api.stop.cancelled() => {}
            () = tokio::time::sleep_until(poll) => {}
            () = work_for(&request.destinations, &mut wakes) => {}
        }
    }
}

/// Resolves when one of these may have waiting messages.
async fn work_for(names: &[DestinationName], wakes: &mut broadcast::Receiver<Wake>) {
    loop {
        match wakes.recv().await {
            Ok(Wake::Waiting(name)) if names.contains(&name) => return,
            Ok(Wake::Everything) | Err(broadcast::error::RecvError::Lagged(_)) => return,
            Ok(_) => {}
            Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
        }
    }
}

/// Claims from the destinations, each in turn.
async fn claim(api: &Api, request: &LeaseRequest) -> Result<Vec<Lease>, Problem> {
    let lease = Duration::from_millis(request.lease_ms);
    let mut leases = Vec::new();
    // Begins somewhere else each time, so that none is always asked last.
    let count = request.destinations.len();
    let start = rand::random_range(0..count);
    for at in 0..count {
        let name = &request.destinations[(start + at) % count];
        let left = request.max - leases.len();
        if left == 0 {
            break;
        }
        let known = find(api, name).await?;
        if known.claimers() != Claimers::Worker {
            let detail = format!("destinations: {name:?} has no transform of kind \"worker\"");
            return Err(Problem::invalid_field(detail));
        }
        let share = left.div_ceil(count - at);
        let claimed = claim_from(api, known, share, lease).await?;
        if !claimed.messages.is_empty() {
            telemetry::claimed(name.as_str(), claimed.messages.len());
        }
        let deadline = rfc3339(claimed.deadline_ms);
        let shown = |(token, message)| shown(token, message, &deadline);
        leases.extend(claimed.messages.into_iter().map(shown));
    }
    Ok(leases)
}

async fn claim_from(
    api: &Api,
    known: Arc<Known>,
    max: usize,
    lease: Duration,
) -> Result<Claimed, Problem> {
    let name = known.destination.name.clone();
    let mut known = known;
    let caller = api.callers.take(api, &name);
    let mut claimed = api.store.claim(&caller, &known, max, lease).await;
    if matches!(claimed, Err(StoreError::StaleDefinition)) {
        let refreshed = api.catalog.refresh(&name).await;
        if let Ok(Some(fresh)) = refreshed {
            known = fresh;
            claimed = api.store.claim(&caller, &known, max, lease).await;
        }
    }
    api.callers.put_back(&name, caller);
    claimed.map_err(|error| problem_of(&error))
}

fn shown(token: LeaseToken, message: Stamped, deadline: &str) -> Lease {
    let Message { id, key, headers, body, .. } = message.message;
    let is_json = body.content_type.split(';').next().is_some_and(|media_type| {
        let media_type = media_type.trim();
        media_type == "application/json" || media_type.ends_with("+json")
    });
    // What only says that it is JSON goes as bytes.
    let text = is_json.then(|| String::from_utf8(body.bytes.to_vec()).ok()).flatten();
    let json = text.and_then(|text| RawValue::from_string(text).ok());
    Lease {
        token: token.encode(),
        destination: message.destination,
        sequence: message.place.sequence,
        epoch: message.place.epoch,
        id,
        key,
        attempt: message.attempts + 1,
        deadline: deadline.to_owned(),
        body_base64: json.is_none().then(|| STANDARD.encode(&body.bytes)),
        content_type: body.content_type,
        headers: headers.into_iter().collect(),
        body: json,
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Items<T> {
    items: Vec<T>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CompleteItem {
    token: String,
    body: Option<Box<RawValue>>,
    body_base64: Option<String>,
    content_type: Option<String>,
    #[serde(default)]
    drop: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FailItem {
    token: String,
    #[serde(default)]
    error: String,
    #[serde(default, rename = "final")]
    is_final: bool,
    retry_ms: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExtendItem {
    token: String,
    #[serde(default = "half_a_minute")]
    lease_ms: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReleaseItem {
    token: String,
}

#[derive(Serialize)]
pub(super) struct Results {
    results: Vec<ItemResult>,
}

#[derive(Serialize)]
struct ItemResult {
    token: String,
    status: Status,
    #[serde(skip_serializing_if = "Option::is_none")]
    deadline: Option<String>,
}

/// `POST /v1/leases/complete`
pub(super) async fn complete(
    State(api): State<Api>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<Results>, Problem> {
    let Items { items } = read_json::<Items<CompleteItem>>(body, api.batch_bytes_max)?;
    let outputs: Vec<Option<Body>> = items
        .iter()
        .enumerate()
        .map(|(at, item)| output_of(item, at, api.body_bytes_max))
        .collect::<Result<_, _>>()?;
    let groups = group(items.iter().map(|item| item.token.as_str()))?;
    let mut results = Results::stale(items.iter().map(|item| item.token.clone()));
    for (name, of_name) in groups {
        let Some(known) = existing(&api, &name).await? else { continue };
        // The message's own part of the record: only the holder of the lease can change it.
        let sequences: Vec<u64> = of_name.iter().map(|(_, token)| token.sequence).collect();
        let held = api.store.messages(&known, &sequences).await.map_err(|e| problem_of(&e))?;
        let (mut at, mut completions) = (Vec::new(), Vec::new());
        for ((index, token), message) in of_name.into_iter().zip(held) {
            let Some(mut output) = message else {
                results.set(index, Status::Settled);
                continue;
            };
            match &outputs[index] {
                Some(body) => output.message.body = body.clone(),
                None => output.tombstone = true,
            }
            at.push(index);
            completions.push(Completion { token, output });
        }
        if completions.is_empty() {
            continue;
        }
        let caller = api.callers.take(&api, &name);
        let answer = api.store.complete(&caller, &known, &completions).await;
        api.callers.put_back(&name, caller);
        results.fill(&at, answer.map_err(|error| problem_of(&error))?);
    }
    Ok(Json(results))
}

/// What a worker made of a message; none if it dropped it.
fn output_of(item: &CompleteItem, at: usize, bytes_max: usize) -> Result<Option<Body>, Problem> {
    let invalid = |what: &str| Problem::invalid_field(format!("items[{at}]: {what}"));
    let body = match (&item.body, &item.body_base64, item.drop) {
        (None, None, true) => return Ok(None),
        (Some(json), None, false) if item.content_type.is_none() => Body {
            content_type: "application/json".into(),
            bytes: Bytes::copy_from_slice(json.get().as_bytes()),
        },
        (None, Some(text), false) => Body {
            content_type: item.content_type.as_deref().unwrap_or("application/octet-stream").into(),
            bytes: STANDARD.decode(text).map_err(|_| invalid("body_base64 is not base64"))?.into(),
        },
        _ => return Err(invalid("give body, or body_base64 with content_type, or \"drop\": true")),
    };
    if body.bytes.len() > bytes_max {
        return Err(invalid(&format!("the body is longer than {bytes_max} bytes")));
    }
    Ok(Some(body))
}

/// `POST /v1/leases/fail`
pub(super) async fn fail(
    State(api): State<Api>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<Results>, Problem> {
    let Items { items } = read_json::<Items<FailItem>>(body, api.batch_bytes_max)?;
    for (at, item) in items.iter().enumerate() {
        let what = format!("items[{at}].retry_ms");
        check_range(&what, item.retry_ms.unwrap_or_default(), 0..=RETRY_MS_MAX)?;
    }
    let groups = group(items.iter().map(|item| item.token.as_str()))?;
    let mut results = Results::stale(items.iter().map(|item| item.token.clone()));
    for (name, of_name) in groups {
        let Some(known) = existing(&api, &name).await? else { continue };
        let sequences: Vec<u64> = of_name.iter().map(|(_, token)| token.sequence).collect();
        let held = api.store.messages(&known, &sequences).await.map_err(|e| problem_of(&e))?;
        let (mut at, mut failed) = (Vec::new(), Vec::new());
        for ((index, token), message) in of_name.into_iter().zip(held) {
            let item = &items[index];
            let attempt = message.map_or(1, |message| message.attempts + 1);
            let wait = wait_of(item, &known, attempt);
            let error = crate::wire::answer::excerpt(item.error.as_bytes());
            tracing::warn!(
                destination = %name, sequence = token.sequence, attempt, error,
                wait_ms = wait.as_millis() as u64,
                "a worker failed a message, and it is tried again",
            );
            at.push(index);
            failed.push(Failed { token, wait });
        }
        let caller = api.callers.take(&api, &name);
        let answer = api.store.fail(&caller, &known, &failed).await;
        api.callers.put_back(&name, caller);
        failed.iter().for_each(|one| api.due.note(known.partition, one.wait));
        results.fill(&at, answer.map_err(|error| problem_of(&error))?);
    }
    Ok(Json(results))
}

fn wait_of(item: &FailItem, known: &Known, attempt: u32) -> Duration {
    let backoff = known.destination.transform.backoff();
    match item.retry_ms {
        Some(wait_ms) => Duration::from_millis(wait_ms),
        None if item.is_final => Duration::from_millis(backoff.max_ms),
        None => backoff.wait(attempt, rand::random()),
    }
}

/// `POST /v1/leases/extend`
pub(super) async fn extend(
    State(api): State<Api>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<Results>, Problem> {
    let Items { items } = read_json::<Items<ExtendItem>>(body, api.batch_bytes_max)?;
    for (at, item) in items.iter().enumerate() {
        check_range(&format!("items[{at}].lease_ms"), item.lease_ms, LEASE_MS)?;
    }
    let groups = group(items.iter().map(|item| item.token.as_str()))?;
    let mut results = Results::stale(items.iter().map(|item| item.token.clone()));
    for (name, of_name) in groups {
        let Some(known) = existing(&api, &name).await? else { continue };
        // One call for each length of lease, of which there is usually one.
        let mut by_length: BTreeMap<u64, (Vec<usize>, Vec<LeaseToken>)> = BTreeMap::new();
        for (index, token) in of_name {
            let (at, tokens) = by_length.entry(items[index].lease_ms).or_default();
            at.push(index);
            tokens.push(token);
        }
        for (lease_ms, (at, tokens)) in by_length {
            let lease = Duration::from_millis(lease_ms);
            let answer = api.store.extend(&known, &tokens, lease).await;
            let (deadline_ms, statuses) = answer.map_err(|error| problem_of(&error))?;
            for (&index, status) in at.iter().zip(&statuses) {
                if *status == Status::Ok {
                    results.results[index].deadline = Some(rfc3339(deadline_ms));
                }
            }
            results.fill(&at, statuses);
        }
    }
    Ok(Json(results))
}

/// `POST /v1/leases/release`
pub(super) async fn release(
    State(api): State<Api>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<Results>, Problem> {
    let Items { items } = read_json::<Items<ReleaseItem>>(body, api.batch_bytes_max)?;
    let groups = group(items.iter().map(|item| item.token.as_str()))?;
    let mut results = Results::stale(items.iter().map(|item| item.token.clone()));
    for (name, of_name) in groups {
        let Some(known) = existing(&api, &name).await? else { continue };
        let (at, tokens): (Vec<_>, Vec<_>) = of_name.into_iter().unzip();
        let caller = api.callers.take(&api, &name);
        let answer = api.store.unclaim(&caller, &known, &tokens).await;
        api.callers.put_back(&name, caller);
        results.fill(&at, answer.map_err(|error| problem_of(&error))?);
    }
    Ok(Json(results))
}

impl Results {
    /// Until something better is known: a token that is none of ours holds no lease.
    fn stale(tokens: impl Iterator<Item = String>) -> Results {
        let result = |token| ItemResult { token, status: Status::StaleLease, deadline: None };
        Results { results: tokens.map(result).collect() }
    }

    fn set(&mut self, index: usize, status: Status) {
        self.results[index].status = status;
    }

    fn fill(&mut self, at: &[usize], statuses: Vec<Status>) {
        at.iter().zip(statuses).for_each(|(&index, status)| self.set(index, status));
    }
}

type Groups = BTreeMap<DestinationName, Vec<(usize, LeaseToken)>>;

/// The items of each destination, by their place in the request. What is no token is left out.
fn group<'t>(tokens: impl Iterator<Item = &'t str>) -> Result<Groups, Problem> {
    let mut groups = Groups::new();
    let mut count = 0;
    for (index, text) in tokens.enumerate() {
        count += 1;
        if let Ok(token) = LeaseToken::decode(text) {
            groups.entry(token.destination.clone()).or_default().push((index, token));
        }
    }
    check_range("items", count, 1..=ITEMS_MAX as u64)?;
    Ok(groups)
}

fn check_range(
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

async fn existing(api: &Api, name: &DestinationName) -> Result<Option<Arc<Known>>, Problem> {
    api.catalog.find(name).await.map_err(|error| problem_of(&error))
}

async fn find(api: &Api, name: &DestinationName) -> Result<Arc<Known>, Problem> {
    let known = existing(api, name).await?;
    known.ok_or_else(|| Problem::unknown_destination(name.as_str()))
}

fn rfc3339(ms: u64) -> String {
    OffsetDateTime::from_unix_timestamp_nanos(i128::from(ms) * 1_000_000)
        .ok()
        .and_then(|instant| instant.format(&Rfc3339).ok())
        .unwrap_or_default()
}
