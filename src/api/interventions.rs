//! `/v1/destinations/{d}/pause`, `resume`, `retry-head` and `skip-head`: manual interventions.

use std::collections::BTreeMap;

use axum::{
    Json,
    body::Bytes,
    extract::{Path, State, rejection::BytesRejection},
    response::Response,
};
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

use super::{
    Api, after_partial_success,
    request::{Target, read_optional},
    views::body_given,
    withdraw::{self, wrong_state},
};
use crate::{
    domain::{self, Body, Ordering, Sequence, Tombstone},
    store::{Retry, StoreError, Which},
    wire::{json::even_null, problem::Problem},
};

/// How many halted messages are read together.
const HALTED_AT_ONCE: usize = 500;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum What {
    Delivery,
    Ingest,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Pause {
    what: What,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Resume {
    what: Option<What>,
}

/// `POST /v1/destinations/{d}/pause`
pub(super) async fn pause(
    State(api): State<Api>,
    Path(name): Path<String>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<Value>, Problem> {
    let Pause { what } = read_optional(body, api.batch_bytes_max)?;
    let paused = |one: What| (what == one).then_some(true);
    set_paused(&api, &name, paused(What::Ingest), paused(What::Delivery)).await
}

/// `POST /v1/destinations/{d}/resume`
pub(super) async fn resume(
    State(api): State<Api>,
    Path(name): Path<String>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<Value>, Problem> {
    let Resume { what } = read_optional(body, api.batch_bytes_max)?;
    let resumed = |one: What| what.is_none_or(|what| what == one).then_some(false);
    set_paused(&api, &name, resumed(What::Ingest), resumed(What::Delivery)).await
}

async fn set_paused(
    api: &Api,
    name: &str,
    ingest: Option<bool>,
    delivery: Option<bool>,
) -> Result<Json<Value>, Problem> {
    let mut target = Target::find(api, name).await?;
    let name = target.entry().destination.name.clone();
    let (paused, _) = api.store.pause(&name, ingest, delivery).await?;
    target.refresh().await?;
    Ok(Json(json!({"paused": paused})))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RetryHead {
    key: Option<String>,
    sequence: Option<Sequence>,
    #[serde(default, deserialize_with = "even_null")]
    body: Option<Box<RawValue>>,
    body_base64: Option<String>,
    content_type: Option<String>,
    #[serde(default)]
    all: bool,
}

/// `POST /v1/destinations/{d}/retry-head`
pub(super) async fn retry_head(
    State(api): State<Api>,
    Path(name): Path<String>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<Value>, Problem> {
    let mut target = Target::find(&api, &name).await?;
    let request: RetryHead = read_optional(body, api.batch_bytes_max)?;
    let mut repaired = body_given(
        request.body.as_deref(),
        request.body_base64.as_deref(),
        request.content_type.as_deref(),
        api.body_bytes_max,
    )?;
    if request.all {
        if repaired.is_some() || request.key.is_some() || request.sequence.is_some() {
            let detail = "all: leave out body, key and sequence, which are for one head";
            return Err(Problem::invalid_field(detail));
        }
        return Ok(Json(json!({"retried": retry_all(&mut target).await?})));
    }
    let (lane, sequence) = head_of(&target, request.key, request.sequence).await?;
    if let Some(body) = &mut repaired {
        check_sendable(&target, body)?;
        if request.body_base64.is_some() && request.content_type.is_none() {
            keep_content_type(&target, sequence, body).await?;
        }
    }
    let retry = Retry { lane, sequence, repaired };
    let stands = target.retry(&retry).await;
    let stands = stands.map_err(|error| match error {
        StoreError::WrongHead => wrong_state(format!("{sequence} is not a head any more")),
        error => Problem::from(error),
    })?;
    Ok(Json(json!({"sequence": sequence, "state": stands})))
}

/// Retries all halted heads; returns how many.
async fn retry_all(target: &mut Target) -> Result<u64, Problem> {
    let store = target.api.store.clone();
    // List them first: a retry removes a head from the list that is being read.
    let mut heads: BTreeMap<Option<String>, Sequence> = BTreeMap::new();
    let mut cursor = None;
    loop {
        let which = Which {
            state: Some(domain::State::Halted),
            limit: HALTED_AT_ONCE,
            cursor,
            ..Which::default()
        };
        let page = store.pending(target.entry(), &which).await?;
        for one in page.items {
            let (key, sequence) = (one.message.message.key, one.message.position.sequence);
            let lane = target.entry().destination.lane_of(key.as_deref(), sequence);
            let first = heads.entry(lane).or_insert(sequence);
            *first = sequence.min(*first);
        }
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    let mut retried = 0;
    for (lane, sequence) in heads {
        let retry = Retry { lane, sequence, repaired: None };
        match target.retry(&retry).await {
            Ok(_) => retried += 1,
            // Not the head of its lane, or another request was faster.
            Err(StoreError::WrongHead | StoreError::WrongState(_)) => {}
            Err(error) => {
                return Err(after_partial_success(Problem::from(error), &[("retried", retried)]));
            }
        }
    }
    Ok(retried)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SkipHead {
    key: Option<String>,
    sequence: Option<Sequence>,
}

/// `POST /v1/destinations/{d}/skip-head`
pub(super) async fn skip_head(
    State(api): State<Api>,
    Path(name): Path<String>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Problem> {
    let mut target = Target::find(&api, &name).await?;
    let SkipHead { key, sequence } = read_optional(body, api.batch_bytes_max)?;
    if let Some(sequence) = sequence {
        withdraw::check_stamped(&target, sequence).await?;
    }
    let message = head_of(&target, key, sequence).await?;
    withdraw::one(&mut target, Tombstone::DeadLettered, "skipped by hand", message).await
}

/// The lane that a request names, and its head. If the request names a sequence, it must be the
/// head.
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

/// A repaired body without a content type keeps the one of the old body.
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
