//! `POST /v1/destinations/{d}/consume`: leases messages to a consumer, with a long poll.

use std::{collections::BTreeMap, mem, sync::Arc, time::Duration};

use axum::{
    Extension,
    body::Bytes,
    extract::{Path, State, rejection::BytesRejection},
    response::Response,
};
use base64::{Engine, engine::general_purpose::STANDARD};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::{sync::broadcast, time::Instant};
use utoipa::ToSchema;

use crate::{
    Api,
    destinations::parse_name,
    draining, read_json,
    request::InDestination,
    views::rfc3339,
    workers::{
        ITEMS_MAX, WAIT_MS_MAX, WAITS, check_range, find, handing_out, lease::LastError, left, one,
    },
};
use domain::{
    DeliveryKind, Destination, DestinationName, LeaseToken, Message, Stamped, WorkerName,
};
use formats::{
    code::Code,
    json::{joined_headers, json_body},
};
use http_server::{
    client_connection::{ClientConnection, Lost},
    openapi_responses,
    principal::Principal,
    problem::Problem,
    shares::Shares,
};
use store::{CatalogEntry, Consumed, StoreError, Wake, WakeKind, retry_until, woken};

/// The interval between polls without a wake-up.
const POLL: Duration = Duration::from_secs(1);
/// How many times one poll looks for lanes, because other consumers may take the lanes that it finds.
const LOOKS_MAX: usize = 3;
/// How long to retry giving back messages that a consumer did not get. After that, their leases expire.
const GIVE_BACK_WITHIN: Duration = Duration::from_secs(20);

/// Which messages to take.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct ConsumeRequest {
    /// The most messages to take.
    #[serde(default = "one")]
    #[schema(minimum = 1, maximum = 1000, default = 1)]
    max: usize,
    /// Wait up to this long if there is nothing to take.
    #[serde(default)]
    #[schema(maximum = 60_000)]
    wait_ms: u64,
    /// The name of the consumer, for example `1234@host-7`.
    #[serde(default)]
    consumer: Option<WorkerName>,
}

/// Messages under a consumer's lease. Messages of the same lane are in order.
#[derive(Serialize, ToSchema)]
#[schema(as = ConsumedMessages)]
pub(crate) struct Deliveries {
    /// How long a lease lasts, from this answer or from its extension.
    lease_ms: u64,
    deliveries: Vec<Delivery>,
}

/// A message under a consumer's lease.
#[derive(Serialize, ToSchema)]
#[schema(as = ConsumedMessage)]
struct Delivery {
    /// The token that names the message and the lease in later calls.
    token: String,
    destination: DestinationName,
    /// The lane: the ordering key, or the sequence without ordering. Messages of the same lane stay in order.
    lane: String,
    sequence: u64,
    epoch: u64,
    /// The sequence of the message before this one in its lane, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    previous: Option<u64>,
    id: String,
    key: Option<String>,
    attempt: u32,
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

/// `POST /v1/destinations/{d}/consume`
#[utoipa::path(post, path = "/v1/destinations/{destination}/consume", tag = "consumers",
    operation_id = "consume",
    params(InDestination),
    request_body = ConsumeRequest,
    responses((status = 200, description = "Messages, or none", body = Deliveries), openapi_responses::Works))]
