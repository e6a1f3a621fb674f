//! Paths, queries and bodies of requests.

use serde_json::Value;

/// A parameter of a query or a field of a body; left out if it has no value.
pub type Field = (&'static str, Option<Value>);

/// A path of a destination; `rest` is empty for the destination itself.
pub fn path_of(destination: &str, rest: &str) -> String {
    named("destinations", destination, rest)
}

/// A path of a topic.
pub fn path_of_topic(topic: &str) -> String {
    named("topics", topic, "")
}

fn named(noun: &str, name: &str, rest: &str) -> String {
    let slash = if rest.is_empty() { "" } else { "/" };
    format!("/v1/{noun}/{}{slash}{rest}", percent_encoded(name))
}

/// A query string with the parameters that have a value.
pub fn query(fields: &[Field]) -> String {
    let given = fields.iter().filter_map(|(name, value)| {
        let text = match value.as_ref()? {
            Value::String(text) => percent_encoded(text),
            other => percent_encoded(&other.to_string()),
        };
        Some(format!("{name}={text}"))
    });
    match given.collect::<Vec<_>>().join("&") {
        none if none.is_empty() => none,
        some => format!("?{some}"),
    }
}

/// A JSON object with the fields that have a value.
pub fn object(fields: &[Field]) -> Value {
    let given = fields
        .iter()
        .filter_map(|(name, value)| value.clone().map(|value| ((*name).to_owned(), value)));
    Value::Object(given.collect())
}

/// The value `true` of a flag that is set.
pub fn flag(is_set: bool) -> Option<Value> {
    is_set.then_some(Value::Bool(true))
}

/// The value of an option with a text.
pub fn text(value: Option<&str>) -> Option<Value> {
    value.map(Value::from)
}

/// Encodes a text for use in a path or a query.
pub fn percent_encoded(text: &str) -> String {
    const KEPT: &percent_encoding::AsciiSet =
        &percent_encoding::NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
    percent_encoding::utf8_percent_encode(text, KEPT).to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_not_given_is_not_asked_for() {
        assert_eq!(query(&[("a", None), ("b", None)]), "");
        let given = [("a", text(Some("ä b"))), ("c", text(Some(""))), ("d", Some(json!(7)))];
        assert_eq!(query(&given), "?a=%C3%A4%20b&c=&d=7");
        assert_eq!(object(&[("a", None), ("b", Some(json!(1)))]), json!({"b": 1}));
        assert_eq!(object(&[("a", flag(false)), ("b", flag(true))]), json!({"b": true}));
        assert_eq!(path_of("a/b", "log"), "/v1/destinations/a%2Fb/log");
        assert_eq!(path_of("erp", ""), "/v1/destinations/erp");
    }
}
