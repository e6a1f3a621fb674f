//! The HTTP API, except ingest: destinations, topics, workers, consumers, operations.

mod audit;
mod authorize;
mod bulk;
pub mod console;
mod consumers;
mod dead_letters;
mod define;
mod deliveries;
mod destinations;
mod docs;
mod doctor;
mod examples;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod health;
mod interventions;
mod lanes;
mod log;
mod messages;
mod openapi;
mod openapi_3_0;
mod operations;
mod parameters;
mod pods;
mod problems;
mod purge;
mod redrive;
mod reingest;
mod removed;
mod repair;
mod replay;
mod request;
mod results;
mod run_now;
mod selection;
mod shards;
mod sources;
mod stats;
mod tokens;
mod topics;
mod versions;
mod views;
mod why;
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
    http::{HeaderName, HeaderValue, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::post,
};
use metrics_exporter_prometheus::PrometheusHandle;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use access::Guard;
use domain::destination::REQUEST_ID;
use domain::nearest;
use formats::code::Code;
use http_server::{
    RATE_LIMIT, RATE_LIMIT_POLICY,
    min_rate::{MinRate, Paced},
    problem::Problem,
    routes,
    routes::Routes,
};
use outbound::outgoing::Outgoing;
use store::{Catalog, DueTimer, InFile, Store, Wakes};

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
    /// The policy of outgoing connections, to check the URLs of definitions.
    pub outgoing: Outgoing,
    /// The longest batch, in bytes.
    pub batch_bytes_max: usize,
    /// The longest body of one message, in bytes.
    pub body_bytes_max: usize,
    /// The most levels of nesting in the JSON of an answer.
    pub json_depth_max: usize,
    /// The deliveries that clients watch.
    pub tails: Tails,
    /// Ingest stops when Redis uses this percentage of its memory; 0: never stops.
    pub memory_high_percent: u8,
    /// The certificate files that the configuration names.
    pub certificates: Arc<Vec<tls::CertificateFile>>,
    /// Cancelled when the process begins to stop.
    pub stop: CancellationToken,
    /// Tasks that must end before the process does.
    pub tasks: TaskTracker,
    /// The state shared by the requests of workers.
    pub workers: Arc<workers::WorkerRequests>,
    /// Renders the metrics, if this process collects them.
    pub metrics: Option<PrometheusHandle>,
}

/// The longest path and query of a request, in bytes.
const URI_BYTES_MAX: usize = 8192;

pub use audit::{Recorder, record_of_file};
pub use deliveries::Tails;
pub use openapi::document;
pub use workers::{WaitingWorkers, WorkerRequests};

/// All routes except ingest.
pub fn router(api: Api) -> Router {
    let body_bytes_max = api.batch_bytes_max;
    let routes = routes(Router::new()).layer(DefaultBodyLimit::max(body_bytes_max));
    let routes = routes.with_state(api.clone());
    let spread = shards::Spread { api, routes: routes.clone() };
    routes.route_layer(middleware::from_fn_with_state(spread, shards::spread))
}

/// Adds all routes except the routes of ingest, in the order of the document.
fn routes<R: Routes<Api>>(all: R) -> R {
    use consumers::{acknowledge, consume};
    use workers::{complete, lease, lease_updates};

    let all = routes!(all,
        messages: list, cancel_by_key, show, cancel, show_by_id, find_by_id;
        results: result;
        run_now: run_message_now, run_now;
        destinations: list, show;
        define: define, patch;
        destinations: remove;
        sources: list, remove;
        removed: list, restore;
        versions: list, diff, rollback;
        stats: all_stats, stats;
        why: why;
        lanes: list;
        pods: list;
        doctor: doctor;
        tokens: list, make, show, revoke;
        audit: list;
        topics: list, show, define, remove;
        interventions: pause, resume, retry_head, skip_head;
        purge: purge;
        repair: repair;
        dead_letters: list, show, discard_one;
        redrive: redrive;
        dead_letters: discard;
        log: log;
        deliveries: tail;
        replay: replay;
        operations: list, show, cancel;
        lease: lease;
        complete: complete;
        lease_updates: fail, extend, requeue;
        consume: consume;
        acknowledge: accept, refuse, extend, requeue;
        health: healthz, readyz, metrics;
    );
    docs::routes(problems::routes(all))
}

/// Answers 404 to the ingest routes in a process without the role ingest, and says why. The path of a destination's
/// messages has other methods here, so without this the answer would be 405.
pub fn without_ingest() -> Router {
    let nothing = async || {
        let detail = "this process accepts no messages: it does not have the role ingest";
        Problem::new(Code::NotFound, detail)
    };
    Router::new()
        .route("/v1/messages", post(nothing))
        .route("/v1/destinations/{destination}/messages", post(nothing))
}

