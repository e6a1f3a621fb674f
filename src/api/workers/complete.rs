//! `POST /v1/leases/complete`: what workers made of their messages.

use axum::{
    Json,
    body::Bytes,
    extract::{State, rejection::BytesRejection},
};
use base64::{Engine, engine::general_purpose::STANDARD};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Items, Results, existing, group};
use crate::{
    api::{Api, problem_of, read_json},
    domain::{Body, Tombstone},
    store::{Completion, Status},
    wire::problem::Problem,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CompleteItem {
    token: String,
    body: Option<Box<RawValue>>,
    body_base64: Option<String>,
    content_type: Option<String>,
    #[serde(default)]
    drop: bool,
}

/// `POST /v1/leases/complete`
pub(in crate::api) async fn complete(
    State(api): State<Api>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<Results>, Problem> {
    let Items { items } = read_json::<Items<CompleteItem>>(body, api.batch_bytes_max)?;
    let outputs: Vec<Option<Body>> = items
        .iter()
        .enumerate()
        .map(|(at, item)| output_of(item, at, api.body_bytes_max))
        .collect::<Result<_, _>>()?;
    let groups = group(items.iter().map(|item| item.token.as_str()))?;
    let mut results = Results::stale(items.iter().map(|item| item.token.clone()));
    for (name, of_name) in groups {
        let Some(known) = existing(&api, &name).await? else { continue };
        // The message's own part of the record: only the holder of the lease can change it.
        let sequences: Vec<u64> = of_name.iter().map(|(_, token)| token.sequence).collect();
        let held = api.store.messages(&known, &sequences).await.map_err(|e| problem_of(&e))?;
        let (mut at, mut completions) = (Vec::new(), Vec::new());
        for ((index, token), message) in of_name.into_iter().zip(held) {
            let Some(mut output) = message else {
                results.set(index, Status::Settled);
                continue;
            };
            match &outputs[index] {
                Some(body) => output.message.body = body.clone(),
                None => output.tombstone = Some(Tombstone::Dropped),
            }
            at.push(index);
            completions.push(Completion { token, output });
        }
        if completions.is_empty() {
            continue;
        }
        let caller = api.callers.take(&api, &name);
        let answer = api.store.complete(&caller, &known, &completions).await;
        api.callers.put_back(&name, caller);
        results.fill(&at, answer.map_err(|error| problem_of(&error))?);
    }
    Ok(Json(results))
}

/// What a worker made of a message; none if it dropped it.
fn output_of(item: &CompleteItem, at: usize, bytes_max: usize) -> Result<Option<Body>, Problem> {
    let invalid = |what: &str| Problem::invalid_field(format!("items[{at}]: {what}"));
    let body = match (&item.body, &item.body_base64, item.drop) {
        (None, None, true) => return Ok(None),
        (Some(json), None, false) if item.content_type.is_none() => Body {
            content_type: "application/json".into(),
            bytes: Bytes::copy_from_slice(json.get().as_bytes()),
        },
        (None, Some(text), false) => Body {
            content_type: item.content_type.as_deref().unwrap_or("application/octet-stream").into(),
            bytes: STANDARD.decode(text).map_err(|_| invalid("body_base64 is not base64"))?.into(),
        },
        _ => return Err(invalid("give body, or body_base64 with content_type, or \"drop\": true")),
    };
    if body.bytes.len() > bytes_max {
        return Err(invalid(&format!("the body is longer than {bytes_max} bytes")));
    }
    Ok(Some(body))
}
