//! Keeps web pages away from a process that serves its own machine without tokens: a page that a
//! person has open there reaches loopback addresses too, directly or through a name that resolves
//! to one (DNS rebinding).

use std::net::IpAddr;

use axum::http::{HeaderMap, Uri, header};

use crate::wire::{code::Code, problem::Problem};

/// Refuses a request whose `Host` or `Origin` is not this machine.
pub(super) fn check(headers: &HeaderMap, uri: &Uri) -> Result<(), Problem> {
    let refused = |name: &str, value: &str| {
        let value = crate::wire::tcp_answer::excerpt(value.as_bytes());
        let detail = format!(
            "without tokens, this process answers only to requests for this machine, and {name} \
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
    match text(header::ORIGIN) {
        None => Ok(()),
        Some(origin) if origin.split_once("://").is_some_and(|(_, host)| is_this_machine(host)) => {
            Ok(())
        }
        Some(origin) => refused("Origin", origin),
    }
}

/// True for `localhost` and loopback addresses, with or without a port.
fn is_this_machine(host: &str) -> bool {
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    match name.parse::<IpAddr>() {
        Ok(address) => address.is_loopback(),
        Err(_) => name == "localhost" || name.ends_with(".localhost"),
    }
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
        let absolute = Uri::from_static("http://evil.example/v1/stats");
        assert!(check(&HeaderMap::new(), &absolute).is_err());
    }
}
