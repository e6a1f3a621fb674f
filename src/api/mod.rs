//! The HTTP API except ingest: destinations, topics, workers, operations.

mod dead_letters;
mod destinations;
mod interventions;
mod log;
mod messages;
mod operations;
mod purge;
mod redrive;
mod reingest;
mod repair;
mod replay;
mod request;
mod selection;
mod topics;
mod views;
mod withdraw;
mod workers;

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use axum::{
    Router,
    body::{Body, Bytes, HttpBody},
    extract::{DefaultBodyLimit, Request, State, rejection::BytesRejection},
    http::HeaderValue,
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{delete, get, post},
};
use metrics_exporter_prometheus::PrometheusHandle;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    store::{Catalog, DueTimer, InFile, Store, StoreError, Wakes},
    telemetry,
    wire::{
        REQUEST_ID,
        code::Code,
        pace::{Pace, Paced},
        problem::Problem,
    },
};

/// State that the handlers share. Cheap to clone.
#[derive(Clone)]
pub struct Api {
    /// Redis.
    pub store: Store,
    /// The destinations.
    pub catalog: Catalog,
    /// Wake-ups for long polls.
    pub wakes: Wakes,
    /// Schedules retries of failed messages.
    pub due: DueTimer,
    /// Destinations and topics that belong to the configuration file.
    pub in_file: InFile,
    /// The longest batch, in bytes.
    pub batch_bytes_max: usize,
    /// The longest body of one message, in bytes.
    pub body_bytes_max: usize,
    /// The most levels of nesting in the JSON of an answer.
    pub json_depth_max: usize,
    /// Ingest stops when Redis uses this percentage of its memory; 0: never.
    pub memory_high_percent: u8,
    /// Cancelled when the process begins to stop.
    pub stop: CancellationToken,
    /// Tasks that must end before the process does.
    pub tasks: TaskTracker,
    /// The call sequences for calls of workers.
    pub callers: Arc<workers::CallSequences>,
    /// Renders the metrics, if this process collects them.
    pub metrics: Option<PrometheusHandle>,
}

pub use workers::CallSequences;

/// All routes except ingest.
pub fn router(api: Api) -> Router {
    let leases = Router::new()
        .route("/v1/leases", post(workers::lease))
        .route("/v1/leases/complete", post(workers::complete))
        .route("/v1/leases/fail", post(workers::fail))
        .route("/v1/leases/extend", post(workers::extend))
        .route("/v1/leases/requeue", post(workers::requeue))
        .layer(DefaultBodyLimit::max(api.batch_bytes_max));
    Router::new()
        .merge(leases)
        .merge(intervention_routes(api.batch_bytes_max))
        .route("/v1/stats", get(destinations::all_stats))
        .route("/v1/destinations", get(destinations::list))
        .route(
            "/v1/destinations/{destination}",
            get(destinations::show).put(destinations::define).delete(destinations::remove),
        )
        .route("/v1/destinations/{destination}/stats", get(destinations::stats))
        .route("/v1/topics", get(topics::list))
        .route("/v1/topics/{topic}", get(topics::show).put(topics::define).delete(topics::remove))
        .route("/healthz", get(operations::healthz))
        .route("/readyz", get(operations::readyz))
        .route("/metrics", get(operations::metrics))
        .with_state(api)
}

/// The routes for interventions. (`POST …/messages` is a route of ingest.)
fn intervention_routes(body_bytes_max: usize) -> Router<Api> {
    const HEAD: &str = "/v1/destinations/{destination}";
    let at = |path: &str| format!("{HEAD}/{path}");
    Router::new()
        .route(&at("pause"), post(interventions::pause))
        .route(&at("resume"), post(interventions::resume))
        .route(&at("retry-head"), post(interventions::retry_head))
        .route(&at("skip-head"), post(interventions::skip_head))
        .route(&at("messages"), get(messages::list).delete(messages::cancel_by_key))
        .route(&at("messages/{sequence}"), get(messages::show).delete(messages::cancel))
        .route(&at("purge"), post(purge::purge))
        .route(&at("repair"), post(repair::repair))
        .route(&at("dead-letters"), get(dead_letters::list))
        .route(&at("dead-letters/redrive"), post(redrive::redrive))
        .route(&at("dead-letters/discard"), post(dead_letters::discard))
        .route(
            &at("dead-letters/{sequence}"),
            get(dead_letters::show).merge(delete(dead_letters::discard_one)),
        )
        .route(&at("log"), get(log::log))
        .route(&at("replay"), post(replay::replay))
        .layer(DefaultBodyLimit::max(body_bytes_max))
}

/// Answers 404 to the ingest route in a process without the role ingest. Its path has other methods
/// here, so the answer would otherwise be 405.
pub fn without_ingest() -> Router {
    let nothing = async || {
        let detail = "this process accepts no messages: it does not have the role ingest";
        Problem::new(Code::NotFound, detail)
    };
    Router::new().route("/v1/destinations/{destination}/messages", post(nothing))
}

/// True for health checks and metrics, which are served even beyond the connection limit.
pub fn is_of_health(path: &str) -> bool {
    matches!(path, "/healthz" | "/readyz" | "/metrics")
}

/// Adds the layers around all routes: request ids, the minimum speed of a body, and problems for
/// paths and methods without a route.
pub fn surround(routes: Router, pace: Pace) -> Router {
    routes
        .fallback(async || Problem::new(Code::NotFound, "there is nothing at this path"))
        .method_not_allowed_fallback(async || {
            Problem::new(Code::MethodNotAllowed, "this path does not take this method")
        })
        .layer(middleware::from_fn_with_state(pace, at_pace))
        .layer(middleware::from_fn(with_request_id))
}

