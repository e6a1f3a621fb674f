//! Verifies the signature of an arriving request. [`Claim::read`] reads the headers and checks the time, before
//! the body has arrived; [`Claim::check`] compares the signature.
//!
//! | kind | header | signed |
//! | --- | --- | --- |
//! | Standard Webhooks | `webhook-signature: v1,<base64> v1a,<base64>` | `<webhook-id>.<webhook-timestamp>.<body>` |
//! | Stripe | `Stripe-Signature: t=<time>,v1=<hex>` | `<time>.<body>` |
//! | GitHub | `X-Hub-Signature-256: sha256=<hex>` | `<body>` |
//! | any HMAC | as the definition says | as the definition says |

mod scheme;

use http::HeaderMap;
use ring::{
    hmac,
    signature::{ED25519, UnparsedPublicKey},
};
use subtle::ConstantTimeEq;

use super::{sign::covered_content, signed_content};
use crate::code::{Code, Coded};
use domain::destination::{HmacAlgorithm, StandardSecret, Verify, VerifyKind};

/// Why a request is refused. The text never contains a secret or the right signature.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    /// The request has no signature; the text names the missing header.
    #[error(
        "the destination verifies signatures, and the request has no header {0}; sign it, or send a token with \
         the scope ingest"
    )]
    Missing(String),
    /// A header of the signature cannot be read, or the signature is wrong.
    #[error("{0}")]
    Invalid(String),
    /// The signature is too old, or from the future.
    #[error("{0}")]
    OutsideTolerance(String),
}

impl Coded for SignatureError {
    fn coded(&self) -> (Code, String) {
        let code = match self {
            SignatureError::Missing(_) => Code::NoSignature,
            SignatureError::Invalid(_) => Code::InvalidSignature,
            SignatureError::OutsideTolerance(_) => Code::TimestampOutsideTolerance,
        };
        (code, self.to_string())
    }
}

/// A signature of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Tag {
    Hmac(Vec<u8>),
    Ed25519(Vec<u8>),
}

/// The signatures of a request, and the text that they sign. The time is already checked.
#[derive(Debug, Clone)]
pub struct Claim {
    /// The signed bytes before and after the body.
    before: Vec<u8>,
    after: Vec<u8>,
    tags: Vec<Tag>,
    id: Option<String>,
    timestamp: Option<String>,
    /// The second signature of a delivery from Reseq: the text that it signs, without the body, and its tags.
    own: Option<(Vec<u8>, Vec<Tag>)>,
}

impl Claim {
    /// Reads the signature of a request with these headers, and checks its time.
    pub fn read(
        verify: &Verify,
        headers: &HeaderMap,
        now_ms: u64,
    ) -> Result<Claim, SignatureError> {
        match verify.kind {
            VerifyKind::StandardWebhooks => scheme::standard_webhooks(verify, headers, now_ms),
            VerifyKind::Stripe => scheme::stripe(verify, headers, now_ms),
            VerifyKind::Github => scheme::github(headers),
            VerifyKind::Hmac => scheme::hmac(verify, headers, now_ms),
        }
    }

    /// Checks that one of the signatures of this body matches one of the secrets.
    pub fn check(&self, verify: &Verify, body: &[u8]) -> Result<(), SignatureError> {
        let keys: Vec<Key> =
            verify.secrets.iter().filter_map(|secret| Key::of(verify, secret)).collect();
        // If a digit of the body touches the time, nobody can tell where the time ends.
        let is_joined =
            |ends: [Option<&u8>; 2]| ends.iter().all(|byte| byte.is_some_and(u8::is_ascii_digit));
        if self.timestamp.is_some()
            && (is_joined([self.before.last(), body.first()])
                || is_joined([body.last(), self.after.first()]))
        {
            let problem =
                "verify.signed does not tell where the time ends: this body has a digit beside it";
            return Err(SignatureError::Invalid(problem.into()));
        }
        let content = [self.before.as_slice(), body, self.after.as_slice()];
        if !keys.iter().any(|key| key.accepts(&self.tags, content)) {
            return Err(SignatureError::Invalid(format!(
                "{}: no secret of the destination gives this signature of this body",
                verify.signature_header()
            )));
        }
        if let Some((before, tags)) = &self.own
            && !keys.iter().any(|key| key.accepts(tags, [before, body, b""]))
        {
            let problem = "reseq-signature: no secret of the destination gives this signature of the \
                           Reseq-* headers and this body";
            return Err(SignatureError::Invalid(problem.into()));
        }
        Ok(())
    }

    /// The id of the message, where the scheme has one.
    pub fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// The time of the signature, in the form in which it is signed.
    pub fn timestamp(&self) -> Option<&str> {
        self.timestamp.as_deref()
    }

    /// True if the `Reseq-*` headers of a delivery are signed too.
    pub fn covers_delivery_headers(&self) -> bool {
        self.own.is_some()
    }
}

/// A secret as a key for verifying.
enum Key {
    Hmac(hmac::Key),
    Ed25519([u8; 32]),
}

impl Key {
    fn of(verify: &Verify, secret: &str) -> Option<Key> {
        if verify.kind != VerifyKind::StandardWebhooks {
            let algorithm = match verify.algorithm.unwrap_or_default() {
                HmacAlgorithm::Sha1 => hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
                HmacAlgorithm::Sha256 => hmac::HMAC_SHA256,
                HmacAlgorithm::Sha384 => hmac::HMAC_SHA384,
                HmacAlgorithm::Sha512 => hmac::HMAC_SHA512,
            };
            return Some(Key::Hmac(hmac::Key::new(algorithm, secret.as_bytes())));
        }
        match StandardSecret::parse(secret).ok()? {
            StandardSecret::Symmetric(bytes) => {
                Some(Key::Hmac(hmac::Key::new(hmac::HMAC_SHA256, &bytes)))
            }
            StandardSecret::Public(key) => Some(Key::Ed25519(key)),
            // A valid definition has no private key here.
            StandardSecret::Private(_) => None,
        }
    }

    /// True if one of the signatures of this content matches this key.
    fn accepts(&self, tags: &[Tag], content: [&[u8]; 3]) -> bool {
        match self {
            Key::Hmac(key) => {
                let mut context = hmac::Context::with_key(key);
                content.iter().for_each(|part| context.update(part));
                let right = context.sign();
                let is_right =
                    |tag: &Tag| matches!(tag, Tag::Hmac(given) if is_same(given, right.as_ref()));
                tags.iter().any(is_right)
            }
            Key::Ed25519(key) => {
                let mut given = tags.iter().filter_map(|tag| match tag {
                    Tag::Ed25519(signature) => Some(signature),
                    Tag::Hmac(_) => None,
                });
                let key = UnparsedPublicKey::new(&ED25519, key);
                let whole = std::cell::LazyCell::new(|| content.concat());
                given.any(|signature| key.verify(&whole, signature).is_ok())
            }
        }
    }
}

/// Compares in constant time.
fn is_same(given: &[u8], right: &[u8]) -> bool {
    given.ct_eq(right).into()
}

#[cfg(test)]
mod tests;
