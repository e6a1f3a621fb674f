//! Requests to a destination with several shards. A layer makes the request to each shard, as if it were a destination
//! of its own, and merges the answers. So no handler has to know of shards.

mod merge;

use std::{ops::Range, sync::Arc};

use axum::{
    Json, Router,
    body::{Body, Bytes},
    extract::{MatchedPath, RawPathParams, Request, State},
    http::{Method, StatusCode, Uri, header, request::Parts},
    middleware::Next,
    response::{IntoResponse, Response},
};
use futures::future::join_all;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::{Api, RequestId, audit, bulk};
use domain::{DestinationName, Ordering};
use formats::code::Code;
use http_server::{client_connection::ClientConnection, principal::Principal, problem::Problem};
use merge::{merged, oldest};
use store::CatalogEntry;

/// The most bytes of one shard's answer.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// How a route treats the shards of its destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    /// The first shard alone, which has the definition; or the route reads the shards itself.
    First,
    /// A list: the pages of one shard after the other.
    Pages,
    /// All shards together. Shards that do not know the operation do not count.
    All,
    /// One message, in whichever shard it is.
    Message,
    /// The lane that has waited longest.
    Oldest,
    /// One lane or consumer of one shard.
    One,
}

impl How {
    fn of(method: &Method, path: &str) -> How {
        let Some(path) = path.strip_prefix("/v1/destinations/{destination}") else {
            return How::First;
        };
        let is_get = method == Method::GET || method == Method::HEAD;
        match path {
            "/messages" | "/dead-letters" | "/log" | "/lanes" | "/operations" if is_get => {
                How::Pages
            }
            "/why" => How::Oldest,
            "/messages" | "/messages/by-id/{id}" => How::Message,
            "/operations/{id}"
            | "/operations/{id}/cancel"
            | "/run-now"
            | "/purge"
            | "/repair"
            | "/retry-head" => How::All,
            "/dead-letters/redrive" | "/dead-letters/discard" | "/replay" => How::All,
            "/skip-head" | "/consume" => How::One,
            // With a sequence, the name of a destination is that of its first shard, as in answers and deliveries.
            _ => How::First,
        }
    }
}

/// The path of a request names one shard of its destination.
#[derive(Clone, Copy)]
pub(super) struct OneShard;

/// Makes requests to shards: the routes without this layer.
#[derive(Clone)]
pub(super) struct Spread {
    pub(super) api: Api,
    pub(super) routes: Router,
}

/// A request to a destination with several shards.
struct Spreading {
    spread: Spread,
    /// The first shard.
    first: Arc<CatalogEntry>,
    parts: Parts,
    body: Bytes,
}

/// Passes a request on, or makes it to the shards of its destination.
pub(super) async fn spread(
    State(spread): State<Spread>,
    path: MatchedPath,
    parameters: RawPathParams,
    mut request: Request,
    next: Next,
) -> Response {
    let named = parameters.iter().find(|(name, _)| *name == "destination").map(|(_, text)| text);
    let how = How::of(request.method(), path.as_str());
    let Some((text, name)) = named.and_then(|text| Some((text, text.parse().ok()?))) else {
        return next.run(request).await;
    };
    let name: DestinationName = name;
    if text.contains('~') {
        if changes_definition(request.method(), path.as_str()) {
            let base = name.base();
            let detail = format!("{text} is a shard of {base}: make the same request to {base}");
            return Problem::new(Code::WrongState, detail).into_response();
        }
        request.extensions_mut().insert(OneShard);
        return next.run(request).await;
    }
    let found = spread.api.catalog.find(&name).await;
    let Ok(Some(first)) = found else { return next.run(request).await };
    if first.destination.shards == 1 || how == How::First {
        return next.run(request).await;
    }
    let (parts, body) = request.into_parts();
    let max = spread.api.batch_bytes_max;
    let Ok(body) = axum::body::to_bytes(body, max).await else {
        return Problem::body_too_large(max).into_response();
    };
    let spreading = Spreading { spread, first, parts, body };
    spreading.answer(how).await.unwrap_or_else(IntoResponse::into_response)
}

