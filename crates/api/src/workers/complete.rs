//! `POST /v1/leases/complete`: workers return the outputs of their messages.

use axum::{Json, body::Bytes, extract::State};
use base64::{Engine, engine::general_purpose::STANDARD};
use serde::Deserialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::{
    Batch, CALL_BYTES_MAX, ITEMS_MAX, Item, Items, Results, bytes_left, count_results, messages_of,
    note_span, unless_damaged,
};
use crate::Api;
use domain::{Body, LeaseToken, Processed, Stamped, message::check_text};
use formats::json::even_null;
use http_server::{openapi_responses, problem::Problem};
use store::{CatalogEntry, Completion, Status, StoreError, chunks_by_size, server_clock_ms};

/// The longest content type, in bytes.
const CONTENT_TYPE_BYTES_MAX: usize = 256;

/// The output of one message. Give `body`, `body_base64` or `drop`.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CompleteItem {
    token: String,
    /// The output, as JSON.
    #[serde(default, deserialize_with = "even_null")]
    #[schema(value_type = Option<serde_json::Value>)]
    body: Option<Box<RawValue>>,
    /// The output, in base64.
    body_base64: Option<String>,
    /// The content type of `body_base64`.
    content_type: Option<String>,
    /// True: Reseq does not deliver the message.
    #[serde(default)]
    drop: bool,
    /// The output, read from the other fields.
    #[serde(skip)]
    output: Option<Body>,
}

impl Item for CompleteItem {
    fn token(&self) -> &str {
        &self.token
    }

    fn check(&mut self, at: usize, api: &Api) -> Result<(), Problem> {
        self.output = output_of(self, at, api.body_bytes_max)?;
        Ok(())
    }
}

/// `POST /v1/leases/complete`
#[utoipa::path(post, path = "/v1/leases/complete", tag = "workers", operation_id = "complete_leases",
    request_body = Items<CompleteItem>,
    responses((status = 200, description = "One result for each item", body = Results),
        openapi_responses::Works))]
pub(crate) async fn complete(
    State(api): State<Api>,
    Batch { items, mut results, groups }: Batch<CompleteItem>,
) -> Result<Json<Results>, Problem> {
    for of_one in groups {
        // Reads the rest of the record. Only the holder of the lease can change it.
        let Some(held) = messages_of(&api, &of_one).await? else {
            results.damaged(&of_one.at);
            continue;
        };
        let entry = of_one.entry;
        let (mut at, mut completions) = (Vec::new(), Vec::new());
        for ((index, token), message) in of_one.at.into_iter().zip(of_one.tokens).zip(held) {
            let Some(message) = message else {
                results.set(index, Status::Settled);
                continue;
            };
            at.push(index);
            completions.push(completion(&entry, token, message, items[index].output.clone()));
        }
        let size = |one: &Completion| {
            let input = one.output.input.as_ref().map_or(0, |input| input.bytes.len());
            bytes_left(&one.output) + one.output.message.body.bytes.len() + input
        };
        for some in chunks_by_size(&completions, ITEMS_MAX, CALL_BYTES_MAX, size) {
            match unless_damaged(api.store.complete(&entry, some).await)? {
                // The completed messages are reported as settled when the worker sends all items again.
                Some(statuses) if statuses.contains(&Status::Full) => {
                    return Err(StoreError::OutOfMemory.into());
                }
                Some(statuses) => {
                    telemetry::completing(some.len());
                    count_results(&entry.destination.name, "completed", &statuses);
                    results.fill(&at, &statuses);
                }
                None => results.damaged(&at[..some.len()]),
            }
            at.drain(..some.len());
        }
    }
    Ok(Json(results))
}

fn completion(
    entry: &CatalogEntry,
    token: LeaseToken,
    message: Stamped,
    output: Option<Body>,
) -> Completion {
    let outcome = if output.is_some() { "deliver" } else { "drop" };
    note_span(&token, &message, outcome, None);
    let processed = Processed {
        waited_ms: token.claimed_ms.saturating_sub(message.message.received_ms),
        took_ms: server_clock_ms().saturating_sub(token.claimed_ms),
        attempts: message.attempts.number(),
    };
    let output = message.finished(output, processed, entry.destination.log_bodies);
    Completion { token, output, is_unchanged: false }
}

/// The output of a worker; `None` if the worker drops the message.
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
    check_text("content_type", &body.content_type, CONTENT_TYPE_BYTES_MAX)
        .map_err(|problem| invalid(&problem))?;
    if body.bytes.len() > bytes_max {
        return Err(invalid(&format!("the body is longer than {bytes_max} bytes")));
    }
    Ok(Some(body))
}
