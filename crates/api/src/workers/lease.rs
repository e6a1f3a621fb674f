//! `POST /v1/leases`: claims messages for a worker, with a long poll.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
    time::Duration,
};

use axum::{
    Extension,
    body::Bytes,
    extract::{State, rejection::BytesRejection},
    response::Response,
};
use base64::{Engine, engine::general_purpose::STANDARD};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::{sync::broadcast, time::Instant};
use utoipa::ToSchema;

use super::{
    ITEMS_MAX, LEASE_MS, WAIT_MS_MAX, WAITS, check_range, find, half_a_minute, handing_out,
    handout::{self, Handed},
    left,
    on_arrival::{Given, Waiter},
    one,
    waiter_queue::WaiterTicket,
};
use crate::{Api, draining, read_json, shards::with_shards, views::rfc3339};
use domain::{
    AttemptError, DestinationName, LeaseToken, Message, Stamped, Transform, WorkerName,
    trace::TRACEPARENT,
};
use formats::json::{embeddable, joined_headers, json_body};
use http_server::{
    client_connection::ClientConnection, openapi_responses, principal::Principal, problem::Problem,
    shares::Shares,
};
use store::{CatalogEntry, Claimed, Claimers, LeaseTerms, StoreError, Wake, WakeKind, woken};
use telemetry::SpanOf;

/// The most claims from one destination in a row that return no message because they only skipped some.
const LOOKS_MAX: usize = 20;
/// The highest `min`: one answer may have to contain this many bodies.
const MIN_MAX: usize = 64;

/// Which messages to claim.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct LeaseRequest {
    /// The destinations to claim from. Their transform is `worker`.
    #[schema(min_items = 1, max_items = 1000)]
    destinations: Vec<DestinationName>,
    /// The most messages to claim.
    #[serde(default = "one")]
    #[schema(minimum = 1, maximum = 1000, default = 1)]
    max: usize,
    /// The fewest messages to claim: if fewer wait, the answer has none. Above 1 only with one destination.
    #[serde(default = "one")]
    #[schema(minimum = 1, maximum = 64, default = 1)]
    min: usize,
    /// Wait up to this long if there is nothing to claim.
    #[serde(default)]
    #[schema(maximum = 60_000)]
    wait_ms: u64,
    /// The name of the worker, for example `1234@host-7`. The API shows it with the messages that the worker processes.
    #[serde(default)]
    worker: Option<WorkerName>,
    /// False while the process of the worker holds a suspect message: it gets no other suspect.
    #[serde(default = "yes")]
    #[schema(default = true)]
    suspects: bool,
    /// How long the leases last.
    #[serde(default = "half_a_minute")]
    #[schema(minimum = 100, maximum = 86_400_000, default = 30_000)]
    lease_ms: u64,
}

fn yes() -> bool {
    true
}

/// Claimed messages.
#[derive(Default, Serialize, ToSchema)]
pub(crate) struct Leases {
    leases: Vec<Lease>,
    /// The destinations from which nothing can be claimed, because their data in Redis is damaged.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    damaged: Vec<DestinationName>,
}

/// A message under a worker's lease.
#[derive(Serialize, ToSchema)]
struct Lease {
    /// The token that names the lease in later calls.
    token: String,
    destination: DestinationName,
    sequence: u64,
    epoch: u64,
    id: String,
    key: Option<String>,
    attempt: u32,
    /// True if the message may have crashed its last workers. Process no other suspect in the same process.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    suspect: bool,
    /// The checkpoint of the last attempt, as JSON.
    #[schema(value_type = Option<serde_json::Value>)]
    checkpoint: Option<Box<RawValue>>,
    /// The checkpoint in base64, if some JSON parsers would refuse it.
    #[serde(skip_serializing_if = "Option::is_none")]
    checkpoint_base64: Option<String>,
    /// The error of the last attempt.
    last_error: Option<LastError>,
    #[schema(format = DateTime)]
    expires_at: String,
    content_type: String,
    headers: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    body: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body_base64: Option<String>,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct LastError {
    #[serde(flatten)]
    error: AttemptError,
    occurred_at: String,
}

impl LastError {
    /// The error of an attempt that ended at this time.
    pub(crate) fn of((at_ms, error): (u64, AttemptError)) -> LastError {
        LastError { error, occurred_at: rfc3339(at_ms) }
    }
}

/// `POST /v1/leases`
#[utoipa::path(post, path = "/v1/leases", tag = "workers", operation_id = "claim",
    request_body = LeaseRequest,
    responses((status = 200, description = "Messages, or none", body = Leases), openapi_responses::Works))]
