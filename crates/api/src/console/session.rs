//! Signs a browser in and out.

use std::time::Duration;

use axum::{
    Extension, Json,
    body::{Body, Bytes, HttpBody, to_bytes},
    http::{HeaderMap, Method, StatusCode, Uri, header},
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use access::{Guard, session};
use domain::{Grant, Scope};
use formats::code::Code;
use http_server::{principal::Principal, problem::Problem};

/// The longest body of a sign-in, in bytes, and the time within which it must arrive. The client has not shown a token
/// yet.
const SIGN_IN_BYTES_MAX: usize = 4 << 10;
const SIGN_IN_WITHIN: Duration = Duration::from_secs(5);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SignIn {
    token: String,
}

/// The caller that is signed in, and its permissions.
#[derive(Serialize)]
struct Session<'a> {
    /// The id of the token, or the reason why the caller needs none.
    caller: &'a str,
    #[serde(flatten)]
    grant: &'a Grant,
    /// False if this process needs no token.
    needs_token: bool,
    version: &'static str,
    /// After signing in: the secret that each request must send, besides the cookie.
    #[serde(skip_serializing_if = "Option::is_none")]
    secret: Option<String>,
}

/// `GET /console/session`: shows and prolongs the session; 204 if nobody is signed in.
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
    let prolonged = guard.prolonged(&headers).map(|value| set_cookie(Some(&value), &headers));
    Ok((prolonged.unwrap_or_default(), shown(&caller, &guard, None)).into_response())
}

/// `POST /console/session`
pub(super) async fn sign_in(
    Extension(guard): Extension<Guard>,
    method: Method,
    headers: HeaderMap,
    uri: Uri,
    body: Body,
) -> Result<Response, Problem> {
    session::check_origin(&method, &headers, &uri)?;
    let body = read(body).await?;
    let sign_in: SignIn = serde_json::from_slice(&body)
        .map_err(|error| Problem::new(Code::InvalidJson, format!("the sign-in: {error}")))?;
    let token = sign_in.token.trim();
    let caller = guard.caller_of(token)?;
    caller.check_scope(Scope::Read)?;
    let (secret, value) = guard.begin_session(token).ok_or_else(|| {
        let detail = "Redis did not give this process the key of sessions yet; try again";
        Problem::new(Code::RedisUnavailable, detail)
    })?;
    let session = shown(&caller, &guard, Some(secret));
    Ok((set_cookie(Some(&value), &headers), session).into_response())
}

async fn read(body: Body) -> Result<Bytes, Problem> {
    let too_large = || Problem::body_too_large(SIGN_IN_BYTES_MAX);
    if body.size_hint().lower() > SIGN_IN_BYTES_MAX as u64 {
        return Err(too_large());
    }
    let read = timeout(SIGN_IN_WITHIN, to_bytes(body, SIGN_IN_BYTES_MAX)).await;
    read.map_err(|_| Problem::body_timeout())?.map_err(|_| too_large())
}

/// `DELETE /console/session`
pub(super) async fn sign_out(
    Extension(guard): Extension<Guard>,
    method: Method,
    headers: HeaderMap,
    uri: Uri,
) -> Result<Response, Problem> {
    session::check_origin(&method, &headers, &uri)?;
    guard.end_session(&headers).await?;
    Ok((StatusCode::NO_CONTENT, set_cookie(None, &headers)).into_response())
}

/// The `Set-Cookie` header that begins or ends a session.
fn set_cookie(value: Option<&str>, headers: &HeaderMap) -> HeaderMap {
    let cookie = session::cookie(value, headers);
    cookie.map(|cookie| (header::SET_COOKIE, cookie)).into_iter().collect()
}

fn shown(caller: &Principal, guard: &Guard, secret: Option<String>) -> impl IntoResponse + use<> {
    let session = Session {
        caller: &caller.who,
        grant: caller.grant(),
        needs_token: !guard.is_open(),
        version: env!("CARGO_PKG_VERSION"),
        secret,
    };
    let json = Json(serde_json::to_value(session).unwrap_or_default());
    ([(header::CACHE_CONTROL, "no-store")], json)
}
