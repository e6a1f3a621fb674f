//! `POST /v1/leases/{fail,extend,requeue}`.

use std::{collections::BTreeMap, time::Duration};

use axum::{Json, extract::State};
use serde::Deserialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::{
    ATTEMPTS_BYTES_MAX, Batch, Group, ITEMS_MAX, Item, Items, LEASE_MS, Results, check_range,
    check_wait, count_results,
    ends::{End, end_attempts, end_overdue},
    half_a_minute, unless_damaged,
};
use crate::{Api, views::rfc3339};
use domain::{ErrorKind, attempts::CHECKPOINT_BYTES_MAX};
use formats::json::{AROUND, embeddable, even_null};
use http_server::{openapi_responses, problem::Problem};
use store::{Extension as LeaseExtension, Status, chunks_by_size, server_clock_ms};

/// A failed attempt.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FailItem {
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

impl Item for FailItem {
    fn token(&self) -> &str {
        &self.token
    }

    fn check(&mut self, at: usize, _: &Api) -> Result<(), Problem> {
        check_wait(at, "retry_ms", self.retry_ms)
    }
}

impl FailItem {
    fn end(&self) -> End<'_> {
        let (kind, error) = (ErrorKind::Failed, self.error.as_str());
        End::Failed { kind, error, is_final: self.is_final, retry_ms: self.retry_ms }
    }
}

/// A lease to extend.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExtendItem {
    token: String,
    /// How long the lease lasts, from now.
    #[serde(default = "half_a_minute")]
    #[schema(minimum = 100, maximum = 86_400_000, default = 30_000)]
    lease_ms: u64,
    /// The checkpoint for the next attempt. If absent, the earlier checkpoint stays.
    #[serde(default, deserialize_with = "even_null")]
    #[schema(value_type = Option<serde_json::Value>)]
    checkpoint: Option<Box<RawValue>>,
}

impl Item for ExtendItem {
    fn token(&self) -> &str {
        &self.token
    }

    fn check(&mut self, at: usize, api: &Api) -> Result<(), Problem> {
        check_range(&format!("items[{at}].lease_ms"), self.lease_ms, LEASE_MS)?;
        let Some(json) = self.checkpoint.as_ref().map(|json| json.get()) else { return Ok(()) };
        let length = json.len();
        let problem = if length > CHECKPOINT_BYTES_MAX {
            format!("is {length} bytes of JSON, more than {CHECKPOINT_BYTES_MAX}")
        // The next attempt gets the checkpoint in an answer that also holds other messages.
        } else if embeddable(json, api.json_depth_max).is_none() {
            let levels = api.json_depth_max.saturating_sub(AROUND);
            format!(
                "some parsers of JSON would refuse it: it nests deeper than {levels} levels \
                 (http.json_depth_max), or has a number beyond a double or half of a surrogate pair"
            )
        } else {
            return Ok(());
        };
        Err(Problem::invalid_field(format!("items[{at}].checkpoint: {problem}")))
    }
}

/// A message to return unprocessed.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RequeueItem {
    token: String,
    /// How long the message waits before a worker can get it again; 0: it does not wait. One message can wait in this
    /// way 1,000 times.
    #[serde(default)]
    #[schema(maximum = 86_400_000)]
    delay_ms: u64,
}

impl Item for RequeueItem {
    fn token(&self) -> &str {
        &self.token
    }

    fn check(&mut self, at: usize, _: &Api) -> Result<(), Problem> {
        check_wait(at, "delay_ms", Some(self.delay_ms))
    }
}

/// `POST /v1/leases/fail`
#[utoipa::path(post, path = "/v1/leases/fail", tag = "workers", operation_id = "fail_leases",
    request_body = Items<FailItem>,
    responses((status = 200, description = "One result for each item", body = Results),
        openapi_responses::Works))]
pub(crate) async fn fail(
    State(api): State<Api>,
    Batch { items, mut results, groups }: Batch<FailItem>,
) -> Result<Json<Results>, Problem> {
    for of_one in groups {
        let ends: Vec<End> = of_one.at.iter().map(|&index| items[index].end()).collect();
        end_attempts(&api, of_one, &ends, "failed", &mut results).await?;
    }
    Ok(Json(results))
}