pub(crate) async fn lease(
    State(api): State<Api>,
    (Extension(caller), Extension(waits)): (Extension<Principal>, Extension<Shares>),
    client: Option<Extension<ClientConnection>>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Problem> {
    let mut request: LeaseRequest = read_json(body, api.batch_bytes_max)?;
    request.check()?;
    caller.check_all(&request.destinations)?;
    let _share = if request.wait_ms > 0 { waits.take(&caller, WAITS)? } else { None };
    request.destinations = with_shards(&api, &request.destinations, request.min).await?;
    let named: HashSet<_> = request.destinations.iter().cloned().collect();
    // A request that waits for at least two messages must not block requests that take any number.
    let stands_in_line = request.wait_ms > 0 && request.min == 1;
    let place = stands_in_line.then(|| {
        let lease = Duration::from_millis(request.lease_ms);
        let terms = LeaseTerms { holder: request.worker.clone(), lease };
        let waiter = Waiter::new(request.max, terms);
        Arc::new(api.workers.lines.join(&request.destinations, waiter))
    });
    let request = Arc::new(request);
    let client = client.map(|Extension(client)| client);
    // Listens before it polls, so that it misses no wake-up in between.
    let mut wakes = api.wakes.listen(WakeKind::Waiting);
    let deadline = Instant::now() + Duration::from_millis(request.wait_ms);
    loop {
        // Runs in its own task: if this request ends meanwhile, the task requeues the messages.
        let is_last = Instant::now() >= deadline;
        let claiming = claim(api.clone(), request.clone(), place.clone(), is_last);
        let Ok(claimed) = api.tasks.spawn(claiming).await else { return Err(draining()) };
        let (leases, handed) = claimed?;
        if !leases.leases.is_empty() || is_last || api.stop.is_cancelled() {
            return handing_out(&leases, client, handed.when_lost());
        }
        let poll = (Instant::now() + request.poll()).min(deadline);
        let waiter = place.as_deref().map(|place| &*place.waiter);
        waiter.inspect(|waiter| waiter.open());
        tokio::select! {
            () = api.stop.cancelled() => {}
            () = tokio::time::sleep_until(poll) => {}
            () = work_for(&named, &mut wakes) => {}
            () = turn(place.as_deref()) => {}
            () = given(waiter) => {}
            // The client may be gone, so this claims nothing for it.
            () = left(client.as_ref()) => {
                return handing_out(&leases, client, handed.when_lost());
            }
        }
        if let Some(waiter) = waiter
            && let Some(given) = waiter.close().await
        {
            let Given { weight, claimed, handed } = *given;
            let mut leases = Leases::default();
            leases.add(&api, weight, claimed);
            return handing_out(&leases, client, handed.when_lost());
        }
    }
}

impl LeaseRequest {
    /// How often to poll without a wake-up. A wake-up announces the first waiting message, not the message that
    /// completes `min`.
    fn poll(&self) -> Duration {
        Duration::from_millis(if self.min > 1 { 500 } else { 1000 })
    }

    fn check(&self) -> Result<(), Problem> {
        check_range("max", self.max as u64, 1..=ITEMS_MAX as u64)?;
        // A claim returns this many messages regardless of the length of their bodies.
        check_range("min", self.min as u64, 1..=self.max.min(MIN_MAX) as u64)?;
        check_range("wait_ms", self.wait_ms, 0..=WAIT_MS_MAX)?;
        check_range("lease_ms", self.lease_ms, LEASE_MS)?;
        let named = self.destinations.len();
        if named == 0 || named > ITEMS_MAX {
            let detail = format!("destinations: name 1 to {ITEMS_MAX} of them");
            return Err(Problem::invalid_field(detail));
        }
        if self.min > 1 && named > 1 {
            let detail = "min: more than 1 only with one destination; name one, or leave min out";
            return Err(Problem::invalid_field(detail));
        }
        Ok(())
    }
}

/// Resolves when one of these destinations may have waiting messages.
async fn work_for(names: &HashSet<DestinationName>, wakes: &mut broadcast::Receiver<Wake>) {
    woken(wakes, |wake| matches!(wake, Wake::Waiting(name) if names.contains(name))).await;
}

/// Resolves when this request has received arriving messages.
async fn given(waiter: Option<&Waiter>) {
    match waiter {
        Some(waiter) => waiter.given().await,
        None => std::future::pending().await,
    }
}

/// Resolves when this request becomes first in one of its queues.
async fn turn(place: Option<&WaiterTicket>) {
    match place {
        Some(place) => place.moved().await,
        None => std::future::pending().await,
    }
}

/// Claims from the destinations whose queue of waiting requests this one heads. The least served destination comes
/// first; each gives its share by weight. `is_last`: the request does not wait for a wake-up after this claim.
async fn claim(
    api: Api,
    request: Arc<LeaseRequest>,
    place: Option<Arc<WaiterTicket>>,
    is_last: bool,
) -> Result<(Leases, Handed), Problem> {
    let mut names = request.destinations.clone();
    api.workers.served.sort(&mut names);
    let mut all = Vec::with_capacity(names.len());
    for name in &names {
        let entry = find(&api, name).await?;
        if entry.claimers() != Claimers::Worker {
            let detail = format!("destinations: {name:?} has no transform of kind \"worker\"");
            return Err(Problem::invalid_field(detail));
        }
        let Transform { rate_per_second_max: rate, burst, .. } = entry.destination.transform;
        if rate > 0 && request.min > burst as usize {
            let detail = format!(
                "min: {} is more than transform.burst of {name:?}, which is {burst}: so many never come together",
                request.min
            );
            return Err(Problem::invalid_field(detail));
        }
        if place.as_ref().is_none_or(|place| place.is_first(name)) {
            all.push(entry);
        }
    }
    // A claim from each would cost one call each, although most destinations are empty.
    if all.len() > 1 {
        let told = api.workers.active.among(&api, all.clone()).await?;
        // A wake-up may be on its way. A request that waits receives it.
        let is_any = !told.is_empty() || !is_last;
        all = if is_any { told } else { api.store.active_among(all).await? };
    } else if request.min > 1 {
        all = api.store.active_among(all).await?;
    }
    let mut weights: u64 = all.iter().map(|entry| u64::from(entry.destination.weight)).sum();
    let (mut told, mut handed) = (Leases::default(), Handed::new(api.clone()));
    let is_alone = request.destinations.len() == 1;
    let mut suspects = request.suspects;
    for entry in all {
        let left = request.max - told.leases.len();
        if left == 0 {
            break;
        }
        let share = entry.destination.share(left, weights);
        let weight = entry.destination.weight;
        weights -= u64::from(weight);
        let name = entry.destination.name.clone();
        api.workers.active.claiming(&name);
        let claimed = claim_from(&api, entry, &request, share, suspects).await;
        let is_empty = |claimed: &Claimed| claimed.messages.len() < share && !claimed.may_have_more;
        if !claimed.as_ref().is_ok_and(|(_, claimed)| is_empty(claimed)) {
            api.workers.active.may_have_more(name.clone());
        }
        let claimed = match claimed {
            Ok((entry, claimed)) => {
                handed.add(entry, &claimed);
                claimed
            }
            // Continues with the other destinations. Next time, too, others come before this one.
            Err(problem) if problem.is_damage() && !is_alone => {
                api.workers.served.note(&name, weight, 1);
                told.damaged.push(name);
                continue;
            }
            // Returns the messages claimed so far. Otherwise they would be stuck until their leases expire.
            Err(_) if !told.leases.is_empty() => break,
            Err(problem) => return Err(problem),
        };
        suspects &= !claimed.must_be_alone();
        told.add(&api, weight, claimed);
    }
    Ok((told, handed))
}

impl Leases {
    /// Adds claimed messages of one destination.
    fn add(&mut self, api: &Api, weight: u32, claimed: Claimed) {
        let Some((token, _)) = claimed.messages.first() else { return };
        api.workers.served.note(&token.destination, weight, claimed.messages.len());
        telemetry::claimed(token.destination.as_str(), claimed.messages.len());
        let deadline = rfc3339(claimed.deadline_ms);
        let shown = |(token, message)| shown(token, message, &deadline, api.json_depth_max);
        self.leases.extend(claimed.messages.into_iter().map(shown));
    }
}

async fn claim_from(
    api: &Api,
    entry: Arc<CatalogEntry>,
    request: &LeaseRequest,
    share: usize,
    suspects: bool,
) -> Result<(Arc<CatalogEntry>, Claimed), Problem> {
    let (count, lease) = (request.min..=share, Duration::from_millis(request.lease_ms));
    let worker = request.worker.as_ref();
    let name = entry.destination.name.clone();
    let mut entry = entry;
    let call_sequence = api.workers.take(api, &name);
    let mut looks = 0;
    let claimed = loop {
        looks += 1;
        let count = count.clone();
        let claim = api.store.claim_for(worker, suspects, &call_sequence, &entry, count, lease);
        match claim.await {
            // This call only skipped messages. Behind them, there may be messages to claim.
            Ok(claimed)
                if claimed.messages.is_empty() && claimed.may_have_more && looks < LOOKS_MAX => {}
            Err(StoreError::StaleDefinition) if looks == 1 => {
                let Ok(Some(fresh)) = api.catalog.refresh(&name).await else {
                    break Err(StoreError::StaleDefinition);
                };
                entry = fresh;
            }
            claimed => break claimed,
        }
    };
    match claimed {
        // Redis may have leased messages although no answer came.
        Err(error @ StoreError::Unconfirmed(_)) => {
            handout::requeue_unanswered(api, entry, call_sequence, worker.cloned(), lease);
            Err(error.into())
        }
        claimed => {
            api.workers.put_back(&name, call_sequence);
            let claimed = claimed?;
            api.due.note_rest(&entry, &claimed);
            Ok((entry, claimed))
        }
    }
}

/// Lets the worker continue the trace of the message, as a built-in transform does.
fn trace(token: &LeaseToken, message: &mut Stamped) {
    let attempt = message.attempts.number();
    let Some(span) = telemetry::span_of(&message.message, SpanOf::Transform, attempt) else {
        return;
    };
    if attempt == 1 {
        telemetry::note_wait(message, token.claimed_ms);
    }
    let headers = message.message.headers.iter_mut();
    headers.filter(|(name, _)| name == TRACEPARENT).for_each(|(_, value)| *value = span.header());
}

fn shown(token: LeaseToken, mut message: Stamped, deadline: &str, json_depth_max: usize) -> Lease {
    trace(&token, &mut message);
    let Message { id, key, headers, body, .. } = message.message;
    let attempt = message.attempts.number();
    let suspect = message.attempts.must_be_alone();
    let last_error = message.attempts.errors.into_iter().next();
    // The answer holds several messages: one of them must not make the others unreadable for the worker.
    let json = json_body(&body.content_type, &body.bytes, json_depth_max);
    let noted = message.attempts.checkpoint;
    let checkpoint = noted.as_deref().and_then(|json| embeddable(json, json_depth_max));
    let unread = noted.filter(|_| checkpoint.is_none());
    Lease {
        token: token.encode(),
        destination: message.destination,
        sequence: message.position.sequence,
        epoch: message.position.epoch,
        id,
        key,
        attempt,
        suspect,
        checkpoint,
        checkpoint_base64: unread.map(|json| STANDARD.encode(json)),
        last_error: last_error.map(LastError::of),
        expires_at: deadline.to_owned(),
        body_base64: json.is_none().then(|| STANDARD.encode(&body.bytes)),
        content_type: body.content_type,
        headers: joined_headers(&headers),
        body: json,
    }
}
