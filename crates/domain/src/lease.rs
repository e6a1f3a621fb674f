//! A processor's claim on a message.

use std::{
    hash::{Hash, Hasher},
    str::FromStr,
    sync::Arc,
};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{DestinationName, Sequence};

/// Separates the random part of a lease's secret from the name of its holder.
const HOLDER: char = '@';
/// The longest name of a worker, in bytes.
const WORKER_BYTES_MAX: usize = 64;

/// Identifies one claim on one message: its destination, sequence and ordering key, and a random secret that only the
/// claimer knows. Opaque to workers; a call with a stale token changes nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseToken {
    /// The destination whose message is claimed.
    pub destination: DestinationName,
    /// The message's sequence.
    pub sequence: Sequence,
    /// A random text, then `@` and the name of the holder, if the holder has one. Equal for all messages of one claim
    /// call.
    pub secret: Arc<str>,
    /// When the message was claimed, in ms since 1970 by Redis's clock.
    pub claimed_ms: u64,
    /// With ordering by key: the ordering key of the lane.
    pub key: Option<String>,
}

/// The text is not a lease token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this is not a lease token from Reseq")]
pub struct InvalidToken;

impl Hash for LeaseToken {
    /// Hashes only the sequence: few leases share one.
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.sequence.hash(state);
    }
}

impl LeaseToken {
    /// The token as text, for the API.
    pub fn encode(&self) -> String {
        let plain = format!(
            "{}\n{}\n{}\n{}{}{}",
            self.destination,
            self.sequence,
            self.secret,
            self.claimed_ms,
            if self.key.is_some() { "\n" } else { "" },
            self.key.as_deref().unwrap_or_default(),
        );
        URL_SAFE_NO_PAD.encode(plain)
    }

    /// Parses the text from [`LeaseToken::encode`].
    pub fn decode(text: &str) -> Result<LeaseToken, InvalidToken> {
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| InvalidToken)?;
        let plain = String::from_utf8(bytes).map_err(|_| InvalidToken)?;
        let mut parts = plain.splitn(5, '\n');
        let mut next = || parts.next().ok_or(InvalidToken);
        let destination = next()?.parse().map_err(|_| InvalidToken)?;
        let sequence = next()?.parse().map_err(|_| InvalidToken)?;
        let secret = Arc::<str>::from(next()?);
        let (random, holder) = secret.split_once(HOLDER).unwrap_or((&*secret, "-"));
        let is_random = !random.is_empty() && random.bytes().all(|b| b.is_ascii_alphanumeric());
        if !is_random || holder.parse::<WorkerName>().is_err() {
            return Err(InvalidToken);
        }
        let claimed_ms = next()?.parse().map_err(|_| InvalidToken)?;
        let key = parts.next().map(str::to_owned);
        Ok(LeaseToken { destination, sequence, secret, claimed_ms, key })
    }

    /// The secret of a lease with this holder.
    pub fn secret_of(random: &str, holder: Option<&WorkerName>) -> Arc<str> {
        match holder {
            Some(holder) => format!("{random}{HOLDER}{}", holder.0).into(),
            None => random.into(),
        }
    }

    /// The holder that a secret names.
    pub fn holder_of(secret: &str) -> Option<WorkerName> {
        secret.split_once(HOLDER)?.1.parse().ok()
    }

    /// The member of the lease in the partition's set of leases.
    pub fn member(&self) -> String {
        format!("{}/{}/{}", self.destination, self.sequence, self.secret)
    }
}

/// The name of a holder of leases: a name that a worker chose, or the name of a pod. `[A-Za-z0-9._:@-]{1,64}`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(try_from = "String", into = "String")]
#[schema(value_type = String, pattern = "^[A-Za-z0-9._:@-]{1,64}$")]
pub struct WorkerName(Arc<str>);

/// The text is not the name of a worker.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the name of a worker is 1 to 64 of the characters A-Z, a-z, 0-9, '.', '_', ':', '@' and '-'"
)]
pub struct InvalidWorkerName;

impl FromStr for WorkerName {
    type Err = InvalidWorkerName;

    fn from_str(text: &str) -> Result<Self, InvalidWorkerName> {
        let is_allowed = |b: u8| b.is_ascii_alphanumeric() || b"._:@-".contains(&b);
        match text.is_empty() || text.len() > WORKER_BYTES_MAX || !text.bytes().all(is_allowed) {
            true => Err(InvalidWorkerName),
            false => Ok(WorkerName(text.into())),
        }
    }
}

impl TryFrom<String> for WorkerName {
    type Error = InvalidWorkerName;

    fn try_from(text: String) -> Result<Self, InvalidWorkerName> {
        text.parse()
    }
}

impl From<WorkerName> for String {
    fn from(name: WorkerName) -> Self {
        name.0.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_names_its_holder() {
        for name in ["host-1:4711", "a@b", "x"] {
            let worker: WorkerName = name.parse().unwrap();
            let secret = LeaseToken::secret_of("5eed", Some(&worker));
            assert_eq!(LeaseToken::holder_of(&secret), Some(worker));
        }
        assert_eq!(LeaseToken::holder_of(&LeaseToken::secret_of("5eed", None)), None);
        for bad in ["", "a b", "a/b", "a\nb", "é", &"x".repeat(65)] {
            assert_eq!(bad.parse::<WorkerName>(), Err(InvalidWorkerName), "{bad:?}");
        }
    }

    #[test]
    fn a_token_survives_its_way_through_a_worker() {
        for (key, secret) in [
            (None, "5eed"),
            (Some("acct\n7/{x}".to_owned()), "5eed@host-1:4711"),
            (Some(String::new()), "5eed@a@b"),
        ] {
            let token = LeaseToken {
                destination: "erp".parse().unwrap(),
                sequence: 42,
                secret: secret.into(),
                claimed_ms: 1_790_000_000_000,
                key,
            };
            assert_eq!(LeaseToken::decode(&token.encode()), Ok(token));
        }
    }

    #[test]
    fn forged_tokens_are_refused() {
        let encoded = [
            "erp\n42\n../x\n7",
            "erp\n42\n5eed@a/b\n7",
            "erp\n42\n@a\n7",
            "erp\n42\n5eed",
            "erp\n42\n5eed\nkey",
        ];
        let encoded = encoded.map(|plain| URL_SAFE_NO_PAD.encode(plain));
        let garbled = ["", "!!", "ZXJw"].into_iter();
        for text in garbled.chain(encoded.iter().map(String::as_str)) {
            assert_eq!(LeaseToken::decode(text), Err(InvalidToken), "{text}");
        }
    }
}
