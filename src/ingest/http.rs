//! HTTP ingest: `POST /v1/messages` and `POST /v1/destinations/{d}/messages`.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
};

use axum::{
    Router,
    body::Bytes,
    extract::{DefaultBodyLimit, Path, State, rejection::BytesRejection},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::post,
};
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{
    Committer, Receipt, Refusal, Session,
    commit::Outcome,
    json::{Item, ItemError, parse_item},
    now_ms,
};
use crate::{
    domain::{
        Arrival, Body, DestinationName, Message,
        message::{
            HEADERS_BYTES_MAX, HEADERS_MAX, ID_BYTES_MAX, IDEMPOTENCY_KEY_BYTES_MAX, KEY_BYTES_MAX,
            check_text, travels,
        },
    },
    wire::problem::Problem,
};

/// The most items of one batch.
const BATCH_ITEMS_MAX: usize = 10_000;

/// What the handlers share.
#[derive(Clone)]
pub struct Ingest {
    /// Where messages go.
    pub committer: Committer,
    /// The longest body, in bytes.
    pub body_bytes_max: usize,
    /// The longest batch, in bytes.
    pub batch_bytes_max: usize,
    /// Set when the process begins to stop.
    pub stop: CancellationToken,
}

/// The routes of ingest.
pub fn router(ingest: Ingest) -> Router {
    let raw = post(post_raw).layer(DefaultBodyLimit::max(ingest.body_bytes_max));
    let items = post(post_items).layer(DefaultBodyLimit::max(ingest.batch_bytes_max));
    Router::new()
        .route("/v1/destinations/{destination}/messages", raw)
        .route("/v1/messages", items)
        .with_state(ingest)
}

