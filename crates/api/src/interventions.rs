//! `/v1/destinations/{d}/pause`, `resume`, `retry-head` and `skip-head`: manual interventions.

use std::{collections::BTreeMap, num::NonZeroU32, sync::Arc};

use axum::{
    Json,
    http::HeaderMap,
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::{
    audit,
    bulk::{self, Kind, Operation, Prefer, Progress},
    request::{InDestination, Order, Target},
    views::body_given,
    withdraw::{self, wrong_state},
};
use domain::{Body, Ordering, Sequence, State, Tombstone};
use formats::json::even_null;
use http_server::{openapi_responses, problem::Problem};
use store::{Listed, Paused, Retry, StoreError, Which};

/// The most messages that one call to Redis reads.
pub(super) const AT_ONCE: usize = 500;

/// A part of a destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = PausedPart)]
enum What {
    Delivery,
    Ingest,
    Processing,
}

/// The part to pause or to resume: everything if `what` is absent.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Pause {
    what: Option<What>,
}

/// The paused parts of the destination.
#[derive(Serialize, ToSchema)]
pub(super) struct PauseState {
    paused: Paused,
}

/// `POST /v1/destinations/{d}/pause`
#[utoipa::path(post, path = "/v1/destinations/{destination}/pause", tag = "interventions",
    operation_id = "pause", params(InDestination), request_body = Option<Pause>,
    responses((status = 200, description = "What is paused now", body = PauseState),
        openapi_responses::Changes))]
pub(super) async fn pause(order: Order<Pause>) -> Result<Json<PauseState>, Problem> {
    set_paused(order, true).await
}

/// `POST /v1/destinations/{d}/resume`
#[utoipa::path(post, path = "/v1/destinations/{destination}/resume", tag = "interventions",
    operation_id = "resume", params(InDestination), request_body = Option<Pause>,
    responses((status = 200, description = "What is paused now", body = PauseState),
        openapi_responses::Changes))]
pub(super) async fn resume(order: Order<Pause>) -> Result<Json<PauseState>, Problem> {
    set_paused(order, false).await
}

async fn set_paused(
    Order(mut target, Pause { what }): Order<Pause>,
    is_paused: bool,
) -> Result<Json<PauseState>, Problem> {
    let set = |one: What| what.is_none_or(|what| what == one).then_some(is_paused);
    let [ingest, processing, delivery] = [What::Ingest, What::Processing, What::Delivery].map(set);
    let (store, name) = (&target.api.store, &target.name);
    let (paused, _) = store.pause(name, ingest, processing, delivery).await?;
    target.refresh().await?;
    target.api.catalog.complete_shards(target.entry(), &audit::author()).await?;
    Ok(Json(PauseState { paused }))
}

/// Which head to retry, optionally with a repaired body.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RetryHead {
    /// The ordering key of the lane, with ordering by key.
    key: Option<String>,
    /// The sequence of the expected head. If another message is the head now, the call is refused. Required without
    /// ordering.
    sequence: Option<Sequence>,
    /// A repaired body, as JSON.
    #[serde(default, deserialize_with = "even_null")]
    #[schema(value_type = Option<serde_json::Value>)]
    body: Option<Box<RawValue>>,
    /// A repaired body, in base64.
    body_base64: Option<String>,
    /// The content type of `body_base64`.
    content_type: Option<String>,
    /// True: retries all heads that are halted or in backoff, instead of one head.
    #[serde(default)]
    all: bool,
    /// With `all`: the most retries per second; as fast as possible if absent.
    #[schema(value_type = Option<u32>, minimum = 1)]
    rate_per_second: Option<NonZeroU32>,
}

/// The head that was retried; with `all`, the bulk operation.
#[derive(ToSchema)]
#[schema(as = Retried)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum Retried {
    Head(HeadState),
    All(Box<Operation>),
}

/// A message and its current state.
#[derive(Serialize, ToSchema)]
pub(super) struct HeadState {
    pub(super) sequence: Sequence,
    pub(super) state: State,
}

