//! Where a key comes from if the producer gives none.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::expression::Expression;
use crate::domain::message::is_token;

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
    /// Checks the source. Returns its wrong part, and what is wrong with that.
    pub(super) fn validate(&self) -> Result<(), (&'static str, String)> {
        match self {
            KeySource::Header(name) => {
                let is_name = !name.is_empty() && name.bytes().all(is_token);
                if !is_name || name.len() > NAME_BYTES_MAX {
                    let problem = format!("not a header name of at most {NAME_BYTES_MAX} bytes");
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
        assert_eq!(KeySource::Header("Stripe-Signature".into()).validate(), Ok(()));
        let all = "[$id, $destination, $sequence, $key, $headers, .data.customer]";
        assert_eq!(KeySource::Jq(all.into()).validate(), Ok(()));
    }
}
