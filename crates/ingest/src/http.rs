//! HTTP ingest: `POST /v1/messages`, `POST /v1/destinations/{d}/messages` and
//! `POST /v1/topics/{t}/messages`.

mod batch;
mod limited;
mod signed;

#[cfg(feature = "fuzzing")]
pub(super) use batch::lines_of;

use std::{collections::HashMap, sync::Arc};

use axum::{
    Extension, Router,
    body::{Body, Bytes},
    extract::{Path, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use futures::{FutureExt, future::join_all};
use tokio_util::sync::CancellationToken;

use super::{
    Committer, Draft, MemoryPermit, Outcome, Recipients, Refusal, Session,
    answer::{Accepted, REPLAYED, answer},
    copies::{Copies, settle_ids, submit_all},
    json::{self, ItemError, Limits, parse_item_with},
    message_headers::{MessageHeaders, SendHeaders},
    rates::Rates,
    raw::draft_of,
};
use domain::{DestinationName, TopicName};
use formats::code::Code;
use http_server::{
    client_connection::ClientConnection, openapi_responses, principal::Principal, problem::Problem,
    routes::Routes,
};
use store::server_clock_ms;

/// State that the handlers share.
#[derive(Clone)]
pub struct Ingest {
    /// Stamps the messages.
    pub committer: Committer,
    /// Limits of a message's body.
    pub limits: Limits,
    /// The longest batch, in bytes.
    pub batch_bytes_max: usize,
    /// The rates of tokens.
    pub rates: Rates,
    /// Set when the process begins to stop.
    pub stop: CancellationToken,
}

/// The routes of ingest.
pub fn router(ingest: Ingest) -> Router {
    routes(Router::new()).with_state(ingest)
}

/// Adds the routes of ingest.
pub fn routes<R: Routes<Ingest>>(all: R) -> R {
    http_server::routes!(all, self: post_raw, publish_raw, post_items)
}

/// `POST /v1/destinations/{d}/messages`
#[utoipa::path(post, path = "/v1/destinations/{destination}/messages", tag = "messages",
    operation_id = "send_message",
    params(("destination" = String, Path, description = "The name of the destination"), SendHeaders),
    request_body(content = Vec<u8>, content_type = "application/octet-stream",
        description = "The message, of any content type"),
    responses((status = 202, description = "Redis has the message", body = Accepted,
            headers(("Idempotent-Replayed" = bool, description = "`true`, if nothing was stored, \
                because all of it had been stored before"))),
        openapi_responses::Ingests))]
async fn post_raw(
    State(ingest): State<Ingest>,
    Extension(caller): Extension<Principal>,
    client: Option<Extension<ClientConnection>>,
    Path(name): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    ingest.refuse_when_stopping()?;
    let name = destination_name(&name)?;
    let taken = async {
        let signed = ingest.signed(&caller, &name, &headers).await?;
        let (body, permit) = ingest.read(body, ingest.limits.body_bytes_max).await?;
        let to = Recipients::Destinations([name.clone()].into());
        let Some(signed) = signed else {
            let draft = draft_of(headers, body, to)?;
            return ingest.take_one(&caller, draft, permit).await;
        };
        signed.check(&headers, &body).await?;
        client.inspect(|client| client.verify());
        let mut draft = draft_of(headers, body, to)?;
        signed.set_idempotency_key(&mut draft);
        let caller = caller.clone().with_verified_signature(&name);
        ingest.take_one(&caller, draft, permit).await
    };
    Ok(ingest.within_rates(&caller, Some(&name), taken).await)
}

/// `POST /v1/topics/{t}/messages`
#[utoipa::path(post, path = "/v1/topics/{topic}/messages", tag = "messages",
    operation_id = "publish_message",
    params(("topic" = String, Path, description = "The name of the topic"), SendHeaders),
    request_body(content = Vec<u8>, content_type = "application/octet-stream",
        description = "The message, of any content type"),
    responses((status = 202, description = "Redis has all copies", body = Accepted,
            headers(("Idempotent-Replayed" = bool, description = "`true`, if nothing was stored, \
                because all of it had been stored before"))),
        openapi_responses::Ingests))]
async fn publish_raw(
    State(ingest): State<Ingest>,
    Extension(caller): Extension<Principal>,
    Path(name): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    ingest.refuse_when_stopping()?;
    let topic = name.parse().map_err(|_| Problem::unknown_topic(&name))?;
    let to = Recipients::Topic(topic);
    let taken = async {
        let (body, permit) = ingest.read(body, ingest.limits.body_bytes_max).await?;
        let draft = draft_of(headers, body, to)?;
        ingest.take_one(&caller, draft, permit).await
    };
    Ok(ingest.within_rates(&caller, None, taken).await)
}

/// `POST /v1/messages`
#[utoipa::path(post, path = "/v1/messages", tag = "messages", operation_id = "send_messages",
    params(SendHeaders),
    request_body(description = "One message, or a batch with one on each line",
        content((json::Sent = "application/json"), (String = "application/x-ndjson"))),
    responses((status = 202, description = "Redis has the message; or a line for each of a batch",
            content((Accepted = "application/json"), (String = "application/x-ndjson")),
            headers(("Idempotent-Replayed" = bool, description = "`true`, if nothing was stored, \
                because all of it had been stored before"))),
        openapi_responses::IngestsBatch))]
