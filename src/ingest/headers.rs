//! The headers of a message in JSON.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};

use crate::{
    domain::message::{HEADERS_BYTES_MAX, HEADERS_MAX, travels},
    wire::answer::excerpt,
};

/// A JSON object of strings, in the order sent. A map would silently keep the last of two equal
/// names; this list keeps both, so that the check can refuse them.
#[derive(Default)]
pub(super) struct HeaderList(Vec<(String, String)>);

impl<'de> Deserialize<'de> for HeaderList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs;

        impl<'de> Visitor<'de> for Pairs {
            type Value = HeaderList;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("an object of strings")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<HeaderList, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(HeaderList(pairs))
            }
        }

        deserializer.deserialize_map(Pairs)
    }
}

/// The headers with lower-case names, or the first problem.
pub(super) fn check_headers(list: HeaderList) -> Result<Vec<(String, String)>, String> {
    let HeaderList(mut headers) = list;
    if headers.len() > HEADERS_MAX {
        return Err(format!("headers: more than {HEADERS_MAX}"));
    }
    let bytes: usize = headers.iter().map(|(name, value)| name.len() + value.len()).sum();
    if bytes > HEADERS_BYTES_MAX {
        return Err(format!("headers: more than {HEADERS_BYTES_MAX} bytes together"));
    }
    for i in 0..headers.len() {
        let (earlier, rest) = headers.split_at_mut(i);
        let (name, value) = &mut rest[0];
        name.make_ascii_lowercase();
        let problem = if !name.bytes().all(is_token) || !travels(name) {
            "does not travel; only x-…, ce-…, traceparent and tracestate do"
        } else if value.chars().any(|c| c.is_ascii_control() && c != '\t') {
            "its value holds control characters"
        } else if earlier.iter().any(|(other, _)| other == name) {
            "is given twice"
        } else {
            continue;
        };
        return Err(format!("headers.{}: {problem}", excerpt(name.as_bytes())));
    }
    Ok(headers)
}

/// True for a byte that a header name may have (`tchar` of RFC 9110, 5.6.2).
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}
