//! Which headers travel with a message: Reseq stores them with the message, and sends them to the transform and the
//! receiver.

use serde::{Deserialize, Serialize};

use crate::message::{CONTENT_ENCODING, is_token};

/// The header that carries the id of a request. It belongs to the request, so it never travels.
pub const REQUEST_ID: &str = "x-request-id";

/// The most patterns of one destination.
const PATTERNS_MAX: usize = 50;
/// The longest pattern, in bytes.
const PATTERN_BYTES_MAX: usize = 128;

/// Patterns of header names. Each pattern is a name in lower case, or a prefix followed by `*`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ForwardHeaders(Vec<String>);

/// Headers that frame a request, belong to one connection, or decide how an answer looks; and headers that Reseq sets
/// itself.
const RESERVED: [&str; 12] = [
    "accept-encoding",
    "connection",
    "content-length",
    "content-type",
    "expect",
    "host",
    "idempotency-key",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// All headers with these prefixes are reserved too.
const RESERVED_PREFIXES: [&str; 2] = ["proxy-", "reseq-"];

/// The patterns of headers that travel by default.
const DEFAULT: [&str; 5] = ["x-*", "ce-*", "traceparent", "tracestate", "webhook-*"];

/// A header holds a credential if its name contains one of these.
const CREDENTIALS: [&str; 3] = ["authorization", "cookie", "signature"];
/// Known names of such headers. A pattern that matches one is refused. The default patterns are not, because they match
/// other headers too.
const KNOWN: [&str; 4] = ["authorization", "cookie", "stripe-signature", "x-hub-signature-256"];

/// True if a header, with its name in lower case, holds a credential: anybody who gets its value could send in the name
/// of the producer.
pub fn is_credential(name: &str) -> bool {
    CREDENTIALS.iter().any(|part| name.contains(part))
}

/// True if a header, with its name in lower case, never travels.
pub fn is_reserved(name: &str) -> bool {
    RESERVED.contains(&name) || RESERVED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

impl Default for ForwardHeaders {
    fn default() -> Self {
        ForwardHeaders(DEFAULT.map(str::to_owned).into())
    }
}

impl ForwardHeaders {
    /// A list of patterns.
    pub fn new<P: Into<String>>(patterns: impl IntoIterator<Item = P>) -> ForwardHeaders {
        ForwardHeaders(patterns.into_iter().map(Into::into).collect())
    }

    /// True if a header with this name, in lower case, travels. The header that says how the body is encoded always
    /// travels.
    pub fn has(&self, name: &str) -> bool {
        let is_listed = self.0.iter().any(|pattern| matches(pattern, name));
        name == CONTENT_ENCODING || is_listed && name != REQUEST_ID && !is_credential(name)
    }

    /// True if a pattern has no effect, because it is for a credential, or for a header that `is_ignored` names.
    pub(super) fn has_ignored(&self, is_ignored: impl Fn(&str) -> bool) -> bool {
        self.0.iter().any(|pattern| names_credential(pattern) || is_ignored(pattern))
    }

    /// Checks the patterns. Returns the problem of the first bad pattern.
    pub(super) fn validate(&self) -> Result<(), String> {
        if self.0.len() > PATTERNS_MAX {
            return Err(format!("more than {PATTERNS_MAX} patterns"));
        }
        self.0.iter().try_for_each(|pattern| {
            check(pattern).map_err(|problem| format!("{pattern:?}: {problem}"))
        })
    }
}

fn matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => pattern == name,
    }
}

/// True for a pattern that names a credential, or matches a known name of one.
fn names_credential(pattern: &str) -> bool {
    let is_known = || KNOWN.iter().any(|name| matches(pattern, name));
    !DEFAULT.contains(&pattern) && (is_credential(pattern) || is_known())
}

