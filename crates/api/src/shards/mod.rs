//! Requests to a destination with several shards. A layer makes the request to each shard, as if it were a destination
//! of its own, and merges the answers. So no handler has to know of shards.

mod ended;
mod how;
mod merge;
mod names;

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
use how::{How, changes_definition};
use http_server::{client_connection::ClientConnection, principal::Principal, problem::Problem};
use merge::oldest;
pub(super) use names::with_shards;
use store::CatalogEntry;

/// The most bytes of one shard's answer.
const ANSWER_BYTES_MAX: usize = 64 << 20;

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
    /// The body as JSON; null if it is not JSON.
    object: Value,
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
    if how == How::First {
        return next.run(request).await;
    }
    let found = spread.api.catalog.find(&name).await.ok().flatten();
    let Some(first) = found.filter(|first| first.destination.shards > 1) else {
        return next.run(request).await;
    };
    let (parts, body) = request.into_parts();
    let max = spread.api.batch_bytes_max;
    let Ok(body) = axum::body::to_bytes(body, max).await else {
        return Problem::body_too_large(max).into_response();
    };
    let object = serde_json::from_slice(&body).unwrap_or_default();
    let spreading = Spreading { spread, first, parts, body, object };
    spreading.answer(how).await.unwrap_or_else(IntoResponse::into_response)
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
        if how == How::Message {
            return self.message(of_key).await;
        }
        let path = self.path();
        let is_one_head = path == "retry-head" && self.object["all"] != true;
        match of_key.filter(|_| path != "consume") {
            Some(shard) => self.of_shard(&shard).await,
            None if how == How::One || is_one_head || self.names_sequences() => {
                Err(self.which_shard())
            }
            None if how == How::Oldest => {
                let (answers, refused) = self.all(bulk::new_id()).await;
                refused.map_or(Ok(Json(oldest(answers)).into_response()), Err)
            }
            None if path.starts_with("operations/") => {
                let (answers, refused) = self.all(bulk::new_id()).await;
                let refused = refused.filter(|problem| {
                    answers.is_empty() || problem.status != StatusCode::NOT_FOUND
                });
                let (status, sum) = self.merged(answers);
                refused.map_or_else(|| Ok(self.answer_with(status, sum)), Err)
            }
            None => self.operate().await,
        }
    }

    /// The path below the destination, without its first slash.
    fn path(&self) -> &str {
        // The path is /v1/destinations/{destination}/…
        self.parts.uri.path().splitn(5, '/').nth(4).unwrap_or_default()
    }

    /// Runs a bulk operation on all shards, and answers with the sum.
    async fn operate(&self) -> Result<Response, Problem> {
        let (id, action) = (bulk::new_id(), audit::current());
        let is_dry = self.object["dry_run"] == true;
        if let Some(action) = &action {
            action.operation_begins(&id, is_dry).await;
        }
        let (mut answers, mut refused) = self.all(id.clone()).await;
        if let Some(problem) = &mut refused {
            // What the shard did before it failed counts, too.
            let (status, shard) = (problem.status, self.shard_in(problem));
            let failed = problem.more.remove("operation");
            answers.extend(failed.map(|json| Answer { shard, status, json }));
        }
        let (status, mut sum) = self.merged(answers);
        if refused.is_some() {
            sum["state"] = json!("failed");
        }
        if let Some(action) = action {
            let affected = sum["affected"].as_u64().filter(|_| !is_dry).unwrap_or_default();
            match sum["state"].as_str().unwrap_or_default() {
                "running" => self.note_end(action, id),
                state => action.operation_ended(state.to_owned(), affected).await,
            }
        }
        match refused {
            None => Ok(self.answer_with(status, sum)),
            Some(mut problem) => {
                problem.more.insert("operation".to_owned(), sum);
                Err(problem)
            }
        }
    }

    /// The shard that a problem names.
    fn shard_in(&self, problem: &Problem) -> DestinationName {
        let named = problem.more.get("shard").and_then(Value::as_str);
        let named = named.and_then(|text| text.parse().ok());
        named.unwrap_or_else(|| self.first.destination.name.clone())
    }

    /// The answers of shards as one, and the worst status.
    fn merged(&self, answers: Vec<Answer>) -> (StatusCode, Value) {
        let status = answers.iter().map(|answer| answer.status).max().unwrap_or_default();
        (status, merge::merged(self.first.destination.name.as_str(), answers))
    }

    fn answer_with(&self, status: StatusCode, sum: Value) -> Response {
        let name = &self.first.destination.name;
        let location = (status == StatusCode::ACCEPTED).then(|| {
            let id = sum["id"].as_str().unwrap_or_default();
            [(header::LOCATION, format!("/v1/destinations/{name}/operations/{id}"))]
        });
        (status, location, Json(sum)).into_response()
    }

    /// Records how an operation on all shards ends, once it has ended.
    fn note_end(&self, action: Arc<audit::Action>, id: String) {
        let (api, first) = (self.spread.api.clone(), self.first.clone());
        self.spread.api.tasks.spawn(async move {
            let ended = ended::ended(&api, first.destination.shard_names(), &id).await;
            if let Some((state, affected)) = ended {
                action.operation_ended(state, affected).await;
            }
        });
    }

    /// The ordering key that the request names: its lane is in one shard. Without ordering, an idempotency key names
    /// the shard.
    fn key(&self) -> Option<String> {
        match self.first.destination.ordering {
            Ordering::None => self.parameter("idempotency_key"),
            Ordering::Key | Ordering::Destination => {
                self.parameter("key").or_else(|| Some(self.object["key"].as_str()?.to_owned()))
            }
        }
    }

    fn parameter(&self, wanted: &str) -> Option<String> {
        let query = self.parts.uri.query().unwrap_or_default();
        let mut all = url::form_urlencoded::parse(query.as_bytes());
        all.find(|(name, _)| name == wanted).map(|(_, value)| value.into_owned())
    }

    /// True if the request names sequences: each shard counts its own.
    fn names_sequences(&self) -> bool {
        let query = self.parts.uri.query().unwrap_or_default();
        let in_object = |object: &Value| {
            object
                .as_object()
                .is_some_and(|fields| fields.keys().any(|name| name.contains("sequence")))
        };
        url::form_urlencoded::parse(query.as_bytes()).any(|(name, _)| name.contains("sequence"))
            || in_object(&self.object)
            || self.object.get("filter").is_some_and(in_object)
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
        let request = self.request(shard, self.parts.uri.query(), self.body.clone())?;
        Ok(self.spread.routes.clone().oneshot(request).await.into_response())
    }

    /// The message of whichever shard knows it; `likely` is asked first.
    async fn message(&self, likely: Option<DestinationName>) -> Result<Response, Problem> {
        let mut last = self.which_shard();
        for shard in likely.into_iter().chain(self.first.destination.shard_names()) {
            let response = self.of_shard(&shard).await?;
            match problem_of(&shard, &response) {
                None => return with_shard(response, &shard).await,
                // A shard that does not answer may have the message.
                Some(problem) if last.code.is_temporary() && !problem.code.is_temporary() => {}
                Some(problem) => last = problem,
            }
        }
        Err(last)
    }

    /// Makes the request to all shards at once. Returns their answers, in the order of the shards, and the first
    /// refusal. `operation`: the id that the operations of all shards get.
    async fn all(&self, operation: String) -> (Vec<Answer>, Option<Problem>) {
        let body = self.body_of_each();
        let requests = self.first.destination.shard_names().map(|shard| {
            let request = self.request(&shard, self.parts.uri.query(), body.clone());
            let (routes, operation) = (self.spread.routes.clone(), operation.clone());
            async move {
                // In a task of its own: there the audit log has no current action. It gets one entry, for all shards.
                let asking = bulk::OPERATION.scope(operation, routes.oneshot(request?));
                let response = tokio::spawn(asking).await.map_err(|_| super::draining())?;
                read(shard, response.into_response()).await
            }
        });
        let (mut answers, mut refused) = (Vec::new(), None::<Problem>);
        for answer in join_all(requests).await {
            match answer {
                Ok(answer) => answers.push(answer),
                Err(problem) => {
                    let is_first = refused.as_ref().is_none_or(|first| {
                        first.status == StatusCode::NOT_FOUND && problem.status != first.status
                    });
                    refused = if is_first { Some(problem) } else { refused };
                }
            }
        }
        (answers, refused)
    }

    /// The body for each shard, which has an equal part of the rate, at least 1.
    fn body_of_each(&self) -> Bytes {
        let Some(rate) = self.object["rate_per_second"].as_u64().filter(|rate| *rate > 0) else {
            return self.body.clone();
        };
        let mut object = self.object.clone();
        object["rate_per_second"] = json!(rate.div_ceil(self.first.destination.shards.into()));
        object.to_string().into()
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
            let request = self.request(&shard, Some(&query), self.body.clone())?;
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
    fn request(
        &self,
        shard: &DestinationName,
        query: Option<&str>,
        body: Bytes,
    ) -> Result<Request, Problem> {
        let path = self.path();
        let query = query.filter(|query| !query.is_empty());
        let query = query.map(|query| format!("?{query}")).unwrap_or_default();
        let uri: Result<Uri, _> = format!("/v1/destinations/{shard}/{path}{query}").parse();
        let uri = uri.map_err(|error| Problem::invalid_parameter(error.to_string()))?;
        let mut request = Request::new(Body::from(body));
        // The answer to HEAD has no body to merge.
        let is_head = self.parts.method == Method::HEAD;
        *request.method_mut() = if is_head { Method::GET } else { self.parts.method.clone() };
        *request.uri_mut() = uri;
        *request.headers_mut() = self.parts.headers.clone();
        request.headers_mut().remove(header::CONTENT_LENGTH);
        // The rest of the extensions belongs to the route of the first request.
        let (extensions, of_shard) = (&self.parts.extensions, request.extensions_mut());
        extensions.get::<Principal>().cloned().map(|caller| of_shard.insert(caller));
        extensions.get::<ClientConnection>().cloned().map(|client| of_shard.insert(client));
        extensions.get::<RequestId>().cloned().map(|id| of_shard.insert(id));
        Ok(request)
    }
}

