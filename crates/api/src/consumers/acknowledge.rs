//! `POST /v1/deliveries/{accept,refuse,extend,requeue}`.

use std::time::Duration;

use axum::{
    Extension, Json,
    body::Bytes,
    extract::{State, rejection::BytesRejection},
};
use serde::Deserialize;
use utoipa::ToSchema;

use crate::{
    Api, read_json,
    views::rfc3339,
    workers::{Group, Items, Results, check_waits, group, unless_damaged},
};
use domain::{AttemptError, ErrorKind, LeaseToken, Stage};
use http_server::{openapi_responses, principal::Principal, problem::Problem};
use store::{RefusedMessage, Status};

/// The most items of one call to Redis: each may name another lane.
const CALL_ITEMS_MAX: usize = 100;

/// A message that a consumer holds.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct HeldItem {
    token: String,
}

/// A message that a consumer refuses.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RefuseItem {
    token: String,
    /// What went wrong; the first 2 kB are kept.
    #[serde(default)]
    error: String,
    /// True: no further attempt can succeed.
    #[serde(default, rename = "final")]
    is_final: bool,
    /// How long to wait before the next attempt; the backoff of the definition if absent.
    #[schema(maximum = 86_400_000)]
    retry_ms: Option<u64>,
}

/// `POST /v1/deliveries/accept`
#[utoipa::path(post, path = "/v1/deliveries/accept", tag = "consumers",
    operation_id = "accept_deliveries", request_body = Items<HeldItem>,
    responses((status = 200, description = "One result for each item", body = Results),
        openapi_responses::Works))]
pub(crate) async fn accept(
    State(api): State<Api>,
    Extension(caller): Extension<Principal>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<Results>, Problem> {
    acknowledge(&api, &caller, body, Verb::Accept).await
}

/// `POST /v1/deliveries/requeue`
#[utoipa::path(post, path = "/v1/deliveries/requeue", tag = "consumers",
    operation_id = "requeue_deliveries", request_body = Items<HeldItem>,
    responses((status = 200, description = "One result for each item", body = Results),
        openapi_responses::Works))]
pub(crate) async fn requeue(
    State(api): State<Api>,
    Extension(caller): Extension<Principal>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<Results>, Problem> {
    acknowledge(&api, &caller, body, Verb::Requeue).await
}

/// `POST /v1/deliveries/extend`
#[utoipa::path(post, path = "/v1/deliveries/extend", tag = "consumers",
    operation_id = "extend_deliveries", request_body = Items<HeldItem>,
    responses((status = 200, description = "One result for each item", body = Results),
        openapi_responses::Works))]
pub(crate) async fn extend(
    State(api): State<Api>,
    Extension(caller): Extension<Principal>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<Results>, Problem> {
    let (mut results, groups) = held(&api, &caller, body).await?;
    for group in &groups {
        for (at, tokens) in calls(group) {
            let answer = unless_damaged(api.store.extend_deliveries(&group.entry, tokens).await)?;
            let Some((deadline_ms, statuses)) = answer else {
                results.damaged(at);
                continue;
            };
            results.fill(at, &statuses);
            let extended = at.iter().zip(&statuses).filter(|(_, status)| **status == Status::Ok);
            extended.for_each(|(&index, _)| results.expires_at(index, rfc3339(deadline_ms)));
        }
    }
    Ok(Json(results))
}

/// `POST /v1/deliveries/refuse`
#[utoipa::path(post, path = "/v1/deliveries/refuse", tag = "consumers",
    operation_id = "refuse_deliveries", request_body = Items<RefuseItem>,
    responses((status = 200, description = "One result for each item", body = Results),
        openapi_responses::Works))]
pub(crate) async fn refuse(
    State(api): State<Api>,
    Extension(caller): Extension<Principal>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<Results>, Problem> {
    let Items { items } = read_json::<Items<RefuseItem>>(body, api.batch_bytes_max)?;
    check_waits("retry_ms", items.iter().map(|item| item.retry_ms))?;
    let tokens = items.iter().map(|item| item.token.as_str()).collect();
    let (mut results, groups) = group(&api, &caller, tokens).await?;
    for group in &groups {
        for (at, tokens) in calls(group) {
            let refused = at.iter().zip(tokens).map(|(&index, token)| {
                let RefuseItem { error, is_final, retry_ms, .. } = &items[index];
                let kind = if *is_final { ErrorKind::Rejected } else { ErrorKind::Failed };
                RefusedMessage {
                    token: token.clone(),
                    error: AttemptError::new(Stage::Delivery, kind, error),
                    retry_after: retry_ms.map(Duration::from_millis),
                    is_permanent: *is_final,
                }
            });
            let refused: Vec<_> = refused.collect();
            fill(&mut results, at, unless_damaged(api.store.refuse(&group.entry, &refused).await)?);
        }
    }
    Ok(Json(results))
}

/// What becomes of messages without further details.
#[derive(Clone, Copy)]
enum Verb {
    Accept,
    Requeue,
}

async fn acknowledge(
    api: &Api,
    caller: &Principal,
    body: Result<Bytes, BytesRejection>,
    verb: Verb,
) -> Result<Json<Results>, Problem> {
    let (mut results, groups) = held(api, caller, body).await?;
    for group in &groups {
        for (at, tokens) in calls(group) {
            let statuses = match verb {
                Verb::Accept => api.store.accept(&group.entry, tokens).await,
                Verb::Requeue => api.store.give_back(&group.entry, tokens).await,
            };
            fill(&mut results, at, unless_damaged(statuses)?);
        }
    }
    Ok(Json(results))
}

/// The places and tokens of each call to Redis for this group.
fn calls(group: &Group) -> impl Iterator<Item = (&[usize], &[LeaseToken])> {
    group.at.chunks(CALL_ITEMS_MAX).zip(group.tokens.chunks(CALL_ITEMS_MAX))
}

/// The items of a request, by destination, with a preliminary result for each.
async fn held(
    api: &Api,
    caller: &Principal,
    body: Result<Bytes, BytesRejection>,
) -> Result<(Results, Vec<Group>), Problem> {
    let Items { items } = read_json::<Items<HeldItem>>(body, api.batch_bytes_max)?;
    group(api, caller, items.iter().map(|item| item.token.as_str()).collect()).await
}

fn fill(results: &mut Results, at: &[usize], statuses: Option<Vec<Status>>) {
    match statuses {
        Some(statuses) => results.fill(at, &statuses),
        None => results.damaged(at),
    }
}
