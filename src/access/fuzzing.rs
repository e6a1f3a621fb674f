//! What fuzzing calls of this module (`src/fuzzing`).

use std::net::IpAddr;

use axum::http::{HeaderMap, HeaderValue, header};
use url::{Host, Url};

use super::{page, session};

/// The value of a header `Host`: what counts as this machine is this machine for a client, too.
pub fn hosts(text: &str) {
    let Ok(url) = Url::parse(&format!("http://{text}/")) else { return };
    if !page::is_this_machine(text) {
        return;
    }
    let is_local = match url.host() {
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => IpAddr::V6(ip).to_canonical().is_loopback(),
        Some(Host::Domain(name)) => {
            let name = name.trim_end_matches('.');
            name == "localhost" || name.ends_with(".localhost")
        }
        None => false,
    };
    assert!(is_local, "{text:?} is {:?}", url.host());
}

/// A header `Cookie`, and a token that a cookie holds.
pub fn cookies(text: &str) {
    let mut headers = HeaderMap::new();
    if let Ok(value) = HeaderValue::from_str(text) {
        headers.insert(header::COOKIE, value);
        assert_ne!(session::token_of(&headers).as_deref(), Some(""));
    }
    let set = session::cookie(Some(text), &HeaderMap::new()).unwrap();
    let sent = set.to_str().unwrap().split(';').next().unwrap();
    headers.insert(header::COOKIE, sent.parse().unwrap());
    let expected = Some(text).filter(|text| !text.is_empty());
    assert_eq!(session::token_of(&headers).as_deref(), expected);
}
