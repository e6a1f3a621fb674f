//! `POST /v1/deliveries/{accept,refuse,extend,requeue}`.

use std::time::Duration;

use axum::{Json, extract::State};
use serde::Deserialize;
use utoipa::ToSchema;

use crate::{
    Api,
    views::rfc3339,
    workers::{Batch, Group, Item, Items, Results, check_wait, unless_damaged},
};
use domain::{AttemptError, ErrorKind, LeaseToken, Stage};
use http_server::{openapi_responses, problem::Problem};
use store::{RefusedMessage, Status};

/// The most items of one call to Redis, because each item may name another lane.
const CALL_ITEMS_MAX: usize = 100;

/// A message that a consumer holds.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct HeldItem {
    token: String,
}

impl Item for HeldItem {
    fn token(&self) -> &str {
        &self.token
    }
}

/// A message that a consumer refuses.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RefuseItem {
    token: String,
    /// The error; the first 2 kB are kept.
    #[serde(default)]
    error: String,
    /// True: no further attempt can succeed.
    #[serde(default, rename = "final")]
    is_final: bool,
    /// How long the message waits before the next attempt; if absent, the backoff of the definition.
    #[schema(maximum = 86_400_000)]
    retry_ms: Option<u64>,
}

impl Item for RefuseItem {
    fn token(&self) -> &str {
        &self.token
    }

    fn check(&mut self, at: usize, _: &Api) -> Result<(), Problem> {
        check_wait(at, "retry_ms", self.retry_ms)
    }
}

/// `POST /v1/deliveries/accept`
#[utoipa::path(post, path = "/v1/deliveries/accept", tag = "consumers",
    operation_id = "accept_deliveries", request_body = Items<HeldItem>,
    responses((status = 200, description = "One result for each item", body = Results),
        openapi_responses::Works))]
pub(crate) async fn accept(
    State(api): State<Api>,
    held: Batch<HeldItem>,
) -> Result<Json<Results>, Problem> {
    acknowledge(&api, held, Verb::Accept).await
}

/// `POST /v1/deliveries/requeue`
#[utoipa::path(post, path = "/v1/deliveries/requeue", tag = "consumers",
    operation_id = "requeue_deliveries", request_body = Items<HeldItem>,
    responses((status = 200, description = "One result for each item", body = Results),
        openapi_responses::Works))]
pub(crate) async fn requeue(
    State(api): State<Api>,
    held: Batch<HeldItem>,
) -> Result<Json<Results>, Problem> {
    acknowledge(&api, held, Verb::Requeue).await
}

/// `POST /v1/deliveries/extend`
#[utoipa::path(post, path = "/v1/deliveries/extend", tag = "consumers",
    operation_id = "extend_deliveries", request_body = Items<HeldItem>,
    responses((status = 200, description = "One result for each item", body = Results),
        openapi_responses::Works))]
pub(crate) async fn extend(
    State(api): State<Api>,
    Batch { mut results, groups, .. }: Batch<HeldItem>,
) -> Result<Json<Results>, Problem> {
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
    Batch { items, mut results, groups }: Batch<RefuseItem>,
) -> Result<Json<Results>, Problem> {
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

/// The actions on messages that need no further fields.
#[derive(Clone, Copy)]
enum Verb {
    Accept,
    Requeue,
}

async fn acknowledge(
    api: &Api,
    Batch { mut results, groups, .. }: Batch<HeldItem>,
    verb: Verb,
) -> Result<Json<Results>, Problem> {
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

/// The items of this group for each call to Redis: their indexes in the request, and their tokens.
fn calls(group: &Group) -> impl Iterator<Item = (&[usize], &[LeaseToken])> {
    group.at.chunks(CALL_ITEMS_MAX).zip(group.tokens.chunks(CALL_ITEMS_MAX))
}

fn fill(results: &mut Results, at: &[usize], statuses: Option<Vec<Status>>) {
    match statuses {
        Some(statuses) => results.fill(at, &statuses),
        None => results.damaged(at),
    }
}
