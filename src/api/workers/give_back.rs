//! `POST /v1/leases/{fail,extend,release}`: the other things that may happen to a lease.

use std::{collections::BTreeMap, time::Duration};

use axum::{
    Json,
    body::Bytes,
    extract::{State, rejection::BytesRejection},
};
use serde::Deserialize;

use super::{
    Items, LEASE_MS, RETRY_MS_MAX, Results, check_range, existing, group, half_a_minute, rfc3339,
};
use crate::{
    api::{Api, problem_of, read_json},
    domain::{Stage, Trouble, TroubleKind},
    store::{Extension, Failed, Known, Status},
    wire::{answer::excerpt, problem::Problem},
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FailItem {
    token: String,
    #[serde(default)]
    error: String,
    #[serde(default, rename = "final")]
    is_final: bool,
    retry_ms: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExtendItem {
    token: String,
    #[serde(default = "half_a_minute")]
    lease_ms: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReleaseItem {
    token: String,
}

/// `POST /v1/leases/fail`
pub(in crate::api) async fn fail(
    State(api): State<Api>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<Results>, Problem> {
    let Items { items } = read_json::<Items<FailItem>>(body, api.batch_bytes_max)?;
    for (at, item) in items.iter().enumerate() {
        let what = format!("items[{at}].retry_ms");
        check_range(&what, item.retry_ms.unwrap_or_default(), 0..=RETRY_MS_MAX)?;
    }
    let groups = group(items.iter().map(|item| item.token.as_str()))?;
    let mut results = Results::stale(items.iter().map(|item| item.token.clone()));
    for (name, of_name) in groups {
        let Some(known) = existing(&api, &name).await? else { continue };
        let sequences: Vec<u64> = of_name.iter().map(|(_, token)| token.sequence).collect();
        let held = api.store.messages(&known, &sequences).await.map_err(|e| problem_of(&e))?;
        let (mut at, mut failed) = (Vec::new(), Vec::new());
        for ((index, token), message) in of_name.into_iter().zip(held) {
            let item = &items[index];
            let attempt = message.map_or(1, |message| message.attempts.failed + 1);
            let wait = wait_of(item, &known, attempt);
            let error = excerpt(item.error.as_bytes());
            tracing::warn!(
                destination = %name, sequence = token.sequence, attempt, error,
                wait_ms = wait.as_millis() as u64,
                "a worker failed a message, and it is tried again",
            );
            at.push(index);
            let trouble = Trouble::new(Stage::Transform, TroubleKind::Failed, &item.error);
            failed.push(Failed { token, wait, is_final: item.is_final, trouble });
        }
        let caller = api.callers.take(&api, &name);
        let answer = api.store.fail(&caller, &known, &failed).await;
        api.callers.put_back(&name, caller);
        failed.iter().for_each(|one| api.due.note(known.partition, one.wait));
        results.fill(&at, answer.map_err(|error| problem_of(&error))?);
    }
    Ok(Json(results))
}

fn wait_of(item: &FailItem, known: &Known, attempt: u32) -> Duration {
    let backoff = known.destination.transform.backoff();
    match item.retry_ms {
        Some(wait_ms) => Duration::from_millis(wait_ms),
        None if item.is_final => Duration::from_millis(backoff.max_ms),
        None => backoff.wait(attempt, rand::random()),
    }
}

/// `POST /v1/leases/extend`
pub(in crate::api) async fn extend(
    State(api): State<Api>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<Results>, Problem> {
    let Items { items } = read_json::<Items<ExtendItem>>(body, api.batch_bytes_max)?;
    for (at, item) in items.iter().enumerate() {
        check_range(&format!("items[{at}].lease_ms"), item.lease_ms, LEASE_MS)?;
    }
    let groups = group(items.iter().map(|item| item.token.as_str()))?;
    let mut results = Results::stale(items.iter().map(|item| item.token.clone()));
    for (name, of_name) in groups {
        let Some(known) = existing(&api, &name).await? else { continue };
        // One call for each length of lease, of which there is usually one.
        let mut by_length: BTreeMap<u64, (Vec<usize>, Vec<Extension>)> = BTreeMap::new();
        for (index, token) in of_name {
            let (at, tokens) = by_length.entry(items[index].lease_ms).or_default();
            at.push(index);
            tokens.push(Extension { token, checkpoint: None });
        }
        for (lease_ms, (at, tokens)) in by_length {
            let lease = Duration::from_millis(lease_ms);
            let answer = api.store.extend(&known, &tokens, lease).await;
            let (deadline_ms, statuses) = answer.map_err(|error| problem_of(&error))?;
            for (&index, status) in at.iter().zip(&statuses) {
                if *status == Status::Ok {
                    results.results[index].deadline = Some(rfc3339(deadline_ms));
                }
            }
            results.fill(&at, statuses);
        }
    }
    Ok(Json(results))
}

/// `POST /v1/leases/release`
pub(in crate::api) async fn release(
    State(api): State<Api>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<Results>, Problem> {
    let Items { items } = read_json::<Items<ReleaseItem>>(body, api.batch_bytes_max)?;
    let groups = group(items.iter().map(|item| item.token.as_str()))?;
    let mut results = Results::stale(items.iter().map(|item| item.token.clone()));
    for (name, of_name) in groups {
        let Some(known) = existing(&api, &name).await? else { continue };
        let (at, tokens): (Vec<_>, Vec<_>) = of_name.into_iter().unzip();
        let caller = api.callers.take(&api, &name);
        let answer = api.store.unclaim(&caller, &known, &tokens).await;
        api.callers.put_back(&name, caller);
        results.fill(&at, answer.map_err(|error| problem_of(&error))?);
    }
    Ok(Json(results))
}
