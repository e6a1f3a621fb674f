//! The session of a browser that is signed in to the console: a cookie that holds the token. Redis and this
//! process store nothing for it, so every process accepts it, and it ends when the token is revoked.
//!
//! A browser adds a cookie to a request by itself, also if another web page made the request. So a cookie
//! counts only if the request comes from a page of this process.

use axum::http::{HeaderMap, HeaderValue, Method, Uri, header};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};

use crate::wire::{code::Code, problem::Problem};

/// The name of the cookie.
const COOKIE: &str = "reseq-session";
/// The header in which a browser says where a request comes from. No page can set it.
pub(super) const FETCH_SITE: &str = "sec-fetch-site";

/// The token in the cookie of a request.
pub(super) fn token_of(headers: &HeaderMap) -> Option<String> {
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = cookies.flat_map(|line| line.split(';')).filter_map(|one| one.split_once('='));
    let (_, value) = pairs.find(|(name, _)| name.trim() == COOKIE)?;
    let bytes = URL_SAFE_NO_PAD.decode(value.trim()).ok()?;
    String::from_utf8(bytes).ok().filter(|token| !token.is_empty())
}

/// The cookie that begins a session with this token; without a token, the cookie that ends it.
pub fn cookie(token: Option<&str>, headers: &HeaderMap) -> Option<HeaderValue> {
    let is_encrypted = text_of(headers, header::ORIGIN.as_str())
        .is_some_and(|origin| origin.to_ascii_lowercase().starts_with("https://"));
    let secure = if is_encrypted { "; Secure" } else { "" };
    let (value, age) = match token {
        Some(token) => (URL_SAFE_NO_PAD.encode(token), ""),
        None => (String::new(), "; Max-Age=0"),
    };
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
            let origin = crate::wire::tcp_answer::excerpt(origin.unwrap_or_default().as_bytes());
            let host = crate::wire::tcp_answer::excerpt(host.as_bytes());
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
    fn a_cookie_holds_the_token_and_scripts_cannot_read_it() {
        let set = cookie(Some("a token; =\"x\""), &headers(&[("origin", "https://a")])).unwrap();
        let set = set.to_str().unwrap().to_owned();
        for part in ["; HttpOnly", "; SameSite=Strict", "; Secure", "; Path=/"] {
            assert!(set.contains(part), "{set}");
        }
        let sent = format!("other=1; {}", set.split(';').next().unwrap());
        assert_eq!(token_of(&headers(&[("cookie", &sent)])).as_deref(), Some("a token; =\"x\""));
        let ended = cookie(None, &HeaderMap::new()).unwrap();
        assert_eq!(token_of(&headers(&[("cookie", ended.to_str().unwrap())])), None);
        assert!(!ended.to_str().unwrap().contains("Secure"));
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
