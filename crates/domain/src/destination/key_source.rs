//! The part of a message that holds its key, if the producer gives none.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Destination, expression::Expression, forward_headers::is_credential};
use crate::message::is_token;

/// The longest name of a header, in bytes.
const NAME_BYTES_MAX: usize = 128;

/// The part of a message that holds its ordering key or its idempotency key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum KeySource {
    /// The value of this header.
    Header(String),
    /// The output of this `jq` expression for the body.
    Jq(String),
}

impl KeySource {
    /// True for a header that holds a credential of the producer. Its value never becomes a key.
    pub fn is_ignored(&self) -> bool {
        matches!(self, KeySource::Header(name) if is_credential(&name.to_ascii_lowercase()))
    }

    /// True if the key comes only from the body, which is the part that a signature covers.
    pub fn is_of_body(&self) -> bool {
        matches!(self, KeySource::Jq(expression) if !expression.contains("$headers"))
    }

    /// Checks the source. Returns the part that is wrong, and the problem.
    pub(super) fn validate(&self) -> Result<(), (&'static str, String)> {
        match self {
            KeySource::Header(name) => {
                let is_name = !name.is_empty() && name.bytes().all(is_token);
                if !is_name || name.len() > NAME_BYTES_MAX {
                    let problem = format!("not a header name of at most {NAME_BYTES_MAX} bytes");
                    return Err(("header", problem));
                }
                if self.is_ignored() {
                    let problem = format!(
                        "{name} shows who sends: its value must not become a key, which is stored and shown"
                    );
                    return Err(("header", problem));
                }
                Ok(())
            }
            KeySource::Jq(expression) => {
                Expression::parse(expression).map(drop).map_err(|problem| ("jq", problem))
            }
        }
    }
}

/// Finds credentials of producers in a definition.
impl Destination {
    /// True for the header, in any case, whose signature Reseq verifies: it holds a credential, whatever its name is.
    pub(super) fn verifies(&self, name: &str) -> bool {
        let verify = self.verify.as_ref();
        verify.is_some_and(|verify| verify.signature_header().eq_ignore_ascii_case(name))
    }

    /// The sources of the ordering key and of the idempotency key. Leaves out a source that is a credential: older
    /// definitions may still name one.
    pub fn key_sources(&self) -> [Option<&KeySource>; 2] {
        [&self.key_from, &self.idempotency_key_from].map(|source| {
            source.as_ref().filter(|source| {
                !source.is_ignored()
                    && !matches!(source, KeySource::Header(name) if self.verifies(name))
            })
        })
    }

    /// The first field that names a credential of producers, and so has no effect.
    pub fn ignored_field(&self) -> Option<&'static str> {
        let [key, idempotency_key] = self.key_sources();
        let fields = [
            ("forward_headers", self.forward_headers.has_ignored(|name| self.verifies(name))),
            ("key_from.header", self.key_from.as_ref() != key),
            ("idempotency_key_from.header", self.idempotency_key_from.as_ref() != idempotency_key),
        ];
        fields.into_iter().find(|(_, is_ignored)| *is_ignored).map(|(field, _)| field)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_source_is_a_header_or_an_expression() {
        let read = |value: Value| serde_json::from_value::<KeySource>(value);
        let header = KeySource::Header("X-GitHub-Delivery".into());
        assert_eq!(read(json!({"header": "X-GitHub-Delivery"})).unwrap(), header);
        assert_eq!(json!(header), json!({"header": "X-GitHub-Delivery"}));
        let jq = KeySource::Jq(".data.customer".into());
        assert_eq!(read(json!({"jq": ".data.customer"})).unwrap(), jq);
        for wrong in
            [json!({}), json!({"header": "a", "jq": "."}), json!({"body": "x"}), json!("header")]
        {
            assert!(read(wrong.clone()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        let refused = |source: KeySource| source.validate().unwrap_err();
        for name in ["", "a b", "x-ü", &"x".repeat(129)] {
            assert_eq!(refused(KeySource::Header(name.into())).0, "header", "{name}");
        }
        let (part, problem) = refused(KeySource::Jq(".a | nosuch".into()));
        assert_eq!((part, problem.contains("nosuch")), ("jq", true), "{problem}");
        for name in ["Authorization", "proxy-authorization", "Cookie", "Stripe-Signature"] {
            let (part, problem) = refused(KeySource::Header(name.into()));
            assert_eq!((part, problem.contains("shows who sends")), ("header", true), "{problem}");
        }
        assert_eq!(KeySource::Header("X-Event-Id".into()).validate(), Ok(()));
        let all = "[$id, $destination, $sequence, $key, $headers, .data.customer]";
        assert_eq!(KeySource::Jq(all.into()).validate(), Ok(()));
    }
}