pub(crate) async fn consume(
    State(api): State<Api>,
    (Extension(caller), Extension(waits)): (Extension<Principal>, Extension<Shares>),
    Path(name): Path<String>,
    client: Option<Extension<ClientConnection>>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Problem> {
    let name = parse_name(&name)?;
    let request: ConsumeRequest = read_json(body, api.batch_bytes_max)?;
    check_range("max", request.max as u64, 1..=ITEMS_MAX as u64)?;
    check_range("wait_ms", request.wait_ms, 0..=WAIT_MS_MAX)?;
    let _share = if request.wait_ms > 0 { waits.take(&caller, WAITS)? } else { None };
    let request = Arc::new(request);
    let client = client.map(|Extension(client)| client);
    // Listens before it polls, so that it misses no wake-up in between.
    let mut wakes = api.wakes.listen(WakeKind::Releasable);
    let deadline = Instant::now() + Duration::from_millis(request.wait_ms);
    loop {
        // Runs in its own task: if this request ends meanwhile, the task gives the messages back.
        let taking = take(api.clone(), name.clone(), request.clone());
        let Ok(taken) = api.tasks.spawn(taking).await else { return Err(draining()) };
        let taken = taken?;
        let is_over = Instant::now() >= deadline || api.stop.is_cancelled();
        if !taken.consumed.messages.is_empty() || is_over {
            return taken.answer(client);
        }
        let poll = (Instant::now() + POLL).min(deadline);
        tokio::select! {
            () = api.stop.cancelled() => {}
            () = tokio::time::sleep_until(poll) => {}
            () = releasable(&name, &mut wakes) => {}
            // The client may be gone, so this takes no messages for it.
            () = left(client.as_ref()) => return taken.answer(client),
        }
    }
}

/// Resolves when lanes of this destination may have messages.
async fn releasable(destination: &DestinationName, wakes: &mut broadcast::Receiver<Wake>) {
    woken(wakes, |wake| matches!(wake, Wake::Releasable(name, _) if name == destination)).await;
}

/// Messages on their way to a consumer. Dropping this gives the messages back.
struct Taken {
    api: Api,
    entry: Arc<CatalogEntry>,
    consumed: Consumed,
    /// The tokens of the messages to give back.
    tokens: Vec<LeaseToken>,
}

fn has_consumers(entry: &Arc<CatalogEntry>) -> bool {
    entry.destination.delivery.kind == DeliveryKind::Pull
}

async fn take(
    api: Api,
    name: DestinationName,
    request: Arc<ConsumeRequest>,
) -> Result<Taken, Problem> {
    let mut entry = find(&api, &name).await?;
    if !has_consumers(&entry) {
        entry = api.catalog.refresh(&name).await?.filter(has_consumers).ok_or_else(|| {
            let detail =
                format!("the delivery.kind of {name} is not \"pull\": it has no consumers");
            Problem::new(Code::WrongState, detail)
        })?;
    }
    let call_sequence = api.workers.take(&api, &name);
    let consumer = request.consumer.as_ref();
    let mut lanes = Vec::new();
    let mut consumed = Ok(Consumed::default());
    for _ in 0..LOOKS_MAX {
        consumed = match api.store.lanes_to_consume(&entry, request.max).await {
            Ok(found) if found.is_empty() => break,
            Ok(found) => {
                lanes = found;
                api.store.consume(consumer, &call_sequence, &entry, &lanes, request.max).await
            }
            Err(error) => Err(error),
        };
        match &consumed {
            Err(StoreError::StaleDefinition) => match api.catalog.refresh(&name).await {
                Ok(Some(fresh)) if has_consumers(&fresh) => entry = fresh,
                _ => break,
            },
            // Other consumers hold these lanes, or the lanes wait. Redis has moved their hints behind the hints of
            // other lanes.
            Ok(taken) if taken.messages.is_empty() && lanes.len() > 1 => {}
            _ => break,
        }
    }
    if let Err(error @ StoreError::Unconfirmed(_)) = consumed {
        // Redis may have leased messages although no answer came. The same call finds these messages.
        let (task, consumer) = (api.clone(), request.consumer.clone());
        api.tasks.spawn(async move {
            let consumer = consumer.as_ref();
            let again = || task.store.consume(consumer, &call_sequence, &entry, &lanes, 1);
            let found = retry_until(Some(Instant::now() + GIVE_BACK_WITHIN), again).await;
            task.workers.put_back(&name, call_sequence);
            // Dropped at once, which gives the messages back.
            found.map(|consumed| Taken::new(task, entry, consumed))
        });
        return Err(error.into());
    }
    api.workers.put_back(&name, call_sequence);
    Ok(Taken::new(api, entry, consumed?))
}

impl Taken {
    fn new(api: Api, entry: Arc<CatalogEntry>, consumed: Consumed) -> Taken {
        let tokens = consumed.messages.iter().map(|(token, _)| token.clone()).collect();
        Taken { api, entry, consumed, tokens }
    }

    /// The answer with these messages. If the answer is lost, the messages are given back.
    fn answer(mut self, client: Option<ClientConnection>) -> Result<Response, Problem> {
        let Consumed { deadline_ms, messages } = mem::take(&mut self.consumed);
        let expires_at = rfc3339(deadline_ms);
        let depth_max = self.api.json_depth_max;
        let destination = &self.entry.destination;
        let shown = |(token, message)| shown(destination, token, message, &expires_at, depth_max);
        let deliveries = messages.into_iter().map(shown).collect();
        let deliveries = Deliveries { lease_ms: destination.delivery.timeout_ms, deliveries };
        let tokens = mem::take(&mut self.tokens);
        let (api, entry) = (self.api.clone(), self.entry.clone());
        // The server calls this only if the answer is lost.
        let lost: Lost = Box::new(move || {
            drop(Taken { api, entry, consumed: Consumed::default(), tokens });
        });
        handing_out(&deliveries, client, lost)
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let tokens = mem::take(&mut self.tokens);
        if tokens.is_empty() {
            return;
        }
        let (api, entry) = (self.api.clone(), self.entry.clone());
        // Runs on the task tracker: the process waits for this task before it ends.
        self.api.tasks.spawn(async move {
            let give_back = || api.store.give_back(&entry, &tokens);
            let given = retry_until(Some(Instant::now() + GIVE_BACK_WITHIN), give_back).await;
            let (name, count) = (&entry.destination.name, tokens.len());
            match given {
                Ok(_) => tracing::info!(
                    destination = %name, count,
                    "gave back messages: their consumer had gone before it got the answer"
                ),
                Err(error) => tracing::warn!(
                    destination = %name, %error,
                    "cannot give back messages; their leases will expire"
                ),
            }
        });
    }
}

fn shown(
    destination: &Destination,
    token: LeaseToken,
    message: Stamped,
    expires_at: &str,
    json_depth_max: usize,
) -> Delivery {
    let previous = message.previous;
    let Message { id, key, headers, body, .. } = message.message;
    // The answer holds several messages: one of them must not make the others unreadable.
    let json = json_body(&body.content_type, &body.bytes, json_depth_max);
    Delivery {
        token: token.encode(),
        lane: destination.lane_of(key.as_deref(), message.position.sequence).unwrap_or_default(),
        destination: message.destination,
        sequence: message.position.sequence,
        epoch: message.position.epoch,
        previous,
        id,
        key,
        attempt: message.attempts.failed + 1,
        last_error: message.attempts.errors.into_iter().next().map(LastError::of),
        expires_at: expires_at.to_owned(),
        body_base64: json.is_none().then(|| STANDARD.encode(&body.bytes)),
        content_type: body.content_type,
        headers: joined_headers(&headers),
        body: json,
    }
}
