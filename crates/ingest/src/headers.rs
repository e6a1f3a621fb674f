//! The headers of a message: the headers that a JSON message names, and the headers of a raw request that travel.

use std::fmt;

use axum::http::HeaderMap;
use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};

use domain::excerpt::excerpt;
use domain::{
    Destination,
    destination::ForwardHeaders,
    message::{HEADERS_BYTES_MAX, HEADERS_MAX, is_token},
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

/// The headers with lower-case names, or the first problem. Whether they travel depends on the
/// destination.
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
        let problem = if name.is_empty() || !name.bytes().all(is_token) {
            "is not a header name"
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

/// Refuses a header of a JSON message that does not travel to this destination.
pub(super) fn check_named(
    headers: &[(String, String)],
    destination: &Destination,
) -> Result<(), String> {
    match headers.iter().find(|(name, _)| !destination.forwards(name)) {
        None => Ok(()),
        Some((name, _)) => Err(format!(
            "headers.{}: does not travel to {} (forward_headers)",
            excerpt(name.as_bytes()),
            destination.name
        )),
    }
}

/// The headers of a raw request that are on this list.
pub(super) fn travelling(
    request: &HeaderMap,
    list: &ForwardHeaders,
) -> Result<Vec<(String, String)>, String> {
    let mut taken = Vec::new();
    let mut bytes = 0;
    for (name, value) in request.iter().filter(|(name, _)| list.has(name.as_str())) {
        let value = value.to_str().map_err(|_| format!("{name}: its value is not ASCII text"))?;
        bytes += name.as_str().len() + value.len();
        taken.push((name.as_str().to_owned(), value.to_owned()));
    }
    if taken.len() > HEADERS_MAX || bytes > HEADERS_BYTES_MAX {
        return Err(format!(
            "at most {HEADERS_MAX} headers, of {HEADERS_BYTES_MAX} bytes together, travel with a message"
        ));
    }
    Ok(taken)
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderName, HeaderValue};

    use super::*;

    fn request(pairs: &[(&'static str, &[u8])]) -> HeaderMap {
        let parse = |(name, value): &(&'static str, &[u8])| {
            (HeaderName::from_static(name), HeaderValue::from_bytes(value).unwrap())
        };
        pairs.iter().map(parse).collect()
    }

    #[test]
    fn of_a_request_travels_what_the_list_has_and_nothing_else() {
        let request = request(&[
            ("host", b"h"),
            ("x-request-id", b"r"),
            ("x-tenant", b"7"),
            ("x-tenant", b"8"),
            ("authorization", b"\xff"),
            ("from", b"\xff"),
            ("webhook-id", b"msg_1"),
        ]);
        let names = |list: &ForwardHeaders| {
            let taken = travelling(&request, list).unwrap();
            taken.into_iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>()
        };
        let default = ForwardHeaders::default();
        assert_eq!(names(&default), ["x-tenant=7", "x-tenant=8", "webhook-id=msg_1"]);
        assert_eq!(names(&ForwardHeaders::new(["webhook-*"])), ["webhook-id=msg_1"]);
        assert_eq!(names(&ForwardHeaders::new([""; 0])), [""; 0]);
        // A credential does not, whatever a stored list says.
        assert_eq!(names(&ForwardHeaders::new(["authorization"])), [""; 0]);
        // Only what travels must be text.
        let problem = travelling(&request, &ForwardHeaders::new(["from"])).unwrap_err();
        assert_eq!(problem, "from: its value is not ASCII text");
    }

    #[test]
    fn only_what_travels_counts_for_the_limits() {
        let long = vec![b'v'; HEADERS_BYTES_MAX];
        let request = request(&[("x-long", &long), ("webhook-id", b"1")]);
        assert_eq!(travelling(&request, &ForwardHeaders::new(["webhook-*"])).unwrap().len(), 1);
        let problem = travelling(&request, &ForwardHeaders::default()).unwrap_err();
        assert!(problem.contains("16384 bytes"), "{problem}");
    }

    #[test]
    fn what_a_message_names_must_travel_to_its_destination() {
        let mut erp = Destination::new("erp".parse().unwrap(), "http://h/");
        let named = |name: &str| [(name.to_owned(), "1".to_owned())];
        assert_eq!(check_named(&named("x-tenant"), &erp), Ok(()));
        let refused = |name: &str| check_named(&named(name), &erp).unwrap_err();
        for name in ["authorization", "x-request-id", "content-type", "reseq-key"] {
            let expected = format!("headers.{name}: does not travel to erp (forward_headers)");
            assert_eq!(refused(name), expected);
        }
        erp.forward_headers = ForwardHeaders::new(["shop-*", "stripe-signature"]);
        assert_eq!(check_named(&named("shop-id"), &erp), Ok(()));
        assert!(check_named(&named("stripe-signature"), &erp).is_err());
        assert!(check_named(&named("x-tenant"), &erp).is_err());
    }
}