/// The problem that a shard answered.
fn problem_of(shard: &DestinationName, response: &Response) -> Option<Problem> {
    let mut problem = response.extensions().get::<Problem>().cloned()?;
    problem.more.insert("shard".to_owned(), json!(shard.shard_in_paths()));
    Some(problem)
}

/// Reads the answer of a shard.
async fn read(shard: DestinationName, response: Response) -> Result<Answer, Problem> {
    if let Some(problem) = problem_of(&shard, &response) {
        return Err(problem);
    }
    let status = response.status();
    let body = bytes_of(response).await?;
    let json = serde_json::from_slice(&body)
        .map_err(|error| Problem::new(Code::Unreadable, error.to_string()))?;
    Ok(Answer { shard, status, json })
}

async fn bytes_of(response: Response) -> Result<Bytes, Problem> {
    let body = axum::body::to_bytes(response.into_body(), ANSWER_BYTES_MAX).await;
    body.map_err(|error| Problem::new(Code::Unreadable, error.to_string()))
}

/// The answer of a shard with its name. The rest is not parsed: the body of a message must stay as it is.
async fn with_shard(response: Response, shard: &DestinationName) -> Result<Response, Problem> {
    let (status, body) = (response.status(), bytes_of(response).await?);
    let rest = body.strip_prefix(b"{").unwrap_or_default();
    let shard = format!("{{\"shard\":\"{}\",", shard.shard_in_paths());
    let body = Body::from([shard.as_bytes(), rest].concat());
    Ok((status, [(header::CONTENT_TYPE, "application/json")], body).into_response())
}
