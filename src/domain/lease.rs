//! A processor's claim on a message.

use std::{
    hash::{Hash, Hasher},
    sync::Arc,
};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};

use super::{DestinationName, Sequence};

/// Identifies one claim on one message: its destination, sequence and ordering key, and a random
/// secret that only the claimer knows. Opaque to workers; a stale token changes nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseToken {
    /// The destination whose message is claimed.
    pub destination: DestinationName,
    /// The message's sequence.
    pub sequence: Sequence,
    /// The random part: equal for all messages of one claim call.
    pub secret: Arc<str>,
    /// When it was claimed, in ms since 1970 by the claiming pod's clock. For display only.
    pub claimed_ms: u64,
    /// The lane's ordering key, with ordering by key.
    pub key: Option<String>,
}

/// The text is not a lease token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this is not a lease token from Reseq")]
pub struct InvalidToken;

impl Hash for LeaseToken {
    /// Only by sequence, which few leases share.
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.sequence.hash(state);
    }
}

impl LeaseToken {
    /// The token in the API.
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
        let is_plain = !secret.is_empty() && secret.bytes().all(|b| b.is_ascii_alphanumeric());
        if !is_plain {
            return Err(InvalidToken);
        }
        let claimed_ms = next()?.parse().map_err(|_| InvalidToken)?;
        let key = parts.next().map(str::to_owned);
        Ok(LeaseToken { destination, sequence, secret, claimed_ms, key })
    }

    /// The lease's member in the partition's set of leases.
    pub fn member(&self) -> String {
        format!("{}/{}/{}", self.destination, self.sequence, self.secret)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_survives_its_way_through_a_worker() {
        for key in [None, Some("acct\n7/{x}".to_owned()), Some(String::new())] {
            let token = LeaseToken {
                destination: "erp".parse().unwrap(),
                sequence: 42,
                secret: "5eed".into(),
                claimed_ms: 1_790_000_000_000,
                key,
            };
            assert_eq!(LeaseToken::decode(&token.encode()), Ok(token));
        }
    }

    #[test]
    fn forged_tokens_are_refused() {
        let encoded = ["erp\n42\n../x\n7", "erp\n42\n5eed", "erp\n42\n5eed\nkey"];
        let encoded = encoded.map(|plain| URL_SAFE_NO_PAD.encode(plain));
        let garbled = ["", "!!", "ZXJw"].into_iter();
        for text in garbled.chain(encoded.iter().map(String::as_str)) {
            assert_eq!(LeaseToken::decode(text), Err(InvalidToken), "{text}");
        }
    }
}
