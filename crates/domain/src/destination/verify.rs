//! How the signatures of arriving requests are verified.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{InvalidField, Secrets, StandardSecret};
use crate::message::is_token;

/// The default of `tolerance_ms`.
const TOLERANCE_MS: u64 = 5 * 60_000;
/// The shortest and the longest `tolerance_ms`.
const TOLERANCE_MS_RANGE: std::ops::RangeInclusive<u64> = 1_000..=24 * 3_600_000;
/// The length of a secret that does not have the form of Standard Webhooks, in bytes.
const SECRET_BYTES: std::ops::RangeInclusive<usize> = 16..=512;
/// The longest `prefix` and `signed`, in bytes.
const TEXT_BYTES_MAX: usize = 256;

/// How the signatures of arriving requests are verified.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Verify {
    /// Who signs, and how.
    pub kind: VerifyKind,
    /// The secrets. A signature with one of them is enough, so that a secret can be changed without a pause.
    #[schema(value_type = Vec<String>, min_items = 1, max_items = 10)]
    pub secrets: Secrets,
    /// The longest difference between the time of a signature and now, in milliseconds; 5 minutes if absent. Only for
    /// signatures that cover a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1_000, maximum = 86_400_000)]
    pub tolerance_ms: Option<u64>,
    /// `hmac`: the header with the signature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header: Option<String>,
    /// `hmac`: the hash function; `sha256` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub algorithm: Option<HmacAlgorithm>,
    /// `hmac`: how the signature is written; `hex` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<SignatureEncoding>,
    /// `hmac`: the text before the signature in its header, such as `sha256=`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// `hmac`: the header with the time of the signature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timestamp_header: Option<String>,
    /// `hmac`: the header with the id of the message. The id becomes the idempotency key, if the signature covers it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id_header: Option<String>,
    /// `hmac`: the text that is signed, with `{body}`, `{timestamp}` and `{id}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signed: Option<String>,
}

/// Who signs requests, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum VerifyKind {
    /// Standard Webhooks, which other deployments of Reseq also use: `webhook-signature`.
    StandardWebhooks,
    /// Stripe: `Stripe-Signature`.
    Stripe,
    /// GitHub: `X-Hub-Signature-256`.
    Github,
    /// Any other HMAC. The other fields describe it.
    Hmac,
}

/// The hash function of an HMAC.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum HmacAlgorithm {
    /// SHA-1, for producers that have nothing better.
    Sha1,
    /// SHA-256.
    #[default]
    Sha256,
    /// SHA-384.
    Sha384,
    /// SHA-512.
    Sha512,
}

/// How a signature is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SignatureEncoding {
    /// Hexadecimal digits.
    #[default]
    Hex,
    /// Base64.
    Base64,
    /// Base64 with the alphabet for URLs.
    Base64Url,
}

/// A part of the signed text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignedPart<'a> {
    /// This text.
    Text(&'a str),
    /// The time of the signature, as the request's header gives it.
    Timestamp,
    /// The id of the message.
    Id,
    /// The body.
    Body,
}

impl Verify {
    /// The longest difference between the time of a signature and now, in milliseconds.
    pub fn tolerance_ms(&self) -> u64 {
        self.tolerance_ms.unwrap_or(TOLERANCE_MS)
    }

    /// The name of the header with the signature.
    pub fn signature_header(&self) -> &str {
        match self.kind {
            VerifyKind::StandardWebhooks => "webhook-signature",
            VerifyKind::Stripe => "stripe-signature",
            VerifyKind::Github => "x-hub-signature-256",
            VerifyKind::Hmac => self.header.as_deref().unwrap_or_default(),
        }
    }

    /// True if the signature covers a time.
    pub fn has_time(&self) -> bool {
        match self.kind {
            VerifyKind::StandardWebhooks | VerifyKind::Stripe => true,
            VerifyKind::Github => false,
            VerifyKind::Hmac => self.timestamp_header.is_some(),
        }
    }

