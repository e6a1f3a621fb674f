//! Health checks and metrics.

use axum::{
    Extension,
    extract::State,
    http::header,
    response::{IntoResponse, Response},
};

use super::{Api, doctor};
use formats::code::Code;
use http_server::{openapi_responses, principal::Principal, problem::Problem};
use store::{Damaged, Store, StoreError};

/// The process is alive.
#[utoipa::path(get, path = "/healthz", tag = "health", operation_id = "healthz",
    responses((status = 200, description = "The process is alive", body = String,
        content_type = "text/plain")))]
pub(super) async fn healthz() -> &'static str {
    "ok\n"
}

/// The process is ready: Redis answers and accepts writes, this version knows its schema, and the process is not
/// stopping.
#[utoipa::path(get, path = "/readyz", tag = "health", operation_id = "readyz",
    responses(
        (status = 200, description = "`ready`, and a line for each warning", body = String,
            content_type = "text/plain"),
        (status = 503, description = "The code of the reason, and a sentence: `redis_refuses_writes: …`",
            body = String, content_type = "text/plain")))]
pub(super) async fn readyz(State(api): State<Api>) -> Response {
    match readiness(&api).await {
        Ok(text) => text.into_response(),
        // Also a text: people read it where their orchestrator shows failed probes.
        Err(Problem { status, code, detail, .. }) => {
            (status, format!("{}: {detail}\n", code.as_str())).into_response()
        }
    }
}

async fn readiness(api: &Api) -> Result<String, Problem> {
    if api.stop.is_cancelled() {
        return Err(Problem::new(Code::Draining, "this pod is stopping"));
    }
    match api.store.check_ready().await {
        Ok(()) => {
            // Checks first, so that repaired damage is not reported.
            api.store.look_at_damage().await;
            Ok(ready(&api.store))
        }
        Err(
            error @ (StoreError::NewerSchema(_)
            | StoreError::NoRights(_)
            | StoreError::RefusesWrites(_)),
        ) => Err(error.into()),
        Err(error) => {
            tracing::debug!(%error, "not ready");
            let detail = "Redis does not answer";
            Err(Problem::new(Code::RedisUnavailable, detail))
        }
    }
}

/// The text for a ready process: its warnings, and the damage it knows.
fn ready(store: &Store) -> String {
    let mut text = "ready\n".to_owned();
    let missing = store.missing_rights();
    if let Some(sentence) = missing.hints_sentence() {
        text += &format!("warning: {sentence}\n");
    }
    if let Some(sentence) = missing.refusal {
        text += &format!("warning: a Redis server refuses writes: {sentence}\n");
    }
    for Damaged { location, call, problem } in store.damaged() {
        text += &format!("damaged: {location}: {call}: {problem}\n");
    }
    text
}

/// The metrics of this process in Prometheus's format.
#[utoipa::path(get, path = "/metrics", tag = "health", operation_id = "metrics",
    responses((status = 200, description = "The text format of Prometheus", body = String,
        content_type = "text/plain"), openapi_responses::Metrics))]
pub(super) async fn metrics(
    State(api): State<Api>,
    Extension(caller): Extension<Principal>,
) -> Result<Response, Problem> {
    caller.check_unlimited()?;
    let Some(metrics) = &api.metrics else {
        let detail = "this process collects its metrics elsewhere";
        return Err(Problem::new(Code::NotFound, detail));
    };
    telemetry::tasks(tokio::runtime::Handle::current().metrics().num_alive_tasks());
    let media_type = [(header::CONTENT_TYPE, "text/plain; version=0.0.4")];
    let others = telemetry::render_others(&doctor::expiry::ends(&api));
    Ok((media_type, metrics.render() + &others).into_response())
}
