//! `POST /v1/leases`: claiming, with a long poll.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    sync::Arc,
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
use tokio::{sync::broadcast, time::Instant};

use super::{ITEMS_MAX, LEASE_MS, WAIT_MS_MAX, check_range, find, half_a_minute, rfc3339};
use crate::{
    api::{Api, problem_of, read_json},
    domain::{DestinationName, LeaseToken, Message, Stamped},
    store::{Claimed, Claimers, Known, StoreError, Wake},
    telemetry,
    wire::problem::Problem,
};

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

#[derive(Serialize)]
pub(in crate::api) struct Leases {
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
pub(in crate::api) async fn lease(
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
    let mut claimed = api.store.claim(&caller, &known, 1..=max, lease).await;
    if matches!(claimed, Err(StoreError::StaleDefinition)) {
        let refreshed = api.catalog.refresh(&name).await;
        if let Ok(Some(fresh)) = refreshed {
            known = fresh;
            claimed = api.store.claim(&caller, &known, 1..=max, lease).await;
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
        attempt: message.attempts.failed + 1,
        deadline: deadline.to_owned(),
        body_base64: json.is_none().then(|| STANDARD.encode(&body.bytes)),
        content_type: body.content_type,
        headers: joined(headers),
        body: json,
    }
}

/// Headers of one name become one, its values joined as RFC 9110, 5.3 allows.
fn joined(headers: Vec<(String, String)>) -> BTreeMap<String, String> {
    let mut joined = BTreeMap::new();
    for (name, value) in headers {
        match joined.entry(name) {
            Entry::Vacant(entry) => {
                entry.insert(value);
            }
            Entry::Occupied(mut entry) => {
                let whole: &mut String = entry.get_mut();
                whole.push_str(", ");
                whole.push_str(&value);
            }
        }
    }
    joined
}