    /// `hmac`: the parts of the text that is signed.
    pub fn signed_parts(&self) -> Result<Vec<SignedPart<'_>>, String> {
        let default = if self.timestamp_header.is_some() { "{timestamp}.{body}" } else { "{body}" };
        const BRACE: &str = "has a brace without its counterpart";
        let mut rest = self.signed.as_deref().unwrap_or(default);
        let mut parts = Vec::new();
        loop {
            let (text, after) = match rest.split_once('{') {
                Some((text, after)) => (text, Some(after)),
                None => (rest, None),
            };
            if text.contains('}') {
                return Err(BRACE.into());
            }
            if !text.is_empty() {
                parts.push(SignedPart::Text(text));
            }
            let Some(after) = after else { break };
            let (name, after) = after.split_once('}').ok_or(BRACE)?;
            parts.push(match name {
                "timestamp" => SignedPart::Timestamp,
                "id" => SignedPart::Id,
                "body" => SignedPart::Body,
                _ => return Err("knows only {timestamp}, {id} and {body}".into()),
            });
            rest = after;
        }
        Ok(parts)
    }

    pub(super) fn validate(&self) -> Result<(), InvalidField> {
        let check = |secret: &str| match self.kind {
            VerifyKind::StandardWebhooks => match StandardSecret::parse(secret)? {
                StandardSecret::Private(_) => Err(
                    "whsk_ is a private key, which only the sender needs; give the public one, \
                         which begins with whpk_"
                        .into(),
                ),
                _ => Ok(()),
            },
            _ => check_text(secret),
        };
        self.secrets.validate("verify.secrets", check)?;
        if let Some(ms) = self.tolerance_ms {
            if !self.has_time() {
                return Err(bad("verify.tolerance_ms", "no time is signed; leave it out"));
            }
            if !TOLERANCE_MS_RANGE.contains(&ms) {
                let (min, max) = TOLERANCE_MS_RANGE.into_inner();
                return Err(bad("verify.tolerance_ms", format!("{ms} is outside {min} to {max}")));
            }
        }
        match self.kind {
            VerifyKind::Hmac => self.validate_hmac(),
            _ => self.validate_others(),
        }
    }

    fn validate_others(&self) -> Result<(), InvalidField> {
        for (field, is_set) in [
            ("verify.header", self.header.is_some()),
            ("verify.algorithm", self.algorithm.is_some()),
            ("verify.encoding", self.encoding.is_some()),
            ("verify.prefix", self.prefix.is_some()),
            ("verify.timestamp_header", self.timestamp_header.is_some()),
            ("verify.id_header", self.id_header.is_some()),
            ("verify.signed", self.signed.is_some()),
        ] {
            if is_set {
                return Err(bad(field, "only the kind \"hmac\" has it; leave it out"));
            }
        }
        Ok(())
    }

    fn validate_hmac(&self) -> Result<(), InvalidField> {
        if self.header.is_none() {
            return Err(bad(
                "verify.header",
                "the kind \"hmac\" needs the header of the signature",
            ));
        }
        let headers = [
            ("verify.header", &self.header),
            ("verify.timestamp_header", &self.timestamp_header),
            ("verify.id_header", &self.id_header),
        ];
        let mut names: Vec<String> = Vec::new();
        for (field, name) in headers {
            let Some(name) = name else { continue };
            if name.is_empty() || name.len() > TEXT_BYTES_MAX || !name.bytes().all(is_token) {
                return Err(bad(field, "is not a header name"));
            }
            let name = name.to_ascii_lowercase();
            if names.contains(&name) {
                return Err(bad(field, "names the same header as another field"));
            }
            names.push(name);
        }
        if let Some(prefix) = &self.prefix
            && (prefix.len() > TEXT_BYTES_MAX || !prefix.bytes().all(is_printable))
        {
            return Err(bad("verify.prefix", "must be at most 256 printable ASCII characters"));
        }
        self.validate_signed()
    }

    fn validate_signed(&self) -> Result<(), InvalidField> {
        let signed = |problem: &str| bad("verify.signed", problem);
        if self.signed.as_ref().is_some_and(|text| text.len() > TEXT_BYTES_MAX) {
            return Err(signed("must be at most 256 bytes"));
        }
        let parts = self.signed_parts().map_err(|problem| signed(&problem))?;
        let count = |part: SignedPart| parts.iter().filter(|one| **one == part).count();
        if count(SignedPart::Body) != 1 {
            return Err(signed("must contain {body} once"));
        }
        match (self.timestamp_header.is_some(), count(SignedPart::Timestamp)) {
            (true, 1) | (false, 0) => {}
            (true, _) => {
                return Err(signed(
                    "must contain {timestamp} once: anybody could change a time that is not signed",
                ));
            }
            (false, _) => {
                return Err(signed("has a {timestamp}, and there is no timestamp_header"));
            }
        }
        match (self.id_header.is_some(), count(SignedPart::Id)) {
            (false, 1..) => Err(signed("has an {id}, and there is no id_header")),
            (_, 2..) => Err(signed("has {id} twice")),
            _ => {
                let is_joined = parts
                    .windows(2)
                    .any(|pair| pair.contains(&SignedPart::Id) && pair.contains(&SignedPart::Body));
                match is_joined {
                    true => Err(signed(
                        "needs a text between {id} and {body}, which tells where one ends",
                    )),
                    false => Ok(()),
                }
            }
        }
    }
}

/// Checks a secret that is used as plain text.
fn check_text(secret: &str) -> Result<(), String> {
    if !SECRET_BYTES.contains(&secret.len()) {
        let (min, max) = SECRET_BYTES.into_inner();
        return Err(format!("has {} bytes, and must have {min} to {max}", secret.len()));
    }
    if secret.trim() != secret || secret.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
        return Err("begins or ends with a space, or contains control characters".into());
    }
    Ok(())
}

