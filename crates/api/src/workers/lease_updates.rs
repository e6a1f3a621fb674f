//! `POST /v1/leases/{fail,extend,requeue}`.

use std::{collections::BTreeMap, time::Duration};

use axum::{
    Extension, Json,
    body::Bytes,
    extract::{State, rejection::BytesRejection},
};
use serde::Deserialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::{
    ATTEMPTS_BYTES_MAX, Group, ITEMS_MAX, Items, LEASE_MS, Results, bytes_left, check_range,
    check_retries, count_results, group, half_a_minute, messages_of, note_span, unless_damaged,
};
use crate::{Api, read_json, views::rfc3339};
use domain::{
    AttemptError, ErrorKind, LeaseToken, Stage, Stamped, attempts::CHECKPOINT_BYTES_MAX,
    excerpt::excerpt,
};
use formats::json::{AROUND, embeddable, even_null};
use http_server::{openapi_responses, principal::Principal, problem::Problem};
use store::{CatalogEntry, Extension as LeaseExtension, Failed, Status, chunks_by_size};

/// A failed attempt.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FailItem {
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

/// A lease to extend.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExtendItem {
    token: String,
    /// How long the lease lasts from now.
    #[serde(default = "half_a_minute")]
    #[schema(minimum = 100, maximum = 86_400_000, default = 30_000)]
    lease_ms: u64,
    /// The checkpoint for the next attempt; if omitted, the earlier one stays.
    #[serde(default, deserialize_with = "even_null")]
    #[schema(value_type = Option<serde_json::Value>)]
    checkpoint: Option<Box<RawValue>>,
}

/// A message to return unprocessed.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RequeueItem {
    token: String,
}

/// `POST /v1/leases/fail`
#[utoipa::path(post, path = "/v1/leases/fail", tag = "workers", operation_id = "fail_leases",
    request_body = Items<FailItem>,
    responses((status = 200, description = "One result for each item", body = Results),
        openapi_responses::Works))]
pub(crate) async fn fail(
    State(api): State<Api>,
    Extension(caller): Extension<Principal>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<Results>, Problem> {
    let Items { items } = read_json::<Items<FailItem>>(body, api.batch_bytes_max)?;
    check_retries(items.iter().map(|item| item.retry_ms))?;
    let tokens = items.iter().map(|item| item.token.as_str()).collect();
    let (mut results, groups) = group(&api, &caller, tokens).await?;
    for of_one in groups {
        let Some(held) = messages_of(&api, &of_one).await? else {
            results.damaged(&of_one.at);
            continue;
        };
        let Group { entry, at, tokens } = of_one;
        let of_each = at.iter().zip(tokens).zip(held);
        let of_each = of_each.map(|((&index, token), message)| {
            let size = message.as_ref().map_or(0, bytes_left) + items[index].error.len();
            (failed(&items[index], &entry, token, message), size)
        });
        let (failed, sizes): (Vec<Failed>, Vec<usize>) = of_each.unzip();
        let mut begin = 0;
        for some in chunks_by_size(&sizes, ITEMS_MAX, ATTEMPTS_BYTES_MAX, |size| *size) {
            let end = begin + some.len();
            let (at, failed) = (&at[begin..end], &failed[begin..end]);
            begin = end;
            let name = &entry.destination.name;
            let call_sequence = api.workers.take(&api, name);
            let answer = api.store.fail(&call_sequence, &entry, failed).await;
            api.workers.put_back(name, call_sequence);
            let Some(statuses) = unless_damaged(answer)? else {
                results.damaged(at);
                continue;
            };
            api.due.note_failed(entry.partition, failed, &statuses);
            api.store.apply_policy_to_failed(&entry, failed, &statuses).await;
            count_results(name, "failed", &statuses);
            results.fill(at, &statuses);
            results.exhausted(at, entry.destination.on_exhausted);
        }
    }
    Ok(Json(results))
}

fn failed(
    item: &FailItem,
    entry: &CatalogEntry,
    token: LeaseToken,
    message: Option<Stamped>,
) -> Failed {
    if let Some(message) = &message {
        note_span(&token, message, "fail", Some(&excerpt(item.error.as_bytes())));
    }
    let ids = message.as_ref().map(|message| message.message.ids()).unwrap_or_default();
    let attempts = message.map(|message| message.attempts).unwrap_or_default();
    let backoff = entry.destination.transform.backoff();
    let wait = match item.retry_ms {
        Some(wait_ms) => Duration::from_millis(wait_ms),
        None => backoff.wait(attempts.failed.saturating_add(1), rand::random()),
    };
    tracing::warn!(
        destination = %token.destination, sequence = token.sequence, id = ids.id, trace = ids.trace,
        attempt = attempts.number(),
        error = excerpt(item.error.as_bytes()), is_final = item.is_final,
        wait_ms = wait.as_millis() as u64,
        "a worker failed a message",
    );
    let error = AttemptError::new(Stage::Transform, ErrorKind::Failed, &item.error);
    Failed { token, wait, is_final: item.is_final, error, ids }
}

/// `POST /v1/leases/extend`
#[utoipa::path(post, path = "/v1/leases/extend", tag = "workers", operation_id = "extend_leases",
    request_body = Items<ExtendItem>,
    responses((status = 200, description = "One result for each item", body = Results),
        openapi_responses::Works))]
