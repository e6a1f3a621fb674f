//! Checks, for each route, who calls and whether it may.

use axum::{
    extract::{MatchedPath, RawPathParams, Request, State},
    middleware::Next,
    response::{IntoResponse, Response},
};

use crate::{
    access::{Guard, Needed, needed},
    domain::DestinationName,
    wire::{caller::Caller, code::Code, problem::Problem},
};

/// Refuses a request that its caller may not make. Handlers get the caller as an extension.
pub(super) async fn authorize(
    State(guard): State<Guard>,
    path: MatchedPath,
    parameters: RawPathParams,
    mut request: Request,
    next: Next,
) -> Response {
    let needed = needed(request.method(), path.as_str());
    match caller_of(&guard, needed, &parameters, &request) {
        Ok(caller) => {
            request.extensions_mut().insert(caller);
            if needed == Needed::Operators {
                // Signing in needs it.
                request.extensions_mut().insert(guard);
            }
            next.run(request).await
        }
        Err(problem) => problem.into_response(),
    }
}

fn caller_of(
    guard: &Guard,
    needed: Needed,
    parameters: &RawPathParams,
    request: &Request,
) -> Result<Caller, Problem> {
    if !guard.serves(needed) {
        let detail =
            "operators have a listener of their own (admin.listen), which serves this path";
        return Err(Problem::new(Code::NotFound, detail));
    }
    let Needed::Scope(scope) = needed else { return Ok(guard.anyone()) };
    let caller = guard.caller(request.method(), request.headers(), request.uri())?;
    caller.check_scope(scope)?;
    let named = parameters.iter().find(|(name, _)| *name == "destination");
    // A name that cannot be one is refused by the handler.
    if let Some(Ok(name)) = named.map(|(_, text)| text.parse::<DestinationName>()) {
        caller.check(&name)?;
    }
    Ok(caller)
}
