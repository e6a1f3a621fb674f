//! Tokens: which callers may call Reseq, and for what.

use std::{collections::BTreeSet, fmt};

use rand::{CryptoRng, Rng, distr::Alphanumeric};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use utoipa::ToSchema;

use super::{DestinationName, hex::hex};

/// The prefix of every token, so that scanners for secrets recognise one.
const PREFIX: &str = "rsq_";
/// Characters of the part that names the token, and of the secret part: 71 and 256 bits.
const ID_LENGTH: usize = 12;
const SECRET_LENGTH: usize = 43;
/// The longest name of a token, in bytes.
pub const NAME_BYTES_MAX: usize = 128;
/// The most destinations that one token lists.
pub const TOKEN_DESTINATIONS_MAX: usize = 1_000;

/// A kind of calls that a token allows.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Send messages.
    Ingest,
    /// Claim messages as a worker, and report the results.
    Work,
    /// Read everything except tokens and the audit log.
    Read,
    /// Also pause, retry, skip, cancel, purge, redrive, discard, replay, repair.
    Operate,
    /// Everything: also define and remove destinations, topics and tokens.
    Admin,
}

impl Scope {
    /// All scopes.
    pub const ALL: [Scope; 5] =
        [Scope::Ingest, Scope::Work, Scope::Read, Scope::Operate, Scope::Admin];

    /// The scope as text.
    pub fn as_str(self) -> &'static str {
        match self {
            Scope::Ingest => "ingest",
            Scope::Work => "work",
            Scope::Read => "read",
            Scope::Operate => "operate",
            Scope::Admin => "admin",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The calls that a token allows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Grant {
    /// The kinds of calls that its holder may make.
    pub scopes: BTreeSet<Scope>,
    /// The destinations with which it may be used; all if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destinations: Option<BTreeSet<DestinationName>>,
    /// The most messages per second that each process accepts from its holder; 0: no limit.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub rate_per_second_max: u32,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl Grant {
    /// A grant of everything.
    pub fn all() -> Grant {
        Grant { scopes: BTreeSet::from([Scope::Admin]), destinations: None, rate_per_second_max: 0 }
    }

    /// A grant to send messages to this destination.
    pub fn to_send(destination: &DestinationName) -> Grant {
        let destinations = Some(BTreeSet::from([destination.clone()]));
        Grant { scopes: BTreeSet::from([Scope::Ingest]), destinations, rate_per_second_max: 0 }
    }

    /// True if the grant includes this scope. `admin` includes all scopes, `operate` includes `read`.
    pub fn allows(&self, scope: Scope) -> bool {
        self.scopes.iter().any(|held| {
            *held == scope
                || *held == Scope::Admin
                || (*held == Scope::Operate && scope == Scope::Read)
        })
    }

    /// True if the grant includes this destination.
    pub fn covers(&self, destination: &DestinationName) -> bool {
        self.destinations.as_ref().is_none_or(|listed| listed.contains(destination.base()))
    }
}

/// A token as Redis stores it: without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Token {
    /// The id that names the token in lists and in the log.
    pub id: String,
    /// The purpose of the token, for people.
    pub name: String,
    /// The calls that the token allows.
    #[serde(flatten)]
    pub grant: Grant,
    /// When the token was created, in milliseconds since 1970.
    pub created_ms: u64,
    /// When the token expires, in milliseconds since 1970; never if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_ms: Option<u64>,
    /// The SHA-256 of the whole token, in hex. A slow hash would not be safer: a token is random.
    pub sha256: String,
}

impl Token {
    /// True if the token has expired.
    pub fn is_expired(&self, now_ms: u64) -> bool {
        self.expires_ms.is_some_and(|end| end <= now_ms)
    }
}

/// The text of a token: a secret. Reseq shows it once, and never stores it.
#[derive(Clone, PartialEq, Eq)]
pub struct TokenText(String);

/// This many random letters and digits.
fn characters(rng: &mut impl CryptoRng, count: usize) -> String {
    rng.sample_iter(Alphanumeric).take(count).map(char::from).collect()
}

/// A text of 256 random bits.
pub fn random_text(rng: &mut impl CryptoRng) -> String {
    characters(rng, SECRET_LENGTH)
}

impl TokenText {
    /// A new random token.
    pub fn random(rng: &mut impl CryptoRng) -> TokenText {
        TokenText(format!("{PREFIX}{}_{}", characters(rng, ID_LENGTH), random_text(rng)))
    }

    /// Reads `rsq_<id>_<secret>`.
    pub fn parse(text: &str) -> Option<TokenText> {
        let (id, secret) = text.strip_prefix(PREFIX)?.split_once('_')?;
        let is_fit = |part: &str, length: usize| {
            part.len() == length && part.bytes().all(|byte| byte.is_ascii_alphanumeric())
        };
        let is_token = is_fit(id, ID_LENGTH) && is_fit(secret, SECRET_LENGTH);
        is_token.then(|| TokenText(text.to_owned()))
    }

    /// The part that names the token.
    pub fn id(&self) -> &str {
        &self.0[PREFIX.len()..PREFIX.len() + ID_LENGTH]
    }

    /// The secret itself, to show it once.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// The SHA-256 of the text, in hex.
    pub fn sha256(&self) -> String {
        sha256_of(&self.0)
    }
}

impl fmt::Debug for TokenText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}_***", self.id())
    }
}

/// The SHA-256 of a text, in hex.
pub fn sha256_of(text: &str) -> String {
    hex(&Sha256::digest(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_names_itself_and_hides_its_secret() {
        let text = TokenText::random(&mut rand::rng());
        assert_eq!(text.reveal().len(), 4 + ID_LENGTH + 1 + SECRET_LENGTH);
        assert_eq!(TokenText::parse(text.reveal()), Some(text.clone()));
        assert_eq!(format!("{text:?}"), format!("rsq_{}_***", text.id()));
        assert_ne!(text, TokenText::random(&mut rand::rng()));
        let whole = text.reveal();
        for wrong in ["", "rsq_", "rsq_a_b", &whole[1..], &format!("{whole}x"), &whole[..30]] {
            assert_eq!(TokenText::parse(wrong), None, "{wrong:?}");
        }
        assert_eq!(TokenText::parse(&whole.replace("rsq_", "rsq-")), None);
    }

    #[test]
    fn scopes_include_what_they_say() {
        let of = |scope: Scope| Grant { scopes: BTreeSet::from([scope]), ..Grant::all() };
        for held in Scope::ALL {
            for asked in Scope::ALL {
                let expected = held == asked
                    || held == Scope::Admin
                    || (held == Scope::Operate && asked == Scope::Read);
                assert_eq!(of(held).allows(asked), expected, "{held} allows {asked}");
            }
        }
        assert!(!Grant::default().allows(Scope::Read));
    }

    #[test]
    fn a_list_of_destinations_limits_a_token() {
        let [erp, crm]: [DestinationName; 2] = ["erp", "crm"].map(|name| name.parse().unwrap());
        assert!(Grant::all().covers(&erp));
        let grant = Grant { destinations: Some(BTreeSet::from([erp.clone()])), ..Grant::all() };
        assert!(grant.covers(&erp) && !grant.covers(&crm));
        let none = Grant { destinations: Some(BTreeSet::new()), ..Grant::all() };
        assert!(!none.covers(&erp));
    }
}