pub(crate) async fn extend(
    State(api): State<Api>,
    Extension(caller): Extension<Principal>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<Results>, Problem> {
    let Items { items } = read_json::<Items<ExtendItem>>(body, api.batch_bytes_max)?;
    for (at, item) in items.iter().enumerate() {
        check_range(&format!("items[{at}].lease_ms"), item.lease_ms, LEASE_MS)?;
        let length = item.checkpoint.as_ref().map_or(0, |json| json.get().len());
        if length > CHECKPOINT_BYTES_MAX {
            let problem = format!("is {length} bytes of JSON, more than {CHECKPOINT_BYTES_MAX}");
            return Err(Problem::invalid_field(format!("items[{at}].checkpoint: {problem}")));
        }
        let given = item.checkpoint.as_ref().map(|json| json.get());
        // The next attempt gets the checkpoint in an answer that contains other messages too.
        if given.is_some_and(|json| embeddable(json, api.json_depth_max).is_none()) {
            let levels = api.json_depth_max.saturating_sub(AROUND);
            let detail = format!(
                "items[{at}].checkpoint: some parsers of JSON would refuse it: it nests deeper than {levels} levels \
                 (http.json_depth_max), or has a number beyond a double or half of a surrogate pair"
            );
            return Err(Problem::invalid_field(detail));
        }
    }
    let tokens = items.iter().map(|item| item.token.as_str()).collect();
    let (mut results, groups) = group(&api, &caller, tokens).await?;
    for Group { entry, at, tokens } in groups {
        // One call per lease duration; usually there is only one.
        let mut by_length: BTreeMap<u64, (Vec<usize>, Vec<LeaseExtension>)> = BTreeMap::new();
        for (index, token) in at.into_iter().zip(tokens) {
            let item = &items[index];
            let (at, extensions) = by_length.entry(item.lease_ms).or_default();
            at.push(index);
            let checkpoint = item.checkpoint.as_ref().map(|json| json.get().to_owned());
            extensions.push(LeaseExtension { token, checkpoint });
        }
        // With a checkpoint, a call reads and writes all that is stored about attempts, which may
        // be long even if this checkpoint is short.
        let size =
            |one: &LeaseExtension| one.checkpoint.as_ref().map_or(0, |_| CHECKPOINT_BYTES_MAX);
        for (lease_ms, (mut at, extensions)) in by_length {
            let lease = Duration::from_millis(lease_ms);
            for some in chunks_by_size(&extensions, ITEMS_MAX, ATTEMPTS_BYTES_MAX, size) {
                let answer = api.store.extend(&entry, some, lease).await;
                let Some((deadline_ms, statuses)) = unless_damaged(answer)? else {
                    results.damaged(&at[..some.len()]);
                    at.drain(..some.len());
                    continue;
                };
                for (&index, status) in at.iter().zip(&statuses) {
                    if *status == Status::Ok {
                        results.results[index].expires_at = Some(rfc3339(deadline_ms));
                    }
                }
                results.fill(&at, &statuses);
                at.drain(..some.len());
            }
        }
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
    Extension(caller): Extension<Principal>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<Results>, Problem> {
    let Items { items } = read_json::<Items<RequeueItem>>(body, api.batch_bytes_max)?;
    let tokens = items.iter().map(|item| item.token.as_str()).collect();
    let (mut results, groups) = group(&api, &caller, tokens).await?;
    for Group { entry, at, tokens } in groups {
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