async fn post_items(
    State(ingest): State<Ingest>,
    Extension(caller): Extension<Principal>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    ingest.refuse_when_stopping()?;
    let taken = ingest.take_items(&caller, &headers, body);
    Ok(ingest.within_rates(&caller, None, taken).await)
}

impl Ingest {
    /// Takes one message as JSON, or a batch.
    async fn take_items(
        &self,
        caller: &Principal,
        headers: &HeaderMap,
        body: Body,
    ) -> Result<Response, Problem> {
        if headers.contains_key(header::CONTENT_ENCODING) {
            return Err(Problem::new(
                Code::UnsupportedMediaType,
                "send these requests without Content-Encoding; a message may have a body_base64 that is encoded, with \
                 \"content-encoding\" among its headers",
            ));
        }
        let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let media_type =
            content_type.unwrap_or_default().split(';').next().unwrap_or_default().trim();
        match media_type {
            "application/json" => {
                let (body, permit) = self.read(body, self.batch_bytes_max).await?;
                let now_ms = server_clock_ms();
                let said =
                    MessageHeaders::read(headers, now_ms).map_err(Problem::invalid_header)?;
                let draft = parse_item_with(said, &body, now_ms, self.limits);
                self.take_one(caller, draft.map_err(problem_of)?, permit).await
            }
            "application/x-ndjson" | "application/ndjson" => {
                let (body, permit) = self.read(body, self.batch_bytes_max).await?;
                MessageHeaders::nothing(headers).map_err(Problem::invalid_header)?;
                self.take_batch(caller, &body, permit).await
            }
            _ => Err(Problem::new(
                Code::UnsupportedMediaType,
                "send content-type application/json (one message) or application/x-ndjson (one a line); \
             for a raw body of any type use POST /v1/destinations/{d}/messages",
            )),
        }
    }
}

/// The destinations of each topic that a request names. One request resolves each topic only once.
type Topics = HashMap<TopicName, Result<Arc<[DestinationName]>, Refusal>>;

impl Ingest {
    fn refuse_when_stopping(&self) -> Result<(), Problem> {
        if self.stop.is_cancelled() { Err(Refusal::Draining.problem()) } else { Ok(()) }
    }

    async fn read(&self, body: Body, max: usize) -> Result<(Bytes, MemoryPermit), Problem> {
        self.committer.memory().read(body, max).await
    }

    /// Resolves the topic of a message, and checks that the caller may use all its destinations.
    async fn address(
        &self,
        caller: &Principal,
        draft: &mut Draft,
        topics: &mut Topics,
    ) -> Result<(), Problem> {
        if let Recipients::Topic(topic) = &draft.to {
            if !topics.contains_key(topic) {
                topics.insert(topic.clone(), self.committer.destinations_of(topic).await);
            }
            let found = topics[topic].clone();
            draft.address(found.map_err(|refusal| match refusal {
                Refusal::UnknownTopic(_) => caller.unknown(refusal.problem()),
                _ => refusal.problem(),
            })?);
        }
        caller.check_all(draft.destinations())?;
        self.check_proof(caller, draft.destinations()).await
    }

    /// Stores one message for all its destinations. On failure, the problem lists the stored copies.
    async fn take_one(
        &self,
        caller: &Principal,
        mut draft: Draft,
        room: MemoryPermit,
    ) -> Result<Response, Problem> {
        self.address(caller, &mut draft, &mut Topics::new()).await?;
        let mut all = Vec::with_capacity(draft.destinations().len());
        for name in draft.destinations() {
            let message = vec![(0, &draft)];
            all.push(Copies::of(&self.committer, name, message, Session::default()).await);
        }
        let ids = self.find_keys(&mut all).await;
        let stored = submit_all(&mut all, &self.committer, &room).await;
        let outcome = |mut outcomes: Vec<Outcome>| outcomes.pop().unwrap_or(Err(Refusal::Draining));
        let outcomes = stored.into_iter().map(outcome);
        let accepted = answer(ids.get(&0).unwrap_or(draft.id()), outcomes)?;
        let replayed = accepted.is_replay().then_some([(REPLAYED, "true")]);
        Ok((StatusCode::ACCEPTED, replayed, axum::Json(accepted)).into_response())
    }

    /// Finds the keys that the producers did not give. Returns the ids that depend on these keys, by the index of the
    /// message.
    async fn find_keys(&self, all: &mut [Copies<'_>]) -> HashMap<usize, String> {
        if !all.iter().any(Copies::may_lack_keys) {
            return HashMap::new();
        }
        // Searches in all destinations at the same time, so that a slow expression delays no other destination.
        let finding =
            all.iter_mut().map(|copies| copies.find_keys(&self.committer, &self.stop).boxed());
        join_all(finding).await;
        settle_ids(all)
    }
}

fn problem_of(error: ItemError) -> Problem {
    match error.code {
        Code::InvalidField => Problem::invalid_field(error.detail),
        code => Problem::new(code, error.detail),
    }
}

fn destination_name(text: &str) -> Result<DestinationName, Problem> {
    text.parse()
        .map_err(|invalid| Problem::new(Code::UnknownDestination, format!("{text:?}: {invalid}")))
}
