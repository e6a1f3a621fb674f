//! Protects a process that serves its own machine without tokens from web pages. A page open in a
//! browser there can reach loopback addresses, directly or through a name that resolves to one
//! (DNS rebinding). Also refuses proxies: they would forward requests of other machines.

use std::net::{Ipv4Addr, Ipv6Addr};

use axum::http::{HeaderMap, Uri, header};

use super::session::FETCH_SITE;
use formats::code::Code;
use http_server::problem::Problem;

/// Headers that a proxy adds to a request, besides `X-Forwarded-…`.
const OF_PROXIES: [&str; 3] = ["forwarded", "via", "x-real-ip"];

/// Refuses a request whose `Host` or `Origin` is not this machine, that a page of another site makes, or that came
/// through a proxy.
pub(super) fn check(headers: &HeaderMap, uri: &Uri) -> Result<(), Problem> {
    let refused = |name: &str, value: &str| {
        let value = domain::excerpt::excerpt(value.as_bytes());
        let detail = format!(
            "without tokens, this process answers only to programs of this machine, and {name} \
             is {value:?}; make a token (reseq tokens create), or set auth.mode = \"none\""
        );
        Err(Problem::new(Code::ForbiddenOrigin, detail))
    };
    let text =
        |name: header::HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    // A request line with an absolute URL names the host there.
    let host = uri.authority().map(|authority| authority.as_str()).or(text(header::HOST));
    if let Some(host) = host
        && !is_this_machine(host)
    {
        return refused("Host", host);
    }
    let is_of_proxy = |name: &str| OF_PROXIES.contains(&name) || name.starts_with("x-forwarded-");
    for (name, value) in headers {
        let name = name.as_str();
        if is_of_proxy(name) || (name == FETCH_SITE && value == "cross-site") {
            return refused(name, value.to_str().unwrap_or("?"));
        }
    }
    match text(header::ORIGIN) {
        None => Ok(()),
        Some(origin) if origin.split_once("://").is_some_and(|(_, host)| is_this_machine(host)) => {
            Ok(())
        }
        Some(origin) => refused("Origin", origin),
    }
}

/// True for `localhost`, names below it and loopback addresses, with or without a port. False for
/// a text with more in it, such as a user or a path.
pub(super) fn is_this_machine(host: &str) -> bool {
    if let Some(rest) = host.strip_prefix('[') {
        let Some((address, port)) = rest.split_once(']') else { return false };
        return is_port(port) && address.parse().is_ok_and(|ip: Ipv6Addr| ip.is_loopback());
    }
    let (name, port) = host.split_at(host.find(':').unwrap_or(host.len()));
    if !is_port(port) {
        return false;
    }
    if let Ok(address) = name.parse::<Ipv4Addr>() {
        return address.is_loopback();
    }
    let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    let is_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    is_name && (name == "localhost" || name.ends_with(".localhost"))
}

/// True if the text is empty or a port (`:8080`).
fn is_port(text: &str) -> bool {
    let digits = text.strip_prefix(':');
    text.is_empty() || digits.is_some_and(|text| text.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_this_machine() {
        for host in ["localhost", "LOCALHOST:8080", "127.0.0.1:1", "127.9.9.9", "[::1]:80", "[::1]"]
        {
            assert!(is_this_machine(host), "{host}");
        }
        assert!(is_this_machine("app.localhost") && is_this_machine("localhost."));
        for host in [
            "evil.example",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "evil.example:127",
            "0.0.0.0",
            "10.0.0.1",
            "[::]",
            "[::ffff:10.0.0.1]",
            "localhost@evil.example",
            "evil.example@[::1]",
            "evil.example/.localhost",
            "[::1].evil.example",
            "[localhost]",
            "localhost:evil.example",
            "",
            "?",
        ] {
            assert!(!is_this_machine(host), "{host}");
        }
    }

    #[test]
    fn a_page_of_another_origin_is_refused() {
        let checked = |host: &'static str, origin: Option<&'static str>| {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, host.parse().unwrap());
            headers.extend(origin.map(|origin| (header::ORIGIN, origin.parse().unwrap())));
            check(&headers, &Uri::from_static("/v1/stats")).is_ok()
        };
        assert!(checked("127.0.0.1:8080", None));
        assert!(checked("127.0.0.1:8080", Some("http://localhost:3000")));
        assert!(!checked("127.0.0.1:8080", Some("https://evil.example")));
        assert!(!checked("127.0.0.1:8080", Some("null")));
        assert!(!checked("evil.example", None));
        for (name, value) in [
            ("forwarded", "for=192.0.2.1"),
            ("via", "1.1 proxy"),
            ("x-real-ip", "192.0.2.1"),
            ("x-forwarded-for", "127.0.0.1"),
            ("x-forwarded-host", "localhost"),
            ("sec-fetch-site", "cross-site"),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(name, value.parse().unwrap());
            let refused = check(&headers, &Uri::from_static("/v1/stats")).unwrap_err().detail;
            for part in [name, "reseq tokens create", "auth.mode = \"none\""] {
                assert!(refused.contains(part), "{refused}");
            }
        }
        let mut of_a_page = HeaderMap::new();
        of_a_page.insert("sec-fetch-site", "same-site".parse().unwrap());
        assert!(check(&of_a_page, &Uri::from_static("/v1/stats")).is_ok());
        let absolute = Uri::from_static("http://evil.example/v1/stats");
        assert!(check(&HeaderMap::new(), &absolute).is_err());
    }
}