/// `POST /v1/leases/extend`
#[utoipa::path(post, path = "/v1/leases/extend", tag = "workers", operation_id = "extend_leases",
    request_body = Items<ExtendItem>,
    responses((status = 200, description = "One result for each item", body = Results),
        openapi_responses::Works))]
pub(crate) async fn extend(
    State(api): State<Api>,
    Batch { items, mut results, groups }: Batch<ExtendItem>,
) -> Result<Json<Results>, Problem> {
    for Group { entry, at, tokens } in groups {
        // Makes one call for each lease duration; usually there is only one.
        let mut by_length: BTreeMap<u64, (Vec<usize>, Vec<LeaseExtension>)> = BTreeMap::new();
        for (index, token) in at.into_iter().zip(tokens) {
            let item = &items[index];
            let (at, extensions) = by_length.entry(item.lease_ms).or_default();
            at.push(index);
            let checkpoint = item.checkpoint.as_ref().map(|json| json.get().to_owned());
            extensions.push(LeaseExtension { token, checkpoint });
        }
        // With a checkpoint, a call reads and writes the whole stored attempts of a message. They may be long even if
        // this checkpoint is short. A call also reads them if the attempt may have lasted too long.
        let attempt_ms_max = entry.destination.transform.attempt_ms_max;
        let since = server_clock_ms().saturating_sub(attempt_ms_max);
        let size = |one: &LeaseExtension| {
            let may_be_over = attempt_ms_max > 0 && one.token.claimed_ms <= since;
            if one.checkpoint.is_some() || may_be_over { CHECKPOINT_BYTES_MAX } else { 0 }
        };
        let mut overdue = Group { entry: entry.clone(), at: Vec::new(), tokens: Vec::new() };
        for (lease_ms, (mut at, extensions)) in by_length {
            let lease = Duration::from_millis(lease_ms);
            for some in chunks_by_size(&extensions, ITEMS_MAX, ATTEMPTS_BYTES_MAX, size) {
                let answer = api.store.extend(&entry, some, lease).await;
                let Some((deadline_ms, statuses)) = unless_damaged(answer)? else {
                    results.damaged(&at[..some.len()]);
                    at.drain(..some.len());
                    continue;
                };
                for ((&index, one), status) in at.iter().zip(some).zip(&statuses) {
                    match status {
                        Status::Ok => results.expires_at(index, rfc3339(deadline_ms)),
                        Status::AttemptTimeout => overdue.push(index, one.token.clone()),
                        _ => {}
                    }
                }
                results.fill(&at, &statuses);
                at.drain(..some.len());
            }
        }
        end_overdue(&api, overdue, &mut results).await?;
    }
    Ok(Json(results))
}

/// `POST /v1/leases/requeue`
#[utoipa::path(post, path = "/v1/leases/requeue", tag = "workers", operation_id = "requeue_leases",
    request_body = Items<RequeueItem>,
    responses((status = 200, description = "One result for each item", body = Results),
        openapi_responses::Works))]
pub(crate) async fn requeue(
    State(api): State<Api>,
    Batch { items, mut results, groups }: Batch<RequeueItem>,
) -> Result<Json<Results>, Problem> {
    for of_one in groups {
        let (later, Group { entry, at, tokens }) = of_one.split(|index| items[index].delay_ms > 0);
        let ends: Vec<End> =
            later.at.iter().map(|&index| End::Later { delay_ms: items[index].delay_ms }).collect();
        end_attempts(&api, later, &ends, "requeued", &mut results).await?;
        if tokens.is_empty() {
            continue;
        }
        let name = &entry.destination.name;
        let call_sequence = api.workers.take(&api, name);
        let answer = api.store.requeue(&call_sequence, &entry, &tokens).await;
        api.workers.put_back(name, call_sequence);
        match unless_damaged(answer)? {
            Some(statuses) => {
                count_results(name, "requeued", &statuses);
                results.fill(&at, &statuses);
            }
            None => results.damaged(&at),
        }
    }
    Ok(Json(results))
}