/// True for health checks and metrics, which are served even beyond the connection limit.
pub fn is_of_health(path: &str) -> bool {
    matches!(path, "/healthz" | "/readyz" | "/metrics")
}

/// Adds the layers around all routes: request ids, the guard, the audit log and the minimum speed of a body. Adds
/// problems for paths, methods and query parameters that the document does not list.
pub fn surround(routes: Router, pace: MinRate, (guard, recorder): (Guard, Recorder)) -> Router {
    routes
        .route_layer(middleware::from_fn(parameters::refuse_unknown))
        .route_layer(middleware::from_fn_with_state((guard, recorder), authorize::authorize))
        .fallback(async || Problem::new(Code::NotFound, "there is nothing at this path"))
        .method_not_allowed_fallback(async || {
            Problem::new(Code::MethodNotAllowed, "this path does not take this method")
        })
        .layer(middleware::from_fn_with_state(pace, at_pace))
        .layer(middleware::from_fn(with_request_id))
}

/// Refuses a request whose body arrives too slowly.
async fn at_pace(State(pace): State<MinRate>, request: Request, next: Next) -> Response {
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
    // The handler saw a broken body: replace its answer.
    Problem::body_timeout().into_response()
}

/// The id of a request, for its handlers.
#[derive(Clone)]
struct RequestId(HeaderValue);

/// Gives each request an id, or keeps the id that the client sent, and returns it in the answer.
async fn with_request_id(mut request: Request, next: Next) -> Response {
    let is_fit =
        |id: &&HeaderValue| id.len() <= 128 && id.to_str().is_ok_and(|text| !text.is_empty());
    let brought = request.headers().get(REQUEST_ID).filter(is_fit).cloned();
    let fresh = || HeaderValue::from_str(&uuid::Uuid::now_v7().to_string()).ok();
    let id = brought.or_else(fresh);
    if let Some(id) = &id {
        request.extensions_mut().insert(RequestId(id.clone()));
    }
    let length = request.uri().path_and_query().map_or(0, |both| both.as_str().len());
    let mut response = match length > URI_BYTES_MAX {
        true => uri_too_long(length).into_response(),
        false => next.run(request).await,
    };
    let text = id.as_ref().and_then(|id| id.to_str().ok());
    let problem = match response.extensions_mut().remove::<Problem>() {
        None if is_unread(&response) => Some(unread(&mut response).await),
        problem => problem,
    };
    if let Some(problem) = problem {
        let kept =
            [RATE_LIMIT_POLICY, RATE_LIMIT].map(|name| (name, response.headers_mut().remove(name)));
        response = problem.response(text);
        for (name, value) in kept {
            response
                .headers_mut()
                .extend(value.map(|value| (HeaderName::from_static(name), value)));
        }
    }
    let headers = response.headers_mut();
    if let Some(id) = id {
        headers.insert(REQUEST_ID, id);
    }
    // A browser must not guess another type of an answer. It also must not store answers that need a token.
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

fn uri_too_long(length: usize) -> Problem {
    let detail =
        format!("the path and query have {length} bytes; at most {URI_BYTES_MAX} are allowed");
    Problem::new(Code::UriTooLong, detail)
}

/// True if no handler made this answer. A refused batch has an answer of its handler.
fn is_unread(response: &Response) -> bool {
    let media_type = response.headers().get(header::CONTENT_TYPE);
    let is_batch = media_type.is_some_and(|media_type| media_type == "application/x-ndjson");
    response.status().is_client_error() && !is_batch
}

/// The problem for a request that reached no handler, for example because its path is not UTF-8.
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
    let value = serde_path_to_error::deserialize(&mut deserializer).map_err(|error| match error
        .inner()
        .is_data()
    {
        true => Problem::invalid_field(at_path(&error)),
        false => Problem::new(Code::InvalidJson, at_path(&error)),
    })?;
    deserializer.end().map_err(|error| Problem::new(Code::InvalidJson, error.to_string()))?;
    Ok(value)
}

/// Parses a definition. The body may omit the name, because the path gives it.
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

/// The text of an error, with the path of the field.
fn at_path<E: std::fmt::Display>(error: &serde_path_to_error::Error<E>) -> String {
    let text = nearest::for_people(&error.inner().to_string());
    match error.path().to_string().as_str() {
        "." => text,
        path => format!("{path}: {text}"),
    }
}

/// The problem of an operation during which this process stops.
fn draining() -> Problem {
    let detail = "this pod is stopping; send the same again to another pod for the rest";
    Problem::new(Code::Draining, detail)
}
