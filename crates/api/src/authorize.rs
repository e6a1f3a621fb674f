//! Checks, for each route, the caller and its permissions.

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

/// Refuses a request that its caller may not make. Records the request if it is an action of an operator. Gives the
/// caller to the handlers as an extension.
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
                // The handler that signs a browser in needs the guard.
                request.extensions_mut().insert(guard);
            } else {
                // Removes the secret, so that no handler can store it as a header of a message.
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

/// Runs a request that waits, and streams its answer, until the token ends. When the handler is dropped, it returns the
/// messages that it has taken for the caller.
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
    // The handler refuses an invalid name.
    let named = named.and_then(|(_, text)| text.parse::<DestinationName>().ok());
    let allowed = allowed(guard, scope, named.as_ref(), request);
    match (allowed, &named) {
        // Only one POST route of this scope names a destination: it sends one message, which may be signed.
        (Err(refused), Some(name))
            if scope == Scope::Ingest && *request.method() == Method::POST =>
        {
            // A caller with only a signature has no token whose requests could be limited.
            Ok((guard.signer(name, request.headers(), refused)?, None))
        }
        (allowed, _) => allowed,
    }
}

/// The caller, if its token allows the request, or the listener needs no token.
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