async fn post_raw(
    State(ingest): State<Ingest>,
    Path(name): Path<String>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Problem> {
    ingest.refuse_when_stopping()?;
    let destination = destination_name(&name)?;
    let body = whole_body(body, ingest.body_bytes_max)?;
    let arrival = arrival_of(&headers, body)?;
    let item = Item { destinations: vec![destination], arrival };
    ingest.take_one(item).await
}

async fn post_items(
    State(ingest): State<Ingest>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Problem> {
    ingest.refuse_when_stopping()?;
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let media_type = content_type.unwrap_or_default().split(';').next().unwrap_or_default().trim();
    match media_type {
        "application/json" => {
            let body = whole_body(body, ingest.batch_bytes_max)?;
            let item = parse_item(&body, now_ms(), ingest.body_bytes_max).map_err(problem_of)?;
            ingest.take_one(item).await
        }
        "application/x-ndjson" | "application/ndjson" => {
            let body = whole_body(body, ingest.batch_bytes_max)?;
            ingest.take_batch(&body).await
        }
        _ => Err(Problem::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "unsupported_media_type",
            "send content-type application/json (one message) or application/x-ndjson (one a line); \
             for a raw body of any type use POST /v1/destinations/{d}/messages",
        )),
    }
}

impl Ingest {
    fn refuse_when_stopping(&self) -> Result<(), Problem> {
        if self.stop.is_cancelled() { Err(Refusal::Draining.problem()) } else { Ok(()) }
    }

    /// One message, to all its destinations or else a problem that says which have it.
    async fn take_one(&self, item: Item) -> Result<Response, Problem> {
        let id = item.arrival.message.id.clone();
        let mut pending = Vec::new();
        for name in item.destinations {
            let session = Session::default();
            let arrivals = vec![item.arrival.clone()];
            pending.push((name.clone(), self.committer.submit(&name, arrivals, &session).await));
        }
        let mut outcomes = Vec::new();
        for (name, pending) in pending {
            let outcome = pending.outcomes().await.pop();
            outcomes.push((name, outcome.unwrap_or(Err(Refusal::Draining))));
        }
        let accepted = answer(&id, outcomes)?;
        Ok((StatusCode::ACCEPTED, axum::Json(accepted)).into_response())
    }

    /// One message a line; one answer a line, in order.
    async fn take_batch(&self, body: &[u8]) -> Result<Response, Problem> {
        let lines = body.split(|&byte| byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
        let lines: Vec<&[u8]> = lines.collect();
        if lines.is_empty() || lines.len() > BATCH_ITEMS_MAX {
            let problem =
                format!("the batch must hold 1 to {BATCH_ITEMS_MAX} messages, one a line");
            return Err(Problem::new(StatusCode::BAD_REQUEST, "invalid_json", problem));
        }
        let now_ms = now_ms();
        let parse = |line: &&[u8]| parse_item(line, now_ms, self.body_bytes_max);
        let items: Vec<Result<Item, ItemError>> = lines.iter().map(parse).collect();
        let mut outcomes = self.stamp_all(&items).await;
        let mut answers = String::new();
        for (at, item) in items.into_iter().enumerate() {
            let answer = match item {
                Ok(item) => {
                    let mut outcomes = outcomes.remove(&at).unwrap_or_default();
                    // As the item names them, like the answer to a single message.
                    outcomes.sort_by_key(|(name, _)| {
                        item.destinations.iter().position(|named| named == name)
                    });
                    answer(&item.arrival.message.id, outcomes)
                }
                Err(error) => Err(problem_of(error)),
            };
            let line = answer.unwrap_or_else(|problem| problem.json(None));
            answers.push_str(&line.to_string());
            answers.push('\n');
        }
        let media_type = [(header::CONTENT_TYPE, "application/x-ndjson")];
        Ok((StatusCode::ACCEPTED, media_type, answers).into_response())
    }

    /// Submits the good items, those of one destination together and in order.
    async fn stamp_all(
        &self,
        items: &[Result<Item, ItemError>],
    ) -> HashMap<usize, Vec<(DestinationName, Outcome)>> {
        let mut by_destination: BTreeMap<&DestinationName, Vec<usize>> = BTreeMap::new();
        for (at, item) in items.iter().enumerate() {
            for name in item.iter().flat_map(|item| &item.destinations) {
                by_destination.entry(name).or_default().push(at);
            }
        }
        let mut pending = Vec::new();
        for (name, of_name) in by_destination {
            let arrival = |&at: &usize| items[at].as_ref().ok().map(|item| item.arrival.clone());
            let arrivals = of_name.iter().filter_map(arrival).collect();
            let submitted = self.committer.submit(name, arrivals, &Session::default()).await;
            pending.push((name.clone(), of_name, submitted));
        }
        let mut outcomes: HashMap<usize, Vec<_>> = HashMap::new();
        for (name, of_name, pending) in pending {
            for (at, outcome) in of_name.into_iter().zip(pending.outcomes().await) {
                outcomes.entry(at).or_default().push((name.clone(), outcome));
            }
        }
        outcomes
    }
}

/// The answer to one message: all its places, or the worst problem with the places it has. The id
/// is the one that the message has there, which a duplicate got the first time.
fn answer(id: &str, outcomes: Vec<(DestinationName, Outcome)>) -> Result<Value, Problem> {
    let mut deliveries = Vec::new();
    let mut first_ids = Vec::new();
    let mut worst: Option<Refusal> = None;
    for (name, outcome) in outcomes {
        match outcome {
            Ok(Receipt { place, duplicate_of }) => {
                let mut delivery = json!({
                    "destination": name, "sequence": place.sequence, "epoch": place.epoch,
                    "duplicate": duplicate_of.is_some(),
                });
                if let Some(first_id) = duplicate_of {
                    delivery["id"] = json!(first_id);
                    first_ids.push(first_id);
                }
                deliveries.push(delivery);
            }
            Err(refusal) => {
                let is_worse = |worst: &Refusal| worst.code().0 < refusal.code().0;
                if worst.as_ref().is_none_or(is_worse) {
                    worst = Some(refusal);
                }
            }
        }
    }
    let all_duplicates = !first_ids.is_empty() && first_ids.len() == deliveries.len();
    let id = if all_duplicates { first_ids[0].as_str() } else { id };
    let Some(refusal) = worst else {
        return Ok(json!({"id": id, "deliveries": deliveries}));
    };
    let mut problem = refusal.problem();
    if !deliveries.is_empty() {
        problem.more.insert("id".into(), json!(id));
        problem.more.insert("deliveries".into(), json!(deliveries));
    }
    Err(problem)
}

fn problem_of(error: ItemError) -> Problem {
    let status = match error.code {
        "body_too_large" => StatusCode::PAYLOAD_TOO_LARGE,
        "unknown_destination" => StatusCode::NOT_FOUND,
        _ => StatusCode::BAD_REQUEST,
    };
    Problem::new(status, error.code, error.detail)
}

fn destination_name(text: &str) -> Result<DestinationName, Problem> {
    text.parse().map_err(|invalid| {
        Problem::new(StatusCode::NOT_FOUND, "unknown_destination", format!("{text:?}: {invalid}"))
    })
}

fn whole_body(body: Result<Bytes, BytesRejection>, max: usize) -> Result<Bytes, Problem> {
    body.map_err(|rejection| Problem::of_body(&rejection, max))
}

/// The arrival that a raw request makes.
fn arrival_of(headers: &HeaderMap, body: Bytes) -> Result<Arrival, Problem> {
    if headers.contains_key("reseq-delay") || headers.contains_key("reseq-priority") {
        let problem = "Reseq-Delay and Reseq-Priority are not supported by this version";
        return Err(Problem::invalid_field(problem));
    }
    let id = encoded(headers, "Reseq-Id", ID_BYTES_MAX)?;
    let content_type = match headers.get(header::CONTENT_TYPE) {
        Some(value) => {
            value.to_str().map_err(|_| Problem::invalid_field("Content-Type: not text"))?
        }
        None => "application/octet-stream",
    };
    let message = Message {
        id: id.unwrap_or_else(|| uuid::Uuid::now_v7().to_string()),
        key: encoded(headers, "Reseq-Key", KEY_BYTES_MAX)?,
        headers: travelling(headers)?,
        body: Body { content_type: content_type.to_owned(), bytes: body },
        received_ms: now_ms(),
    };
    let idempotency_key = plain(headers, "Idempotency-Key", IDEMPOTENCY_KEY_BYTES_MAX)?;
    let idempotency_key = idempotency_key.map(Cow::into_owned);
    Ok(Arrival { idempotency_key, ..Arrival::of(message) })
}

/// A header's text, checked.
fn plain<'h>(
    headers: &'h HeaderMap,
    name: &str,
    max: usize,
) -> Result<Option<Cow<'h, str>>, Problem> {
    let Some(value) = headers.get(name) else { return Ok(None) };
    let text = std::str::from_utf8(value.as_bytes())
        .map_err(|_| Problem::invalid_field(format!("{name}: not UTF-8")))?;
    check_text(name, text, max).map_err(Problem::invalid_field)?;
    Ok(Some(Cow::Borrowed(text)))
}

