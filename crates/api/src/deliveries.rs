//! `GET /v1/deliveries`: deliveries as they happen, one line of JSON each.

mod hub;

use std::{convert::Infallible, time::Duration};

use axum::{
    Extension,
    body::{Body, Bytes},
    extract::State,
    http::header,
    response::{IntoResponse, Response},
};
use futures::{Stream, StreamExt};
use serde::{Deserialize, Serialize};
use tokio::{sync::broadcast, time::Instant};
use utoipa::IntoParams;

pub use hub::Tails;

use self::hub::Listener;
use super::{
    Api,
    request::{Params, find},
    views::rfc3339,
};
use domain::{AttemptError, DestinationName, Sequence};
use http_server::{
    client_connection::ClientConnection, openapi_responses, principal::Principal, problem::Problem,
};
use store::{Delivery, Outcome, TailHeard, Told};

/// How long the answer lasts by default, in ms.
const DURATION_MS: u64 = 60_000;
/// The longest answer, in ms. A client then asks again, and its token is checked again.
const DURATION_MS_MAX: u64 = 600_000;
/// After this time without a line, the answer sends an empty one, so that no proxy closes the connection.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct Wanted {
    /// Only deliveries of this destination.
    destination: Option<String>,
    /// Only deliveries of messages with this ordering key; `""`: messages without a key.
    key: Option<String>,
    /// Only deliveries with this outcome.
    #[param(inline)]
    outcome: Option<Outcome>,
    /// The answer ends after this time, in milliseconds.
    #[param(minimum = 0, maximum = 600_000, default = 60_000)]
    duration_ms: Option<u64>,
}

/// A line of the answer.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Line {
    /// From now on, the answer shows deliveries. After an interruption, deliveries from before this line are missing.
    Listening,
    /// A delivery has ended.
    Delivery(Box<Shown>),
    /// How many deliveries the answer left out, because there were too many.
    Missed { count: u64 },
}

/// A delivery that has ended.
#[derive(Serialize)]
pub(super) struct Shown {
    destination: DestinationName,
    key: Option<String>,
    epoch: u64,
    sequence: Sequence,
    id: String,
    outcome: Outcome,
    /// The number of the attempt, from 1.
    attempt: u32,
    /// How many messages the request contained.
    batch: usize,
    /// How long the request took.
    took_ms: u64,
    /// The time since the message arrived.
    age_ms: u64,
    occurred_at: String,
    /// Why the receiver refused the message, or why there was no answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<AttemptError>,
    /// The pod that delivered.
    pod: String,
}

impl Shown {
    fn of(delivery: Delivery) -> Shown {
        Shown {
            destination: delivery.destination,
            key: delivery.key,
            epoch: delivery.epoch,
            sequence: delivery.sequence,
            id: delivery.id,
            outcome: delivery.outcome,
            attempt: delivery.attempt,
            batch: delivery.batch,
            took_ms: delivery.took_ms,
            age_ms: delivery.age_ms,
            occurred_at: rfc3339(delivery.at_ms),
            error: delivery.error,
            pod: delivery.pod,
        }
    }
}

/// The deliveries that a client asks for.
struct Filter {
    caller: Principal,
    destination: Option<DestinationName>,
    key: Option<String>,
    outcome: Option<Outcome>,
}

impl Filter {
    fn takes(&self, delivery: &Delivery) -> bool {
        let Delivery { destination, key, outcome, .. } = delivery;
        self.destination
            .as_ref()
            .is_none_or(|name| name == destination || name.as_str() == destination.base())
            && self.outcome.is_none_or(|wanted| wanted == *outcome)
            && self.key.as_deref().is_none_or(|of| of == key.as_deref().unwrap_or_default())
            && self.caller.covers(destination)
    }

    /// The line, if the client asks for it.
    fn line(&self, heard: TailHeard) -> Option<Line> {
        match heard {
            TailHeard::Begun => Some(Line::Listening),
            TailHeard::Told(Told::Missed(count)) => Some(Line::Missed { count }),
            TailHeard::Told(Told::Delivery(delivery)) => {
                self.takes(&delivery).then(|| Line::Delivery(Box::new(Shown::of(*delivery))))
            }
        }
    }
}

/// `GET /v1/deliveries`
#[utoipa::path(get, path = "/v1/deliveries", tag = "history", operation_id = "tail_deliveries",
    params(Wanted),
    responses((status = 200, description = "A line of JSON for each delivery, until the time is up",
        body = String, content_type = "application/x-ndjson"), openapi_responses::ReadsDestination))]
pub(super) async fn tail(
    State(api): State<Api>,
    Extension(caller): Extension<Principal>,
    client: Option<Extension<ClientConnection>>,
    Params(Wanted { destination, key, outcome, duration_ms }): Params<Wanted>,
) -> Result<Response, Problem> {
    let duration_ms = duration_ms.unwrap_or(DURATION_MS);
    if duration_ms > DURATION_MS_MAX {
        let detail = format!("duration_ms: {duration_ms} is outside 0 to {DURATION_MS_MAX}");
        return Err(Problem::invalid_parameter(detail));
    }
    let destination = match destination {
        None => None,
        Some(text) => {
            if let Ok(name) = text.parse() {
                caller.check(&name)?;
            }
            Some(find(&api, &text).await?.destination.name.clone())
        }
    };
    let listener = api.tails.listen(destination.clone(), &caller)?;
    let filter = Filter { caller, destination, key, outcome };
    let end = Instant::now() + Duration::from_millis(duration_ms);
    let stop = api.stop.clone();
    let client = client.map(|Extension(client)| client);
    let ends = async move {
        tokio::select! {
            () = stop.cancelled() => {}
            () = tokio::time::sleep_until(end) => {}
            () = left(client) => {}
        }
    };
    let lines = lines(listener, filter).take_until(ends);
    let media_type = [(header::CONTENT_TYPE, "application/x-ndjson")];
    Ok((media_type, Body::from_stream(lines)).into_response())
}

/// Resolves when the client has closed its side.
async fn left(client: Option<ClientConnection>) {
    match client {
        Some(client) => client.left().await,
        None => std::future::pending().await,
    }
}

/// The lines, as a stream without an end.
fn lines(listener: Listener, filter: Filter) -> impl Stream<Item = Result<Bytes, Infallible>> {
    futures::stream::unfold((listener, filter), async |(mut listener, filter)| {
        loop {
            let line = match tokio::time::timeout(KEEP_ALIVE, listener.next()).await {
                Err(_) => return Some((Ok(Bytes::from_static(b"\n")), (listener, filter))),
                Ok(Ok(heard)) => filter.line(heard),
                Ok(Err(broadcast::error::RecvError::Lagged(count))) => Some(Line::Missed { count }),
                Ok(Err(broadcast::error::RecvError::Closed)) => return None,
            };
            if let Some(mut text) = line.and_then(|line| serde_json::to_vec(&line).ok()) {
                text.push(b'\n');
                return Some((Ok(Bytes::from(text)), (listener, filter)));
            }
        }
    })
}
