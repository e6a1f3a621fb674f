//! The functions that the fuzz targets call (`crates/testing/src/fuzzing/`).

use std::net::IpAddr;

use axum::http::{HeaderMap, HeaderValue, header};
use url::{Host, Url};

use super::{
    page,
    session::{self, Session},
};

/// Checks that a `Host` that counts as this machine is this machine for a client too.
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

/// Uses the text as a `Cookie` header, as the secret of a session, and as the token in a cookie.
pub fn cookies(text: &str) {
    let mut headers = HeaderMap::new();
    if let Ok(value) = HeaderValue::from_str(text) {
        headers.insert(header::COOKIE, value.clone());
        headers.insert("reseq-session", value);
        assert!(Session::shown("key", &headers, 1).is_none());
    }
    let (session, secret) = Session::begin(text, 1);
    let value = session.sealed("key", &secret);
    let set = session::cookie(value.as_deref(), &HeaderMap::new()).unwrap();
    let sent = set.to_str().unwrap().split(';').next().unwrap();
    headers.insert(header::COOKIE, sent.parse().unwrap());
    headers.insert("reseq-session", secret.parse().unwrap());
    assert_eq!(Session::shown("key", &headers, 1).unwrap().token, text);
}