/// True if a request changes the definition of a destination, or pauses it.
fn changes_definition(method: &Method, path: &str) -> bool {
    let path = path.strip_prefix("/v1/destinations/{destination}");
    let is_read = method == Method::GET || method == Method::HEAD;
    !is_read && matches!(path, Some("" | "/pause" | "/resume" | "/restore" | "/rollback"))
}

/// The answer of a shard.
struct Answer {
    shard: DestinationName,
    status: StatusCode,
    json: Value,
}

impl Spreading {
    async fn answer(self, how: How) -> Result<Response, Problem> {
        let shards = self.first.destination.shards;
        let of_key = self.key().map(|key| self.first.destination.shard_of_key(&key));
        if how == How::Pages {
            return match of_key {
                Some(shard) => self.page(shard.shard()..shard.shard() + 1).await,
                None if self.names_sequences() => Err(self.which_shard()),
                None => self.page(0..shards).await,
            };
        }
        if let Some(shard) = of_key {
            return self.of_shard(&shard).await;
        }
        let is_one_head = self.parts.uri.path().ends_with("/retry-head") && !self.wants_all();
        if how == How::One || is_one_head || self.names_sequences() {
            return Err(self.which_shard());
        }
        match how {
            How::Oldest => Ok(Json(oldest(self.all(None).await?)).into_response()),
            How::Message => self.message().await,
            How::All | How::One | How::First | How::Pages => {
                let id = bulk::new_id();
                let answers = self.all(Some(id.clone())).await?;
                let status = answers.iter().map(|answer| answer.status).max().unwrap_or_default();
                let merged = merged(self.first.destination.name.as_str(), answers);
                if merged["id"] == id {
                    self.note_operation(&merged).await;
                }
                let location = (status == StatusCode::ACCEPTED).then(|| {
                    let id = merged.get("id").and_then(Value::as_str).unwrap_or_default();
                    let name = &self.first.destination.name;
                    [(header::LOCATION, format!("/v1/destinations/{name}/operations/{id}"))]
                });
                Ok((status, location, Json(merged)).into_response())
            }
        }
    }

    /// The ordering key that the request names: its lane is in one shard. Without ordering, an idempotency key names
    /// the shard.
    fn key(&self) -> Option<String> {
        match self.first.destination.ordering {
            Ordering::None => self.parameter("idempotency_key"),
            Ordering::Key | Ordering::Destination => {
                let object: Value = serde_json::from_slice(&self.body).unwrap_or_default();
                self.parameter("key").or_else(|| Some(object["key"].as_str()?.to_owned()))
            }
        }
    }

    /// True if the request concerns all heads.
    fn wants_all(&self) -> bool {
        let object: Value = serde_json::from_slice(&self.body).unwrap_or_default();
        object["all"] == true
    }

    fn parameter(&self, wanted: &str) -> Option<String> {
        let query = self.parts.uri.query().unwrap_or_default();
        let mut all = url::form_urlencoded::parse(query.as_bytes());
        all.find(|(name, _)| name == wanted).map(|(_, value)| value.into_owned())
    }

    /// True if the request names sequences: each shard counts its own.
    fn names_sequences(&self) -> bool {
        let query = self.parts.uri.query().unwrap_or_default();
        let object: Value = serde_json::from_slice(&self.body).unwrap_or_default();
        let in_object = |object: &Value| {
            object
                .as_object()
                .is_some_and(|fields| fields.keys().any(|name| name.contains("sequence")))
        };
        url::form_urlencoded::parse(query.as_bytes()).any(|(name, _)| name.contains("sequence"))
            || in_object(&object)
            || object.get("filter").is_some_and(in_object)
    }

