//! Signs a browser in and out.

use axum::{
    Extension, Json,
    body::Bytes,
    http::{HeaderMap, Method, StatusCode, Uri, header},
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};

use crate::{
    access::{Guard, session},
    domain::{Grant, Scope},
    wire::{caller::Caller, code::Code, problem::Problem},
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SignIn {
    token: String,
}

/// Who is signed in, and what they may do.
#[derive(Serialize)]
struct Session<'a> {
    /// The id of the token, or why none is needed.
    caller: &'a str,
    #[serde(flatten)]
    grant: &'a Grant,
    /// False if this process needs no token.
    needs_token: bool,
    version: &'static str,
}

/// `GET /console/session`: 204 if nobody is signed in.
pub(super) async fn show(
    Extension(guard): Extension<Guard>,
    method: Method,
    headers: HeaderMap,
    uri: Uri,
) -> Result<Response, Problem> {
    let caller = match guard.caller(&method, &headers, &uri, None) {
        Err(problem) if problem.status == StatusCode::UNAUTHORIZED => {
            return Ok(StatusCode::NO_CONTENT.into_response());
        }
        caller => caller?,
    };
    caller.check_scope(Scope::Read)?;
    Ok(shown(&caller, &guard).into_response())
}

/// `POST /console/session`
pub(super) async fn sign_in(
    Extension(guard): Extension<Guard>,
    method: Method,
    headers: HeaderMap,
    uri: Uri,
    body: Bytes,
) -> Result<Response, Problem> {
    session::check_origin(&method, &headers, &uri)?;
    let sign_in: SignIn = serde_json::from_slice(&body)
        .map_err(|error| Problem::new(Code::InvalidJson, format!("the sign-in: {error}")))?;
    let token = sign_in.token.trim();
    let caller = guard.caller_of(token)?;
    caller.check_scope(Scope::Read)?;
    Ok((set_cookie(Some(token), &headers), shown(&caller, &guard)).into_response())
}

/// `DELETE /console/session`
pub(super) async fn sign_out(
    method: Method,
    headers: HeaderMap,
    uri: Uri,
) -> Result<Response, Problem> {
    session::check_origin(&method, &headers, &uri)?;
    Ok((StatusCode::NO_CONTENT, set_cookie(None, &headers)).into_response())
}

/// The header that begins or ends a session.
fn set_cookie(token: Option<&str>, headers: &HeaderMap) -> HeaderMap {
    let cookie = session::cookie(token, headers);
    cookie.map(|cookie| (header::SET_COOKIE, cookie)).into_iter().collect()
}

fn shown(caller: &Caller, guard: &Guard) -> impl IntoResponse + use<> {
    let session = Session {
        caller: &caller.who,
        grant: caller.grant(),
        needs_token: !guard.is_open(),
        version: env!("CARGO_PKG_VERSION"),
    };
    let json = Json(serde_json::to_value(session).unwrap_or_default());
    ([(header::CACHE_CONTROL, "no-store")], json)
}