/// A header's text, percent-decoded as the sender of deliveries encodes it.
fn encoded(headers: &HeaderMap, name: &str, max: usize) -> Result<Option<String>, Problem> {
    let Some(text) = plain(headers, name, 3 * max)? else { return Ok(None) };
    let decoded = percent_decode_str(&text).decode_utf8().map_err(|_| {
        Problem::invalid_field(format!("{name}: percent-encodes what is not UTF-8"))
    })?;
    check_text(name, &decoded, max).map_err(Problem::invalid_field)?;
    Ok(Some(decoded.into_owned()))
}

fn travelling(headers: &HeaderMap) -> Result<Vec<(String, String)>, Problem> {
    let mut taken = Vec::new();
    let mut bytes = 0;
    for (name, value) in headers.iter().filter(|(name, _)| travels(name.as_str())) {
        // The id of a request is the request's, not the message's.
        if name == crate::wire::REQUEST_ID {
            continue;
        }
        let value = value
            .to_str()
            .map_err(|_| Problem::invalid_field(format!("{name}: its value is not ASCII text")))?;
        bytes += name.as_str().len() + value.len();
        taken.push((name.as_str().to_owned(), value.to_owned()));
    }
    if taken.len() > HEADERS_MAX || bytes > HEADERS_BYTES_MAX {
        return Err(Problem::invalid_field(format!(
            "at most {HEADERS_MAX} headers, of {HEADERS_BYTES_MAX} bytes together, travel with a message"
        )));
    }
    Ok(taken)
}