fn is_printable(byte: u8) -> bool {
    byte.is_ascii_graphic() || byte == b' '
}

fn bad(field: &'static str, problem: impl Into<String>) -> InvalidField {
    InvalidField { field, problem: problem.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "a secret of enough bytes";

    fn of(text: &str) -> Result<(), String> {
        let verify: Verify = toml::from_str(text).map_err(|error| error.to_string())?;
        verify.validate().map_err(|error| error.to_string())
    }

    fn hmac(fields: &str) -> Result<(), String> {
        of(&format!("kind = \"hmac\"\nsecrets = [\"{SECRET}\"]\n{fields}"))
    }

    #[test]
    fn each_kind_takes_its_own_secrets_and_fields() {
        let standard = |secrets: &[&str]| {
            of(&format!("kind = \"standard_webhooks\"\nsecrets = {secrets:?}\n"))
        };
        let bytes = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
        let of_kind = |prefix: &str| format!("{prefix}_{bytes}");
        assert_eq!(standard(&[&of_kind("whsec"), &of_kind("whpk")]), Ok(()));
        for (secrets, problem) in [
            (vec![of_kind("whsk")], "private key"),
            (vec!["whpk_AAAA".to_owned()], "32 bytes"),
            (vec![SECRET.to_owned()], "must begin with whsec_"),
            (vec![], "1 to 10"),
            (vec!["***".to_owned()], "mask"),
        ] {
            let secrets: Vec<&str> = secrets.iter().map(String::as_str).collect();
            let error = standard(&secrets).unwrap_err();
            assert!(error.starts_with("verify.secrets: ") && error.contains(problem), "{error}");
        }
        for kind in ["stripe", "github"] {
            let with = |secret: &str, rest: &str| {
                of(&format!("kind = \"{kind}\"\nsecrets = [\"{secret}\"]\n{rest}"))
            };
            assert_eq!(with(SECRET, ""), Ok(()));
            for secret in ["too short", " begins with a space", &"x".repeat(513)] {
                let error = with(secret, "").unwrap_err();
                assert!(error.contains("secret 1") && !error.contains(secret), "{error}");
            }
            assert!(with(SECRET, "header = \"x\"").unwrap_err().contains("verify.header"));
            assert!(with(SECRET, "colour = 1").unwrap_err().contains("colour"));
            let error = with(SECRET, "tolerance_ms = 999").unwrap_err();
            let expected = if kind == "github" { "no time is signed" } else { "outside 1000" };
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn what_is_signed_says_where_each_part_is() {
        use SignedPart::{Body, Id, Text, Timestamp};
        let verify: Verify = toml::from_str(
            "kind = \"hmac\"\nsecrets = []\nsigned = \"v0:{timestamp}:{id}{body}!\"",
        )
        .unwrap();
        let parts = [Text("v0:"), Timestamp, Text(":"), Id, Body, Text("!")];
        assert_eq!(verify.signed_parts().unwrap(), parts);
        assert_eq!(hmac("header = \"x-s\""), Ok(()));
        let time = "header = \"x-s\"\ntimestamp_header = \"x-t\"\n";
        assert_eq!(hmac(time), Ok(()));
        assert_eq!(hmac(&format!("{time}tolerance_ms = 1000")), Ok(()));
        for (fields, problem) in [
            ("", "verify.header"),
            ("header = \"a b\"", "verify.header"),
            ("header = \"x-s\"\ntimestamp_header = \"X-S\"", "verify.timestamp_header"),
            ("header = \"x-s\"\nid_header = \"x-s\"", "verify.id_header"),
            ("header = \"x-s\"\ntolerance_ms = 1000", "no time is signed"),
            ("header = \"x-s\"\nprefix = \"\\u0007\"", "verify.prefix"),
            ("header = \"x-s\"\nsigned = \"\"", "{body} once"),
            ("header = \"x-s\"\nsigned = \"{body}{body}\"", "{body} once"),
            ("header = \"x-s\"\nsigned = \"{boddy}\"", "knows only"),
            ("header = \"x-s\"\nsigned = \"{body\"", "brace"),
            ("header = \"x-s\"\nsigned = \"{body}{\"", "brace"),
            ("header = \"x-s\"\nsigned = \"{body}}\"", "brace"),
            ("header = \"x-s\"\nsigned = \"{timestamp}{body}\"", "no timestamp_header"),
            ("header = \"x-s\"\nsigned = \"{id}{body}\"", "no id_header"),
            (
                "header = \"x-s\"\nid_header = \"x-i\"\nsigned = \"{id}{body}\"",
                "between {id} and {body}",
            ),
            (&format!("{time}signed = \"{{body}}\""), "anybody could change"),
            ("header = \"x-s\"\nalgorithm = \"md5\"", "md5"),
            ("header = \"x-s\"\nencoding = \"morse\"", "morse"),
        ] {
            let error = hmac(fields).unwrap_err();
            assert!(error.contains(problem), "{fields}: {error}");
        }
    }
}
