//! The session of a browser that is signed in to the console. An encrypted cookie holds the
//! session. Redis and this process store only the key, which all pods share, and the list of
//! ended sessions. A session also ends with its token.
//!
//! A browser sends a cookie to all servers of the host, whatever their port. So a session also
//! has a secret. The page stores it where only pages of the same scheme, host and port can read
//! it, and sends it in a header. Opening the cookie takes both the secret and the key.
//!
//! A browser adds a cookie to a request on its own, even if another web page made the request. So
//! a cookie counts only if the request comes from a page of this process.

use axum::http::{HeaderMap, HeaderValue, Method, Uri, header};
use ring::hmac;
use serde::{Deserialize, Serialize};

use domain::token::random_text;
use formats::code::Code;
use http_server::problem::Problem;
use store::{SESSION_MS_MAX, Seal};

/// The name of the cookie.
const COOKIE: &str = "reseq-session";
/// The header with the secret.
pub const SECRET: &str = "reseq-session";
/// A session ends when its page has not shown it for this long, in milliseconds.
const IDLE_MS_MAX: u64 = 3_600_000;
/// The context of the seal.
const PLACE: &[u8] = b"reseq session";
/// The header in which a browser states the origin of a request. Pages cannot set it.
pub(super) const FETCH_SITE: &str = "sec-fetch-site";

/// The content of a session's cookie.
#[derive(Serialize, Deserialize)]
pub struct Session {
    /// The name of the session in the list of ended sessions.
    pub id: String,
    /// The token that began the session.
    pub token: String,
    /// When the session began.
    pub begun_ms: u64,
    /// When the page last asked for the session.
    seen_ms: u64,
}

impl Session {
    /// A new session with this token, and its secret.
    pub(super) fn begin(token: &str, now_ms: u64) -> (Session, String) {
        let random = || random_text(&mut rand::rng());
        let (id, token) = (random(), token.to_owned());
        (Session { id, token, begun_ms: now_ms, seen_ms: now_ms }, random())
    }

    /// The session of a request, unless it was idle for too long or is too old.
    pub(super) fn shown(key: &str, headers: &HeaderMap, now_ms: u64) -> Option<Session> {
        let (value, secret) = (value_of(headers)?, text_of(headers, SECRET)?);
        let text = seal(key, secret)?.open(PLACE, value)?;
        let session: Session = serde_json::from_str(&text).ok()?;
        let is_current = now_ms.saturating_sub(session.seen_ms) < IDLE_MS_MAX
            && now_ms.saturating_sub(session.begun_ms) < SESSION_MS_MAX;
        is_current.then_some(session)
    }

    /// The same session, with this as the time when it was last seen.
    pub(super) fn seen(self, now_ms: u64) -> Session {
        Session { seen_ms: now_ms, ..self }
    }

    /// The value of the session's cookie.
    pub(super) fn sealed(&self, key: &str, secret: &str) -> Option<String> {
        seal(key, secret)?.seal(PLACE, &serde_json::to_string(self).ok()?)
    }
}

fn seal(key: &str, secret: &str) -> Option<Seal> {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes());
    Seal::new(hmac::sign(&key, secret.as_bytes()).as_ref())
}

/// The secret in the header of a request.
pub(super) fn secret_of(headers: &HeaderMap) -> Option<&str> {
    text_of(headers, SECRET)
}

/// The value of the cookie of a request.
fn value_of(headers: &HeaderMap) -> Option<&str> {
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = cookies.flat_map(|line| line.split(';')).filter_map(|one| one.split_once('='));
    let (_, value) = pairs.find(|(name, _)| name.trim() == COOKIE)?;
    Some(value.trim())
}

/// A `Set-Cookie` with this value; with `None`, one that deletes the cookie.
pub fn cookie(value: Option<&str>, headers: &HeaderMap) -> Option<HeaderValue> {
    let is_encrypted = text_of(headers, header::ORIGIN.as_str())
        .is_some_and(|origin| origin.to_ascii_lowercase().starts_with("https://"));
    let secure = if is_encrypted { "; Secure" } else { "" };
    let age = if value.is_some() { "" } else { "; Max-Age=0" };
    let value = value.unwrap_or_default();
    let text = format!("{COOKIE}={value}; Path=/; HttpOnly; SameSite=Strict{secure}{age}");
    HeaderValue::from_str(&text).ok()
}

