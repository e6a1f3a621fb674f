//! How a message's parts are written as JSON, wherever a message is shown whole: to workers, to
//! receivers of batches, to people, to expressions.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// Reads a field that may be left out: `null` is a value of it like any other.
pub fn even_null<'a, D: Deserializer<'a>, T: Deserialize<'a>>(
    from: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}

/// The body as the very JSON that it is; none if it is not JSON, or not called so: what only says
/// that it is JSON goes as bytes.
pub fn json_body(content_type: &str, bytes: &[u8]) -> Option<Box<RawValue>> {
    let media_type = content_type.split(';').next().unwrap_or_default().trim();
    if media_type != "application/json" && !media_type.ends_with("+json") {
        return None;
    }
    let text = String::from_utf8(bytes.to_vec()).ok()?;
    RawValue::from_string(text).ok()
}

/// Headers of one name become one, its values joined as RFC 9110, 5.3 allows.
pub fn joined_headers(headers: &[(String, String)]) -> BTreeMap<String, String> {
    let mut joined: BTreeMap<String, String> = BTreeMap::new();
    for (name, value) in headers {
        joined
            .entry(name.clone())
            .and_modify(|whole| {
                whole.push_str(", ");
                whole.push_str(value);
            })
            .or_insert_with(|| value.clone());
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_json_if_it_is_called_so_and_is_so() {
        let text = |content_type, bytes: &[u8]| {
            json_body(content_type, bytes).map(|json| json.get().to_owned())
        };
        assert_eq!(text("application/json; charset=utf-8", b"{\"a\": 1}").unwrap(), "{\"a\": 1}");
        assert!(text("application/problem+json", b"[]").is_some());
        for (content_type, bytes) in
            [("text/plain", &b"1"[..]), ("application/json", b"{"), ("application/json", b"\xff")]
        {
            assert_eq!(text(content_type, bytes), None, "{content_type}");
        }
    }

    #[test]
    fn values_of_one_name_are_joined_in_their_order() {
        let headers = [("x-a", ""), ("x-b", "1"), ("x-a", "2")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
        let joined = joined_headers(&headers);
        assert_eq!((joined["x-a"].as_str(), joined["x-b"].as_str()), (", 2", "1"));
    }
}
