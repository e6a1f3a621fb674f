//! Checks, for each route, who calls and whether it may.

use std::sync::Arc;

use axum::{
    body::{Body, HttpBody},
    extract::{MatchedPath, RawPathParams, Request, State},
    http::Method,
    middleware::Next,
    response::{IntoResponse, Response},
};
use futures::{FutureExt, StreamExt};

use crate::audit::Recorder;
use access::{Guard, Needed, is_action, lasts, needed, session};
use domain::{DestinationName, Scope};
use formats::code::Code;
use http_server::{
    client_connection::ClientConnection, concurrency_limit::Held, principal::Principal,
    problem::Problem,
};

/// Refuses a request that its caller may not make, and records it if it is an action of an operator. Handlers
/// get the caller as an extension.
pub(super) async fn authorize(
    State((guard, recorder)): State<(Guard, Recorder)>,
    path: MatchedPath,
    parameters: RawPathParams,
    mut request: Request,
    next: Next,
) -> Response {
    let needed = needed(request.method(), path.as_str());
    match caller_of(&guard, needed, &parameters, &request) {
        Ok((caller, _in_progress)) => {
            let watched = lasts(path.as_str()).then(|| (guard.clone(), caller.clone()));
            request.extensions_mut().insert(caller.clone());
            if needed == Needed::Operators {
                // Signing in needs it.
                request.extensions_mut().insert(guard);
            } else {
                // No message may keep it.
                request.headers_mut().remove(session::SECRET);
            }
            match is_action(request.method(), needed) {
                true => {
                    recorder.carry_out(&caller, path.as_str(), &parameters, request, next).await
                }
                false => match watched {
                    Some(watched) => while_allowed(next.run(request), watched).await,
                    None => next.run(request).await,
                },
            }
        }
        Err(problem) => problem.into_response(),
    }
}

/// Runs a request that waits, and its answer, until the token ends. What a handler has taken for the caller goes back
/// when it is dropped.
async fn while_allowed(
    running: impl Future<Output = Response>,
    (guard, caller): (Guard, Principal),
) -> Response {
    let ended = guard.clone().ended(caller.clone()).boxed().shared();
    let response = tokio::select! {
        () = ended.clone() => None,
        response = running => Some(response),
    };
    match response.filter(|_| guard.still_allows(&caller)) {
        Some(response) => response.map(|body| match body.size_hint().exact() {
            Some(_) => body,
            None => Body::from_stream(body.into_data_stream().take_until(ended)),
        }),
        None => {
            let detail = "the token, or the session of the console, has ended meanwhile";
            Problem::new(Code::Unauthorized, detail).into_response()
        }
    }
}

type InProgress = Option<Held<Arc<str>>>;

fn caller_of(
    guard: &Guard,
    needed: Needed,
    parameters: &RawPathParams,
    request: &Request,
) -> Result<(Principal, InProgress), Problem> {
    if !guard.serves(needed) {
        let detail =
            "operators have a listener of their own (admin.listen), which serves this path";
        return Err(Problem::new(Code::NotFound, detail));
    }
    let Needed::Scope(scope) = needed else { return Ok((guard.anyone(), None)) };
    let named = parameters.iter().find(|(name, _)| *name == "destination");
    // A name that cannot be one is refused by the handler.
    let named = named.and_then(|(_, text)| text.parse::<DestinationName>().ok());
    let allowed = allowed(guard, scope, named.as_ref(), request);
    match (allowed, &named) {
        // The only call of this scope that changes a destination: it sends one message, which may be signed.
        (Err(refused), Some(name))
            if scope == Scope::Ingest && *request.method() == Method::POST =>
        {
            // Who only signs has no token that could have too many requests.
            Ok((guard.signer(name, request.headers(), refused)?, None))
        }
        (allowed, _) => allowed,
    }
}

/// The caller, if its token may do this, or none is needed.
fn allowed(
    guard: &Guard,
    scope: Scope,
    destination: Option<&DestinationName>,
    request: &Request,
) -> Result<(Principal, InProgress), Problem> {
    let client = request.extensions().get::<ClientConnection>();
    let names = client.and_then(|client| Some(client.certificate()?.names.as_slice()));
    let caller = guard.caller(request.method(), request.headers(), request.uri(), names)?;
    caller.check_scope(scope)?;
    destination.map_or(Ok(()), |name| caller.check(name))?;
    let in_progress = if guard.is_open() { None } else { Some(guard.begin(&caller)?) };
    client.inspect(|client| client.verify());
    Ok((caller, in_progress))
}