    fn which_shard(&self) -> Problem {
        let (name, last) = (&self.first.destination.name, self.first.destination.shards - 1);
        let detail = format!(
            "destination: {name} has {} shards, and each has sequences, lanes and consumers of its own: name one, \
             {name}~0 to {name}~{last}",
            last + 1
        );
        Problem::invalid_parameter(detail)
    }

    /// Makes the request to one shard.
    async fn of_shard(&self, shard: &DestinationName) -> Result<Response, Problem> {
        let request = self.request(shard, self.parts.uri.query())?;
        Ok(self.spread.routes.clone().oneshot(request).await.into_response())
    }

    /// The message of whichever shard knows it.
    async fn message(&self) -> Result<Response, Problem> {
        let mut unknown = None;
        for shard in self.first.destination.shard_names() {
            match read(shard.clone(), self.of_shard(&shard).await?).await {
                Ok(Answer { status, mut json, .. }) => {
                    json["shard"] = json!(shard.shard_in_paths());
                    return Ok((status, Json(json)).into_response());
                }
                Err(problem) if problem.status == StatusCode::NOT_FOUND => unknown = Some(problem),
                Err(problem) => return Err(problem),
            }
        }
        Err(unknown.unwrap_or_else(|| self.which_shard()))
    }

    /// Records an operation on all shards in the audit log: that it runs, and how it ends.
    async fn note_operation(&self, operation: &Value) {
        let Some(action) = audit::current() else { return };
        let text = |field: &str| operation[field].as_str().unwrap_or_default().to_owned();
        action.operation_begins(&text("id"), operation["dry_run"] == true).await;
        if operation["state"] != "running" {
            let affected = operation["affected"].as_u64().filter(|_| operation["dry_run"] != true);
            return action.operation_ended(text("state"), affected.unwrap_or_default()).await;
        }
        let (shards, name) = (self.first.clone(), self.first.destination.name.clone());
        let (api, id) = (self.spread.api.clone(), text("id"));
        self.spread.api.tasks.spawn(async move {
            let ended = bulk::ended(&api, shards.destination.shard_names(), &id).await;
            if let Some((state, affected)) = ended {
                action.operation_ended(state, affected).await;
            }
            tracing::debug!(destination = %name, id, "an operation on all shards has ended");
        });
    }

    /// Makes the request to all shards at once. Returns their answers, in the order of the shards, or the first refusal.
    /// `operation`: the id that the operations of all shards get.
    async fn all(&self, operation: Option<String>) -> Result<Vec<Answer>, Problem> {
        let operation = operation.unwrap_or_else(bulk::new_id);
        let requests = self.first.destination.shard_names().map(|shard| {
            let request = self.request(&shard, self.parts.uri.query());
            let (routes, operation) = (self.spread.routes.clone(), operation.clone());
            async move {
                // In a task of its own: there the audit log has no current action. It gets one entry, for all shards.
                let asking = bulk::OPERATION.scope(operation, routes.oneshot(request?));
                let response = tokio::spawn(asking).await.map_err(|_| super::draining())?;
                read(shard, response.into_response()).await
            }
        });
        let answers = join_all(requests).await;
        let (mut known, mut refused, mut unknown) = (Vec::new(), None, None);
        for answer in answers {
            match answer {
                Ok(answer) => known.push(answer),
                Err(problem) if problem.status == StatusCode::NOT_FOUND => unknown = Some(problem),
                Err(problem) => refused = refused.or(Some(problem)),
            }
        }
        match refused.or(unknown.filter(|_| known.is_empty())) {
            Some(problem) => Err(problem),
            None => Ok(known),
        }
    }

