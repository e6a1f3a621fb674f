//! HTTP ingest: `POST /v1/messages`, `POST /v1/destinations/{d}/messages` and
//! `POST /v1/topics/{t}/messages`.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{Path, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::post,
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{
    Committer, MemoryPermit, Outcome, Receipt, Recipients, Refusal, Session,
    json::{Item, ItemError, Limits, parse_item, parse_item_with},
    message_headers::MessageHeaders,
    raw::arrival_of,
};
use crate::{
    domain::{Arrival, DestinationName, TopicName},
    faults::planted,
    store::{chunks_by_size, server_clock_ms},
    wire::{code::Code, problem::Problem},
};

/// The most items of one batch.
const BATCH_ITEMS_MAX: usize = 10_000;
/// How many copies of a batch for many destinations are in flight to Redis at once (at least those
/// of one item).
const COPIES_AT_ONCE_MAX: usize = 10_000;

/// State that the handlers share.
#[derive(Clone)]
pub struct Ingest {
    /// Stamps the messages.
    pub committer: Committer,
    /// Limits of a message's body.
    pub limits: Limits,
    /// The longest batch, in bytes.
    pub batch_bytes_max: usize,
    /// Set when the process begins to stop.
    pub stop: CancellationToken,
}

/// The routes of ingest.
pub fn router(ingest: Ingest) -> Router {
    Router::new()
        .route("/v1/destinations/{destination}/messages", post(post_raw))
        .route("/v1/topics/{topic}/messages", post(publish_raw))
        .route("/v1/messages", post(post_items))
        .with_state(ingest)
}

async fn post_raw(
    State(ingest): State<Ingest>,
    Path(name): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    ingest.refuse_when_stopping()?;
    let to = Recipients::Destinations(vec![destination_name(&name)?]);
    let (body, permit) = ingest.read(body, ingest.limits.body_bytes_max).await?;
    let arrival = arrival_of(&headers, body, &to)?;
    ingest.take_one(Item { to, arrival }, permit).await
}

async fn publish_raw(
    State(ingest): State<Ingest>,
    Path(name): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    ingest.refuse_when_stopping()?;
    let topic = name.parse().map_err(|_| Problem::unknown_topic(&name))?;
    let to = Recipients::Topic(topic);
    let (body, permit) = ingest.read(body, ingest.limits.body_bytes_max).await?;
    let arrival = arrival_of(&headers, body, &to)?;
    ingest.take_one(Item { to, arrival }, permit).await
}

async fn post_items(
    State(ingest): State<Ingest>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    ingest.refuse_when_stopping()?;
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let media_type = content_type.unwrap_or_default().split(';').next().unwrap_or_default().trim();
    match media_type {
        "application/json" => {
            let (body, permit) = ingest.read(body, ingest.batch_bytes_max).await?;
            let said = MessageHeaders::read(&headers).map_err(Problem::invalid_field)?;
            let said =
                if planted::is("headers_ignored") { MessageHeaders::default() } else { said };
            let item = parse_item_with(said, &body, server_clock_ms(), ingest.limits);
            ingest.take_one(item.map_err(problem_of)?, permit).await
        }
        "application/x-ndjson" | "application/ndjson" => {
            let (body, permit) = ingest.read(body, ingest.batch_bytes_max).await?;
            MessageHeaders::nothing(&headers).map_err(Problem::invalid_field)?;
            ingest.take_batch(&body, permit).await
        }
        _ => Err(Problem::new(
            Code::UnsupportedMediaType,
            "send content-type application/json (one message) or application/x-ndjson (one a line); \
             for a raw body of any type use POST /v1/destinations/{d}/messages",
        )),
    }
}

/// A message with its topic, if it named one, replaced by destinations.
struct Addressed {
    destinations: Arc<[DestinationName]>,
    arrival: Arrival,
}

/// One line of a batch.
type BatchLine = Result<Addressed, Problem>;

/// One stream of arrivals per destination, for the whole batch.
type Sessions<'a> = BTreeMap<&'a DestinationName, Session>;

/// The resolved topics of one request, so that each topic resolves to the same destinations.
type Topics = HashMap<TopicName, Result<Arc<[DestinationName]>, Refusal>>;

impl Ingest {
    fn refuse_when_stopping(&self) -> Result<(), Problem> {
        if self.stop.is_cancelled() { Err(Refusal::Draining.problem()) } else { Ok(()) }
    }

    async fn read(&self, body: Body, max: usize) -> Result<(Bytes, MemoryPermit), Problem> {
        self.committer.memory().read(body, max).await
    }

    async fn addressed(&self, item: Item, topics: &mut Topics) -> Result<Addressed, Problem> {
        let Item { to, arrival } = item;
        let topic = match to {
            Recipients::Destinations(destinations) => {
                return Ok(Addressed { destinations: destinations.into(), arrival });
            }
            Recipients::Topic(topic) => topic,
        };
        if !topics.contains_key(&topic) {
            let found = self.committer.destinations_of(&topic).await;
            topics.insert(topic.clone(), found.map(Arc::from));
        }
        let destinations = topics[&topic].clone().map_err(|refusal| refusal.problem())?;
        Ok(Addressed { destinations, arrival })
    }