/// `POST /v1/destinations/{d}/retry-head`
#[utoipa::path(post, path = "/v1/destinations/{destination}/retry-head", tag = "interventions",
    operation_id = "retry_head",
    params(InDestination, Prefer),
    request_body = Option<RetryHead>,
    responses(
        (status = 200, description = "Its state now; with `all`: it is done", body = Retried),
        (status = 202, description = "With `all`: it goes on", body = Operation,
            headers(("Location" = String, description = "Where the operation can be read"))),
        openapi_responses::Changes))]
pub(super) async fn retry_head(
    headers: HeaderMap,
    Order(mut target, request): Order<RetryHead>,
) -> Result<Response, Problem> {
    let mut repaired = body_given(
        request.body.as_deref(),
        request.body_base64.as_deref(),
        request.content_type.as_deref(),
        target.api.body_bytes_max,
    )?;
    if request.all {
        if repaired.is_some() || request.key.is_some() || request.sequence.is_some() {
            let detail = "all: leave out body, key and sequence, which are for one head";
            return Err(Problem::invalid_field(detail));
        }
        let retried = target.clone();
        let rate = request.rate_per_second;
        let work = |progress| retry_all(retried, rate, progress);
        return bulk::run(&target, Kind::RetryHeads, false, &headers, work).await;
    }
    if request.rate_per_second.is_some() {
        return Err(Problem::invalid_field("rate_per_second: only with all"));
    }
    let (lane, sequence) = head_of(&target, request.key, request.sequence).await?;
    if let Some(body) = &mut repaired {
        check_sendable(&target, body)?;
        if request.body_base64.is_some() && request.content_type.is_none() {
            keep_content_type(&target, sequence, body).await?;
        }
    }
    let with = if repaired.is_some() { " with a new body" } else { "" };
    audit::target(&format!("{sequence}{with}"));
    let retry = Retry { lane, sequence, repaired };
    let stands = target.retry(&retry).await;
    let stands = stands.map_err(|error| match error {
        StoreError::WrongHead => wrong_state(format!("{sequence} is not a head any more")),
        error => Problem::from(error),
    })?;
    Ok(Json(HeadState { sequence, state: stands }).into_response())
}

/// Retries all heads that are halted or wait for a backoff.
async fn retry_all(
    mut target: Target,
    rate: Option<NonZeroU32>,
    progress: Arc<Progress>,
) -> Result<(), Problem> {
    progress.set_rate(rate).await;
    // Lists the heads first, because a retry removes its head from the list.
    let heads = retryable(&target, &progress).await?;
    progress.update(|operation| operation.matched = heads.len() as u64);
    for (lane, sequence) in heads {
        progress.turn(1).await?;
        retry_one(&mut target, Retry { lane, sequence, repaired: None }, &progress).await?;
    }
    Ok(())
}