/// Refuses a request whose body arrives too slowly.
async fn at_pace(State(pace): State<Pace>, request: Request, next: Next) -> Response {
    if request.body().is_end_stream() {
        return next.run(request).await;
    }
    let is_late = Arc::new(AtomicBool::new(false));
    let paced = |body| Body::new(Paced::new(body, pace, is_late.clone()));
    let response = next.run(request.map(paced)).await;
    if !is_late.load(Ordering::Relaxed) {
        return response;
    }
    telemetry::connection_closed("slow_body");
    // The handler saw a broken body; replace its answer.
    Problem::body_timeout().into_response()
}

/// Gives each request an id, or keeps the client's, and returns it in the answer.
async fn with_request_id(request: Request, next: Next) -> Response {
    let is_fit =
        |id: &&HeaderValue| id.len() <= 128 && id.to_str().is_ok_and(|text| !text.is_empty());
    let brought = request.headers().get(REQUEST_ID).filter(is_fit).cloned();
    let fresh = || HeaderValue::from_str(&uuid::Uuid::now_v7().to_string()).ok();
    let id = brought.or_else(fresh);
    let mut response = next.run(request).await;
    let text = id.as_ref().and_then(|id| id.to_str().ok());
    let problem = match response.extensions_mut().remove::<Problem>() {
        None if response.status().is_client_error() => Some(unread(&mut response).await),
        problem => problem,
    };
    if let Some(problem) = problem {
        response = problem.response(text);
    }
    if let Some(id) = id {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    response
}

/// The problem for a request that did not reach a handler, such as a path that is not UTF-8.
async fn unread(response: &mut Response) -> Problem {
    let body = axum::body::to_bytes(std::mem::take(response.body_mut()), 1024).await;
    let detail = body.map(|body| String::from_utf8_lossy(&body).into_owned()).unwrap_or_default();
    Problem { status: response.status(), ..Problem::new(Code::InvalidRequest, detail) }
}

/// Parses a body as JSON. An error names the path of the field.
fn read_json<T: DeserializeOwned>(
    body: Result<Bytes, BytesRejection>,
    max: usize,
) -> Result<T, Problem> {
    let body = body.map_err(|rejection| Problem::of_body(&rejection, max))?;
    let mut deserializer = serde_json::Deserializer::from_slice(&body);
    let value = serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let code = if error.inner().is_data() { Code::InvalidField } else { Code::InvalidJson };
        Problem::new(code, at_path(&error))
    })?;
    deserializer.end().map_err(|error| Problem::new(Code::InvalidJson, error.to_string()))?;
    Ok(value)
}

/// Parses a definition. The name in the path may be omitted from the body.
fn read_named<T: DeserializeOwned>(
    name: &str,
    body: Result<Bytes, BytesRejection>,
    max: usize,
) -> Result<T, Problem> {
    let mut object: Map<String, Value> = read_json(body, max)?;
    let named = object.insert("name".into(), json!(name));
    if named.is_some_and(|named| named != json!(name)) {
        return Err(Problem::invalid_field("name: differs from the name in the path"));
    }
    serde_path_to_error::deserialize(Value::Object(object))
        .map_err(|error| Problem::invalid_field(at_path(&error)))
}

/// The error, with the path of the field.
fn at_path<E: std::fmt::Display>(error: &serde_path_to_error::Error<E>) -> String {
    match error.path().to_string().as_str() {
        "." => error.inner().to_string(),
        path => format!("{path}: {}", error.inner()),
    }
}

/// The problem when this process stops during an operation.
fn draining() -> Problem {
    let detail = "this pod is stopping; send the same again to another pod for the rest";
    Problem::new(Code::Draining, detail)
}

/// Adds to a problem how much was done before it.
fn after_partial_success(mut problem: Problem, done: &[(&str, u64)]) -> Problem {
    if problem.code == Code::RedisUnavailable {
        let detail = "Redis is not available; the counts show what has been done, send the same \
                      again later for the rest";
        problem.detail = detail.into();
    }
    let done = done.iter().map(|(name, count)| ((*name).to_owned(), (*count).into()));
    problem.more.extend(done);
    problem
}

/// The problem when Redis has little or no memory left.
fn memory_high() -> Problem {
    let detail = "Redis has little memory left (ingest.memory_high_percent); Reseq accepts nothing \
                  more until some of it is free";
    Problem::new(Code::MemoryHigh, detail)
}

/// Maps an error of the store to HTTP.
impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Problem {
        match error {
            StoreError::UnknownDestination => {
                Problem::new(Code::UnknownDestination, error.to_string())
            }
            StoreError::WrongState(_) | StoreError::WrongHead => {
                Problem::new(Code::WrongState, error.to_string())
            }
            StoreError::CannotConfirm(_) => Problem::invalid_field(format!("durability: {error}")),
            StoreError::OutOfMemory => memory_high(),
            StoreError::Unconfirmed(_) => Problem::new(
                Code::NotConfirmed,
                "Redis did not confirm the call: it may have been carried out",
            ),
            StoreError::NewerSchema(_) => Problem::new(Code::NewerSchema, error.to_string()),
            StoreError::NoRights(_) => {
                let detail = format!("{error}; nothing has changed");
                Problem::new(Code::NoRights, detail)
            }
            StoreError::Failed(_) => {
                let detail = "the data in Redis is damaged: see /readyz, and the log. Part of \
                              the call may have been carried out";
                Problem::new(Code::Damaged, detail)
            }
            StoreError::Unreadable(_) => {
                tracing::error!(%error, "data in Redis cannot be read");
                let detail = "this version cannot read the data in Redis; see its log";
                Problem::new(Code::Unreadable, detail)
            }
            _ => Problem::new(
                Code::RedisUnavailable,
                "Redis is not available; nothing has changed, try again later",
            ),
        }
    }
}