fn check(pattern: &str) -> Result<(), String> {
    let name = pattern.strip_suffix('*').unwrap_or(pattern);
    if pattern.len() > PATTERN_BYTES_MAX {
        return Err(format!("is longer than {PATTERN_BYTES_MAX} bytes"));
    }
    if pattern == "*" {
        return Err("would send every header on, with its secrets; name the headers".into());
    }
    if name.contains('*') {
        return Err("* stands only at the end".into());
    }
    if name.is_empty() || !name.bytes().all(is_token) {
        return Err("is not a header name".into());
    }
    if name.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return Err("write it in lower case".into());
    }
    if pattern == REQUEST_ID {
        return Err("never travels: it is the id of one request".into());
    }
    if names_credential(pattern) {
        return Err("never travels: whoever gets a token, a cookie or a signature of a producer could send in its name; \
                    for the receiver, set headers or sign"
            .into());
    }
    let is_prefix = name.len() < pattern.len();
    let of_family =
        |family: &&&str| name.starts_with(**family) || (is_prefix && family.starts_with(name));
    let found = RESERVED.iter().find(|reserved| matches(pattern, reserved));
    match found.or_else(|| RESERVED_PREFIXES.iter().find(of_family)) {
        Some(reserved) => Err(format!(
            "{reserved}{} never travels: it belongs to one connection, or Reseq sets it itself",
            if reserved.ends_with('-') { "…" } else { "" }
        )),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extensions_and_traces_travel_by_default() {
        let default = ForwardHeaders::default();
        assert_eq!(default.validate(), Ok(()));
        for name in ["x-tenant", "ce-type", "traceparent", "tracestate", "webhook-id"] {
            assert!(default.has(name), "{name}");
        }
        for name in [
            "authorization",
            "host",
            "content-length",
            "cookie",
            "reseq-key",
            "stripe-signature",
            "webhook-signature",
            "x-hub-signature-256",
            "x-request-id",
            "traceparents",
            "webhook",
            "ce",
        ] {
            assert!(!default.has(name), "{name}");
        }
    }

    #[test]
    fn a_pattern_is_a_name_or_the_beginning_of_names() {
        let list = ForwardHeaders::new(["stripe-version", "x-github-*"]);
        assert_eq!(list.validate(), Ok(()));
        for (name, travels) in [
            ("stripe-version", true),
            ("stripe-version-2", false),
            ("x-github-delivery", true),
            ("x-github-", true),
            ("x-gitlab-token", false),
        ] {
            assert_eq!(list.has(name), travels, "{name}");
        }
        let none = ForwardHeaders::new([""; 0]);
        assert!(none.validate().is_ok() && !none.has("x-tenant"));
        assert!(!ForwardHeaders::new(["x-r*"]).has("x-request-id"));
    }

    #[test]
    fn patterns_that_are_wrong_or_match_too_much_are_refused() {
        for (pattern, part) in [
            ("*", "every header"),
            ("", "not a header name"),
            ("a b", "not a header name"),
            ("x-ü", "not a header name"),
            ("x-a:", "not a header name"),
            ("X-Tenant", "lower case"),
            ("x-*-id", "only at the end"),
            ("x-**", "only at the end"),
            ("x-request-id", "one request"),
            ("connection", "connection never travels"),
            ("co*", "never travels: whoever"),
            ("con*", "connection never travels"),
            ("authorization", "never travels: whoever"),
            ("auth*", "never travels: whoever"),
            ("cookie", "never travels: whoever"),
            ("stripe-*", "never travels: whoever"),
            ("x-slack-signature", "never travels: whoever"),
            ("x-hub-*", "never travels: whoever"),
            ("content-*", "content-length never travels"),
            ("accept*", "accept-encoding never travels"),
            ("h*", "host never travels"),
            ("proxy-authorization", "never travels: whoever"),
            ("t*", "te never travels"),
            ("idempotency-*", "idempotency-key never travels"),
            ("proxy-connection", "proxy-… never travels"),
            ("p*", "proxy-… never travels"),
            ("reseq-key", "reseq-… never travels"),
            ("reseq-*", "reseq-… never travels"),
            ("res*", "reseq-… never travels"),
            (&"x".repeat(129), "longer than 128"),
        ] {
            let refused = ForwardHeaders::new([pattern]).validate().unwrap_err();
            assert!(refused.starts_with(&format!("{pattern:?}: ")), "{refused}");
            assert!(refused.contains(part), "{refused}");
        }
        for pattern in ["content-language", "proxy", "reseq", "tea", "x-*", "accept", "host-*"] {
            assert_eq!(ForwardHeaders::new([pattern]).validate(), Ok(()), "{pattern}");
        }
        let many = ForwardHeaders::new((0..51).map(|number| format!("x-{number}")));
        assert_eq!(many.validate(), Err("more than 50 patterns".into()));
    }

    #[test]
    fn all_that_a_valid_list_can_match_may_be_set_by_a_producer() {
        for name in RESERVED.iter().chain(&["proxy-connection", "reseq-key"]) {
            assert!(is_reserved(name) && !ForwardHeaders::default().has(name), "{name}");
        }
        assert!(!is_reserved("x-tenant") && !is_reserved("proxy"));
    }
}