/// Retries one message of an operation, and counts the result.
pub(super) async fn retry_one(
    target: &mut Target,
    retry: Retry,
    progress: &Progress,
) -> Result<(), Problem> {
    match target.retry(&retry).await {
        Ok(_) => progress.update(|operation| operation.affected += 1),
        // The message has left or no longer waits, or another request was faster.
        Err(StoreError::WrongHead | StoreError::WrongState(_)) => {
            progress.update(|operation| operation.failed += 1);
        }
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

/// The lanes whose head may be retried, each with its head.
async fn retryable(
    target: &Target,
    progress: &Progress,
) -> Result<BTreeMap<Option<String>, Sequence>, Problem> {
    let (store, entry) = (&target.api.store, target.entry());
    let mut heads: BTreeMap<Option<String>, Sequence> = BTreeMap::new();
    let mut add = |lane, sequence: Sequence| {
        let first = heads.entry(lane).or_insert(sequence);
        *first = sequence.min(*first);
    };
    let is_any_delayed = store.counts(entry).await?.delayed > 0;
    let states = [Some(State::Halted), is_any_delayed.then_some(State::Delayed)];
    for state in states.into_iter().flatten() {
        let mut which = Which { state: Some(state), limit: AT_ONCE, ..Which::default() };
        loop {
            progress.check()?;
            let page = store.pending(entry, &which).await?;
            for Listed { message, state, .. } in page.items {
                let attempts = &message.attempts;
                // This message has not failed: its producer delayed it.
                if state == State::Delayed && attempts.failed + attempts.stalls == 0 {
                    continue;
                }
                let sequence = message.position.sequence;
                add(entry.destination.lane_of(message.message.key.as_deref(), sequence), sequence);
            }
            which.cursor = page.next;
            if which.cursor.is_none() {
                break;
            }
        }
    }
    let mut skipped = 0;
    while let Some(some) = store.heads_in_backoff(entry, skipped).await? {
        progress.check()?;
        some.into_iter().for_each(|(lane, head)| add(lane, head));
        skipped += AT_ONCE;
    }
    Ok(heads)
}

/// Which head to skip.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SkipHead {
    /// The ordering key of the lane, with ordering by key.
    key: Option<String>,
    /// The sequence of the expected head. If another message is the head now, the call is refused, so that a repeated
    /// call skips no other message.
    sequence: Sequence,
}

/// `POST /v1/destinations/{d}/skip-head`
#[utoipa::path(post, path = "/v1/destinations/{destination}/skip-head", tag = "interventions",
    operation_id = "skip_head", params(InDestination), request_body = SkipHead,
    responses(
        (status = 200, description = "It is a dead letter", body = withdraw::Withdrawal),
        (status = 202, description = "It leaves when its attempt has ended", body = withdraw::Withdrawal),
        openapi_responses::Changes))]
pub(super) async fn skip_head(
    Order(mut target, SkipHead { key, sequence }): Order<SkipHead>,
) -> Result<Response, Problem> {
    withdraw::check_stamped(&target, sequence).await?;
    audit::target(&sequence.to_string());
    let message = head_of(&target, key, Some(sequence)).await?;
    withdraw::one(&mut target, Tombstone::DeadLettered, "skipped by hand", message).await
}

/// The lane that a request names, and its head. If the request gives a sequence, the head must have it.
async fn head_of(
    target: &Target,
    key: Option<String>,
    sequence: Option<Sequence>,
) -> Result<(Option<String>, Sequence), Problem> {
    let lane = match (target.entry().destination.ordering, key) {
        (Ordering::Destination, None) => None,
        (Ordering::Key, Some(key)) => Some(key),
        (Ordering::Key, None) => {
            let detail = "key: names the lane, and is required with ordering by key; \"\" is the \
                          lane of the messages without a key";
            return Err(Problem::invalid_field(detail));
        }
        (Ordering::None, None) => {
            let missing = || {
                let detail = "sequence: is required without ordering, because each message is \
                              the head of a lane of its own";
                Problem::invalid_field(detail)
            };
            let sequence = sequence.ok_or_else(missing)?;
            return Ok((Some(sequence.to_string()), sequence));
        }
        (Ordering::Destination | Ordering::None, Some(_)) => {
            let detail = "key: the lanes of this destination are not keys; leave it out";
            return Err(Problem::invalid_field(detail));
        }
    };
    let store = target.api.store.clone();
    let head = store.lane_head(target.entry(), lane.as_deref()).await?;
    match (head, sequence) {
        (None, _) => Err(wrong_state("the lane is empty: it has no head")),
        (Some(head), Some(sequence)) if head != sequence => {
            Err(wrong_state(format!("{sequence} is not the head of its lane; {head} is")))
        }
        (Some(head), _) => Ok((lane, head)),
    }
}

/// Gives a repaired body without a content type the content type of the old body.
async fn keep_content_type(
    target: &Target,
    sequence: Sequence,
    body: &mut Body,
) -> Result<(), Problem> {
    let found = target.api.store.headers(target.entry(), &[sequence]).await?;
    if let Some(message) = found.into_iter().next().flatten() {
        body.content_type = message.message.body.content_type;
    }
    Ok(())
}

/// Refuses a repaired body that could never be delivered.
fn check_sendable(target: &Target, body: &Body) -> Result<(), Problem> {
    match super::reingest::undeliverable(target.entry(), body) {
        Some(problem) => Err(Problem::invalid_field(problem)),
        None => Ok(()),
    }
}