    /// A page of a list of these shards: that of the shard in the cursor, or of the next one that is not empty.
    async fn page(&self, shards: Range<u16>) -> Result<Response, Problem> {
        let unknown = || Problem::invalid_parameter("cursor: it is not the cursor of a page");
        let (first, inner) = match self.parameter("cursor") {
            None => (shards.start, String::new()),
            Some(cursor) => {
                let (shard, inner) = cursor.split_once('.').ok_or_else(unknown)?;
                (shard.parse().map_err(|_| unknown())?, inner.to_owned())
            }
        };
        let mut inner = Some(inner).filter(|inner| !inner.is_empty());
        for number in first.max(shards.start)..shards.end {
            let shard = self.first.destination.name.of_shard(number);
            let query = self.query_with(inner.take());
            let request = self.request(&shard, Some(&query))?;
            let response = self.spread.routes.clone().oneshot(request).await.into_response();
            let mut json = read(shard, response).await?.json;
            let is_last = number + 1 == shards.end;
            let next = match json.get("next_cursor").and_then(Value::as_str) {
                Some(next) => Some(format!("{number}.{next}")),
                None if is_last => None,
                None => Some(format!("{}.", number + 1)),
            };
            let Some(items) = json.get_mut("items").and_then(Value::as_array_mut) else {
                return Err(unknown());
            };
            if items.is_empty() && !is_last && next.as_ref().is_some_and(|next| next.ends_with('.'))
            {
                continue;
            }
            let name = self.first.destination.name.of_shard(number).shard_in_paths();
            items.iter_mut().for_each(|item| item["shard"] = json!(name));
            json["next_cursor"] = json!(next);
            return Ok(Json(json).into_response());
        }
        Err(unknown())
    }

    /// The query with another cursor.
    fn query_with(&self, cursor: Option<String>) -> String {
        let query = self.parts.uri.query().unwrap_or_default();
        let all = url::form_urlencoded::parse(query.as_bytes());
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        query.extend_pairs(all.filter(|(name, _)| name != "cursor"));
        query.extend_pairs(cursor.map(|cursor| ("cursor", cursor)));
        query.finish()
    }

    /// The request, to a shard.
    fn request(&self, shard: &DestinationName, query: Option<&str>) -> Result<Request, Problem> {
        // The path is /v1/destinations/{destination}/…
        let path = self.parts.uri.path().splitn(5, '/').nth(4).unwrap_or_default();
        let query = query.filter(|query| !query.is_empty());
        let query = query.map(|query| format!("?{query}")).unwrap_or_default();
        let uri: Result<Uri, _> = format!("/v1/destinations/{shard}/{path}{query}").parse();
        let uri = uri.map_err(|error| Problem::invalid_parameter(error.to_string()))?;
        let mut request = Request::new(Body::from(self.body.clone()));
        // The answer to HEAD has no body to merge.
        let is_head = self.parts.method == Method::HEAD;
        *request.method_mut() = if is_head { Method::GET } else { self.parts.method.clone() };
        *request.uri_mut() = uri;
        *request.headers_mut() = self.parts.headers.clone();
        // The rest of the extensions belongs to the route of the first request.
        let (extensions, of_shard) = (&self.parts.extensions, request.extensions_mut());
        extensions.get::<Principal>().cloned().map(|caller| of_shard.insert(caller));
        extensions.get::<ClientConnection>().cloned().map(|client| of_shard.insert(client));
        extensions.get::<RequestId>().cloned().map(|id| of_shard.insert(id));
        Ok(request)
    }
}

/// Reads the answer of a shard.
async fn read(shard: DestinationName, response: Response) -> Result<Answer, Problem> {
    if let Some(mut problem) = response.extensions().get::<Problem>().cloned() {
        problem.more.insert("shard".to_owned(), json!(shard.shard_in_paths()));
        return Err(problem);
    }
    let status = response.status();
    let unreadable = |error: String| Problem::new(Code::Unreadable, error);
    let body = axum::body::to_bytes(response.into_body(), ANSWER_BYTES_MAX).await;
    let body = body.map_err(|error| unreadable(error.to_string()))?;
    let json = serde_json::from_slice(&body).map_err(|error| unreadable(error.to_string()))?;
    Ok(Answer { shard, status, json })
}