/// Refuses a request that does not come from a page of this process: `Origin` must name the same host as
/// `Host`. A request that changes something must have an `Origin`.
pub fn check_origin(method: &Method, headers: &HeaderMap, uri: &Uri) -> Result<(), Problem> {
    let refused = |detail: String| Err(Problem::new(Code::ForbiddenOrigin, detail));
    let reads = method == Method::GET || method == Method::HEAD;
    match text_of(headers, FETCH_SITE) {
        None | Some("same-origin") => {}
        Some("none") if reads => {}
        Some(_) => {
            return refused("this request comes from a web page of another origin".to_owned());
        }
    }
    let host = uri.authority().map(|authority| authority.as_str());
    let host = host.or(text_of(headers, header::HOST.as_str())).unwrap_or_default();
    let origin = text_of(headers, header::ORIGIN.as_str());
    match origin.map(|origin| origin.split_once("://").map(|(_, host)| host)) {
        None if reads => Ok(()),
        None => refused(
            "with the cookie of the console, a request that changes something needs an Origin; \
             programs send the header Authorization: Bearer <token> instead"
                .to_owned(),
        ),
        Some(Some(from)) if !host.is_empty() && from.eq_ignore_ascii_case(host) => Ok(()),
        Some(_) => {
            let origin = domain::excerpt::excerpt(origin.unwrap_or_default().as_bytes());
            let host = domain::excerpt::excerpt(host.as_bytes());
            refused(format!(
                "Origin is {origin:?} and Host is {host:?}: the console accepts only requests of \
                 its own pages; a proxy in between must pass Host on unchanged"
            ))
        }
    }
}

fn text_of<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).map(|value| value.to_str().unwrap_or("?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn a_session_is_opened_by_its_key_and_its_secret_in_time() {
        let (session, secret) = Session::begin("a token; =\"x\"", 1_000);
        let value = session.sealed("key", &secret).unwrap();
        let set = cookie(Some(&value), &headers(&[("origin", "https://a")])).unwrap();
        let set = set.to_str().unwrap().to_owned();
        for part in ["; HttpOnly", "; SameSite=Strict", "; Secure", "; Path=/"] {
            assert!(set.contains(part), "{set}");
        }
        let sent = format!("other=1; {}", set.split(';').next().unwrap());
        let shown = |key: &str, secret: &str, now_ms: u64| {
            Session::shown(key, &headers(&[("cookie", &sent), (SECRET, secret)]), now_ms)
        };
        let opened = shown("key", &secret, 1_001).unwrap();
        assert_eq!((opened.token, opened.id), ("a token; =\"x\"".to_owned(), session.id));
        assert!(shown("other key", &secret, 1_001).is_none());
        assert!(shown("key", "another secret", 1_001).is_none());
        assert!(Session::shown("key", &headers(&[("cookie", &sent)]), 1_001).is_none());
        assert!(shown("key", &secret, 999 + IDLE_MS_MAX).is_some());
        assert!(shown("key", &secret, 1_000 + IDLE_MS_MAX).is_none());
        // Use prolongs the session, up to a maximum.
        let last = SESSION_MS_MAX + 999;
        let seen = shown("key", &secret, 2_000).unwrap().seen(last).sealed("key", &secret).unwrap();
        let sent = format!("{COOKIE}={seen}");
        let headers_of_it = headers(&[("cookie", &sent), (SECRET, &secret)]);
        assert!(Session::shown("key", &headers_of_it, last).is_some());
        assert!(Session::shown("key", &headers_of_it, last + 1).is_none());
        let ended = cookie(None, &HeaderMap::new()).unwrap();
        let ended = ended.to_str().unwrap();
        assert!(ended.starts_with("reseq-session=;") && !ended.contains("Secure"), "{ended}");
    }

    #[test]
    fn only_pages_of_this_process_use_the_cookie() {
        let check = |method: Method, pairs: &[(&'static str, &str)]| {
            check_origin(&method, &headers(pairs), &Uri::from_static("/v1/stats")).is_ok()
        };
        let (host, other) = (("host", "reseq:9090"), ("origin", "https://evil.example"));
        assert!(check(Method::GET, &[host]));
        assert!(check(Method::POST, &[host, ("origin", "http://reseq:9090")]));
        assert!(check(Method::POST, &[host, ("origin", "https://Reseq:9090")]));
        assert!(!check(Method::POST, &[host]));
        assert!(!check(Method::GET, &[host, other]));
        assert!(!check(Method::POST, &[host, other]));
        assert!(!check(Method::POST, &[host, ("origin", "http://reseq:9091")]));
        assert!(!check(Method::POST, &[host, ("origin", "null")]));
        assert!(!check(Method::GET, &[host, (FETCH_SITE, "cross-site")]));
        assert!(!check(Method::GET, &[host, (FETCH_SITE, "same-site")]));
        assert!(check(Method::GET, &[host, (FETCH_SITE, "none")]));
    }
}
