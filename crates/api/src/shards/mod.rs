//! Requests to a destination with several shards. A layer makes the request to each shard, as if it were a destination
//! of its own, and merges the answers. So no handler has to know of shards.

mod merge;

use std::sync::Arc;

use axum::{
    Json, Router,
    body::{Body, Bytes},
    extract::{MatchedPath, RawPathParams, Request, State},
    http::{Method, StatusCode, Uri, header, request::Parts},
    middleware::Next,
    response::{IntoResponse, Response},
};
use futures::{StreamExt, stream};
use serde_json::{Value, json};
use tower::ServiceExt;

use super::{Api, RequestId, audit, bulk};
use domain::{DestinationName, Ordering};
use formats::code::Code;
use http_server::{client_connection::ClientConnection, principal::Principal, problem::Problem};
use merge::{merged, oldest};
use store::CatalogEntry;

/// The most shards that a request reads or changes at the same time.
const AT_ONCE: usize = 16;
/// The most bytes of one shard's answer.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// How a route treats the shards of its destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    /// The first shard alone, which has the definition; or the route reads the shards itself.
    First,
    /// A list: the pages of one shard after the other.
    Pages,
    /// All shards together. Shards that do not know the message or operation do not count.
    All,
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
            "/messages" | "/messages/by-id/{id}" | "/operations/{id}" => How::All,
            "/operations/{id}/cancel" | "/run-now" | "/purge" | "/repair" | "/retry-head" => {
                How::All
            }
            "/dead-letters/redrive" | "/dead-letters/discard" | "/replay" => How::All,
            "/skip-head" | "/consume" => How::One,
            // With a sequence, the name of a destination is that of its first shard, as in answers and deliveries.
            _ => How::First,
        }
    }
}

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
    request: Request,
    next: Next,
) -> Response {
    let named = parameters.iter().find(|(name, _)| *name == "destination").map(|(_, text)| text);
    let how = How::of(request.method(), path.as_str());
    let Some((text, name)) = named.and_then(|text| Some((text, text.parse().ok()?))) else {
        return next.run(request).await;
    };
    let name: DestinationName = name;
    if text.contains('~') {
        let is_part = text.ends_with("~0") || spread.api.catalog.is_in_destination(&name);
        if changes_definition(request.method(), path.as_str()) && is_part {
            let base = name.base();
            let detail = format!("{text} is a shard of {base}: make the same request to {base}");
            return Problem::new(Code::WrongState, detail).into_response();
        }
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
        if let Some(key) = self.key()? {
            return self.of_shard(&self.first.destination.shard_of_key(&key)).await;
        }
        if how == How::One || self.names_sequences() {
            return Err(self.which_shard());
        }
        match how {
            How::Pages => self.page().await,
            How::Oldest => Ok(Json(oldest(self.all().await?)).into_response()),
            How::All | How::One | How::First => {
                let answers = self.all().await?;
                let status = answers.iter().map(|answer| answer.status).max().unwrap_or_default();
                let merged = merged(self.first.destination.name.as_str(), answers);
                if let Some(affected) = merged.get("affected").and_then(Value::as_u64) {
                    audit::affected(affected);
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

    /// The ordering key that the request names: its lane is in one shard.
    fn key(&self) -> Result<Option<String>, Problem> {
        if self.first.destination.ordering != Ordering::Key {
            return Ok(None);
        }
        if let Some(key) = self.parameter("key") {
            return Ok(Some(key));
        }
        let object: Option<Value> = serde_json::from_slice(&self.body).ok();
        let key = object.as_ref().and_then(|object| object.get("key")?.as_str());
        Ok(key.map(str::to_owned))
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

    /// Makes the request to all shards. Returns their answers, in the order of the shards, or the first refusal.
    async fn all(&self) -> Result<Vec<Answer>, Problem> {
        let operation = bulk::new_id();
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
        let requests: Vec<_> = requests.collect();
        let answers: Vec<_> = stream::iter(requests).buffered(AT_ONCE).collect().await;
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

    /// A page of a list: that of the shard in the cursor, or of the next one that is not empty.
    async fn page(&self) -> Result<Response, Problem> {
        let cursor = self.parameter("cursor").unwrap_or_default();
        let (shard, inner) = cursor.split_once('.').unwrap_or(("0", ""));
        let unknown = || Problem::invalid_parameter("cursor: it is not the cursor of a page");
        let first = shard.parse().map_err(|_| unknown())?;
        let mut inner = Some(inner.to_owned()).filter(|inner| !inner.is_empty());
        let shards = self.first.destination.shards;
        for number in first..shards {
            let shard = self.first.destination.name.of_shard(number);
            let query = self.query_with(inner.take());
            let request = self.request(&shard, Some(&query))?;
            let response = self.spread.routes.clone().oneshot(request).await.into_response();
            let mut json = read(shard, response).await?.json;
            let is_last = number + 1 == shards;
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
        *request.method_mut() = self.parts.method.clone();
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