    /// Stores one message for all its destinations. On failure, the problem lists the copies
    /// stored.
    async fn take_one(&self, item: Item, room: MemoryPermit) -> Result<Response, Problem> {
        let item = self.addressed(item, &mut Topics::new()).await?;
        let id = item.arrival.message.id.clone();
        let mut pending = Vec::new();
        for name in item.destinations.iter() {
            let (session, room) = (Session::default(), room.clone());
            let arrivals = vec![item.arrival.clone()];
            let submitted = self.committer.submit(name, arrivals, &session, room).await;
            pending.push((name.clone(), submitted));
        }
        let mut outcomes = Vec::new();
        for (name, pending) in pending {
            let outcome = pending.outcomes().await.pop();
            outcomes.push((name, outcome.unwrap_or(Err(Refusal::Draining))));
        }
        let accepted = answer(&id, outcomes)?;
        Ok((StatusCode::ACCEPTED, axum::Json(accepted)).into_response())
    }

    /// One message per line; one answer per line, in order.
    async fn take_batch(&self, body: &[u8], room: MemoryPermit) -> Result<Response, Problem> {
        let lines = body.split(|&byte| byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
        let lines: Vec<&[u8]> = lines.collect();
        if lines.is_empty() || lines.len() > BATCH_ITEMS_MAX {
            let problem =
                format!("the batch must hold 1 to {BATCH_ITEMS_MAX} messages, one a line");
            return Err(Problem::new(Code::InvalidJson, problem));
        }
        let items = self.read_items(&lines).await;
        let mut sessions = Sessions::new();
        let mut answers = String::new();
        let copies = |item: &BatchLine| item.as_ref().map_or(0, |item| item.destinations.len());
        for some in chunks_by_size(&items, BATCH_ITEMS_MAX, COPIES_AT_ONCE_MAX, copies) {
            let outcomes = self.stamp_all(some, &mut sessions, &room).await;
            for (item, outcomes) in some.iter().zip(outcomes) {
                let answer = match item {
                    Ok(item) => answer(&item.arrival.message.id, outcomes),
                    Err(problem) => Err(problem.clone()),
                };
                let line = answer.unwrap_or_else(|problem| problem.json(None));
                answers.push_str(&line.to_string());
                answers.push('\n');
            }
        }
        let media_type = [(header::CONTENT_TYPE, "application/x-ndjson")];
        Ok((StatusCode::ACCEPTED, media_type, answers).into_response())
    }

    /// Parses the lines. A topic that cannot be resolved may contain any destination, so all lines
    /// after it are refused.
    async fn read_items(&self, lines: &[&[u8]]) -> Vec<BatchLine> {
        let now_ms = server_clock_ms();
        let mut topics = Topics::new();
        let mut has_failed = false;
        let mut items = Vec::with_capacity(lines.len());
        for line in lines {
            let item = match parse_item(line, now_ms, self.limits) {
                Err(error) => Err(problem_of(error)),
                Ok(_) if has_failed => Err(Refusal::Aborted.problem()),
                Ok(item) => self.addressed(item, &mut topics).await,
            };
            has_failed |= item.as_ref().err().is_some_and(|problem| problem.code.is_temporary());
            items.push(item);
        }
        items
    }

    /// Submits the valid items, grouped by destination and in order. Returns the outcomes of each
    /// item, by destination in the order that the item names them.
    async fn stamp_all<'a>(
        &self,
        items: &'a [BatchLine],
        sessions: &mut Sessions<'a>,
        room: &MemoryPermit,
    ) -> Vec<Vec<(DestinationName, Outcome)>> {
        let mut by_destination: BTreeMap<&DestinationName, Vec<usize>> = BTreeMap::new();
        for (at, item) in items.iter().enumerate() {
            for name in item.iter().flat_map(|item| item.destinations.iter()) {
                by_destination.entry(name).or_default().push(at);
            }
        }
        let mut pending = Vec::new();
        for (name, of_name) in by_destination {
            let arrival = |&at: &usize| items[at].as_ref().ok().map(|item| item.arrival.clone());
            let arrivals = of_name.iter().filter_map(arrival).collect::<Vec<_>>();
            let session = sessions.entry(name).or_default();
            let submitted = self.committer.submit(name, arrivals, session, room.clone()).await;
            pending.push((name, of_name, submitted));
        }
        let mut outcomes: Vec<Vec<_>> = items.iter().map(|_| Vec::new()).collect();
        for (name, of_name, pending) in pending {
            for (at, outcome) in of_name.into_iter().zip(pending.outcomes().await) {
                outcomes[at].push((name.clone(), outcome));
            }
        }
        for (item, outcomes) in items.iter().zip(&mut outcomes) {
            let Ok(item) = item else { continue };
            // In the order that the item names them, as in the answer to a single message.
            outcomes
                .sort_by_key(|(name, _)| item.destinations.iter().position(|named| named == name));
        }
        outcomes
    }
}

/// The answer for one message: all its positions, or the worst problem with the positions it has.
/// The id is the stored one: a duplicate keeps the id of the first.
fn answer(id: &str, outcomes: Vec<(DestinationName, Outcome)>) -> Result<Value, Problem> {
    let mut deliveries = Vec::new();
    let mut first_ids = Vec::new();
    let mut worst: Option<Refusal> = None;
    for (name, outcome) in outcomes {
        match outcome {
            Ok(Receipt { position, durability, duplicate_of }) => {
                let mut delivery = json!({
                    "destination": name, "sequence": position.sequence, "epoch": position.epoch,
                    "duplicate": duplicate_of.is_some(), "durability": durability,
                });
                if let Some(first_id) = duplicate_of {
                    delivery["id"] = json!(first_id);
                    first_ids.push(first_id);
                }
                deliveries.push(delivery);
            }
            Err(refusal) => {
                let is_worse = |worst: &Refusal| worst.code().status() < refusal.code().status();
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
    Problem::new(error.code, error.detail)
}

fn destination_name(text: &str) -> Result<DestinationName, Problem> {
    text.parse()
        .map_err(|invalid| Problem::new(Code::UnknownDestination, format!("{text:?}: {invalid}")))
}
