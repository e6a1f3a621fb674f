//! Signs deliveries: the secrets of signatures, and how they are used.

use std::fmt;

use base64::{Engine, prelude::BASE64_STANDARD};
use ring::signature::{Ed25519KeyPair, KeyPair};
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

use super::{InvalidField, MASK};
use crate::secret;

/// The most secrets at once: the current secret, and older or newer ones.
const SECRETS_MAX: usize = 10;
/// The length of a symmetric secret of Standard Webhooks, in bytes.
const SYMMETRIC_BYTES: std::ops::RangeInclusive<usize> = 24..=64;
/// The length of a private and of a public Ed25519 key, in bytes.
const ED25519_BYTES: usize = 32;

/// Secrets of signatures. Never shown: see [`Secrets::mask`].
#[derive(Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(transparent)]
pub struct Secrets(Vec<String>);

impl<'de> Deserialize<'de> for Secrets {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        secret::list(deserializer).map(Secrets)
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} secrets", self.0.len())
    }
}

impl Secrets {
    /// A list of secrets.
    pub fn new<S: Into<String>>(secrets: impl IntoIterator<Item = S>) -> Secrets {
        Secrets(secrets.into_iter().map(Into::into).collect())
    }

    /// The secrets, as text.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut String> {
        self.0.iter_mut()
    }

    /// Replaces the n-th mask by the n-th secret of `before`. False if there are more masks than secrets.
    pub fn unmask(&mut self, before: Option<&Secrets>) -> bool {
        let mut before = before.into_iter().flat_map(Secrets::iter);
        self.0
            .iter_mut()
            .filter(|secret| *secret == MASK)
            .all(|mask| before.next().map(|secret| secret.clone_into(mask)).is_some())
    }

    pub(super) fn validate(
        &self,
        field: &'static str,
        check: impl Fn(&str) -> Result<(), String>,
    ) -> Result<(), InvalidField> {
        let bad = |problem: String| InvalidField { field, problem };
        if self.0.is_empty() || self.0.len() > SECRETS_MAX {
            return Err(bad(format!("must have 1 to {SECRETS_MAX} secrets")));
        }
        for (at, secret) in self.iter().enumerate() {
            if secret == MASK {
                return Err(bad("holds the mask of a secret; give its value".into()));
            }
            // The error must not contain the secret.
            check(secret).map_err(|problem| bad(format!("secret {}: {problem}", at + 1)))?;
        }
        Ok(())
    }
}

/// A secret of Standard Webhooks.
pub enum StandardSecret {
    /// `whsec_…`: for HMAC-SHA256 (`v1`).
    Symmetric(Vec<u8>),
    /// `whsk_…`: the seed of a private Ed25519 key, which signs (`v1a`).
    Private([u8; ED25519_BYTES]),
    /// `whpk_…`: the public Ed25519 key, which verifies (`v1a`).
    Public([u8; ED25519_BYTES]),
}

impl StandardSecret {
    /// Parses a secret. An error never contains it.
    pub fn parse(text: &str) -> Result<StandardSecret, String> {
        const SHAPES: &str = "must begin with whsec_, whsk_ or whpk_, followed by base64";
        let (kind, encoded) = text.split_once('_').ok_or(SHAPES)?;
        let bytes = BASE64_STANDARD.decode(encoded).map_err(|_| SHAPES)?;
        match kind {
            "whsec" if SYMMETRIC_BYTES.contains(&bytes.len()) => {
                Ok(StandardSecret::Symmetric(bytes))
            }
            "whsec" => Err(format!(
                "has {} bytes, and must have 24 to 64, for example from: \
                 echo whsec_$(openssl rand -base64 32)",
                bytes.len()
            )),
            "whsk" => seed_of(&bytes).map(StandardSecret::Private),
            "whpk" => {
                let key =
                    bytes.try_into().map_err(|_| "whpk_ needs 32 bytes: an Ed25519 public key")?;
                Ok(StandardSecret::Public(key))
            }
            _ => Err(SHAPES.into()),
        }
    }
}

/// The seed of a private key. The bytes are only the seed, or the seed and then the public key.
fn seed_of(bytes: &[u8]) -> Result<[u8; ED25519_BYTES], String> {
    const SHAPES: &str =
        "whsk_ needs 32 bytes (the seed of an Ed25519 key) or 64 (the seed and its public key)";
    let (seed, public) = bytes.split_first_chunk::<ED25519_BYTES>().ok_or(SHAPES)?;
    let pair = Ed25519KeyPair::from_seed_unchecked(seed).map_err(|_| SHAPES)?;
    if !public.is_empty() && public != pair.public_key().as_ref() {
        return Err("whsk_: the second half is not the public key of the first".into());
    }
    Ok(*seed)
}

/// How deliveries are signed, according to Standard Webhooks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Sign {
    /// `whsec_…` for `v1` (HMAC-SHA256), `whsk_…` for `v1a` (Ed25519). Each secret makes a signature, so that during a
    /// change a receiver may know the old or the new secret.
    #[schema(value_type = Vec<String>, min_items = 1, max_items = 10)]
    pub secrets: Secrets,
}

impl Sign {
    pub(super) fn validate(&self) -> Result<(), InvalidField> {
        let check = |secret: &str| match StandardSecret::parse(secret)? {
            StandardSecret::Public(_) => Err("whpk_ is a public key, which cannot sign".into()),
            _ => Ok(()),
        };
        self.secrets.validate("sign.secrets", check)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(bytes: usize) -> String {
        format!("whsec_{}", BASE64_STANDARD.encode(vec![7; bytes]))
    }

    #[test]
    fn secrets_are_checked_and_never_named() {
        let sign = |secrets: &[&str]| Sign { secrets: Secrets::new(secrets.to_vec()) }.validate();
        assert_eq!(sign(&[&secret(24), &secret(64)]), Ok(()));
        let (short, long) = (secret(23), secret(65));
        let public = format!("whpk_{}", BASE64_STANDARD.encode([1; 32]));
        let mixed = format!("whsk_{}", BASE64_STANDARD.encode([1; 64]));
        let plain = BASE64_STANDARD.encode([1; 32]);
        for bad in [&short, &long, &public, &mixed, &plain, "whsec_%%%", MASK, ""] {
            let error = sign(&[bad]).unwrap_err().to_string();
            assert!(error.starts_with("sign.secrets: "), "{error}");
            assert!(bad.len() < 6 || !error.contains(bad), "{error}");
        }
        assert!(sign(&[]).is_err() && sign(&[&*secret(24); 11]).is_err());
        assert!(!format!("{:?}", Sign { secrets: Secrets::new([secret(24)]) }).contains("whsec"));
    }

    #[test]
    fn the_first_mask_stands_for_the_first_secret() {
        let before = Secrets::new(["one", "two"]);
        let unmasked = |secrets: &[&str]| {
            let mut secrets = Secrets::new(secrets.to_vec());
            secrets.unmask(Some(&before)).then(|| secrets.iter().collect::<Vec<_>>().join(" "))
        };
        assert_eq!(unmasked(&["new", MASK, MASK]).as_deref(), Some("new one two"));
        assert_eq!(unmasked(&[MASK]).as_deref(), Some("one"));
        assert_eq!(unmasked(&["new"]).as_deref(), Some("new"));
        assert_eq!(unmasked(&[MASK, MASK, MASK]), None);
    }
}
