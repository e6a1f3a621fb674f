//! Secrets of definitions, encrypted for Redis with AES-256-GCM. Each secret is encrypted separately, and bound to
//! its destination and its field, so that no secret can be moved to another place.
//!
//! ```text
//! {"name": "erp", "headers": {"authorization": "***"}, …,
//!  "sealed": {"key": "<id of the key>", "values": {"headers.authorization": "<base64 of nonce, text and tag>"}}}
//! ```
//!
//! Encrypting a secret twice gives different texts. So definitions are compared in plain text, and an unchanged
//! definition is not written again.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, Ordering},
};

use base64::{Engine, prelude::BASE64_STANDARD};
use ring::{
    aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey},
    hmac,
    rand::{SecureRandom, SystemRandom},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::StoreError;
use domain::{Destination, destination::MASK, hex::hex};

/// The member of a stored definition that contains its secrets.
const SEALED: &str = "sealed";
/// The number of digits of a key's id.
const ID_DIGITS: usize = 8;
/// The beginning of a fingerprint of secrets that was made without a key.
const UNKEYED: &str = "-";
/// The number of digits of a fingerprint.
const FINGERPRINT_DIGITS: usize = 32;

/// The keys of a deployment. The first key encrypts; all keys decrypt. Without keys, secrets are stored in plain
/// text.
#[derive(Default)]
pub struct Keyring {
    keys: Vec<SealingKey>,
    has_warned: AtomicBool,
}

struct SealingKey {
    /// The name of the key, which reveals nothing about the key itself.
    id: String,
    seal: Seal,
    /// The key for fingerprints.
    mac: hmac::Key,
}

/// Encrypts texts. Each text is bound to its place, and can only be decrypted for that place.
pub struct Seal(LessSafeKey);

/// The secrets of a stored definition.
#[derive(Serialize, Deserialize)]
struct Sealed {
    key: String,
    values: BTreeMap<String, String>,
}

/// How the secrets of a definition are stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Sealing {
    /// The definition has no secrets.
    NoSecrets,
    Plain,
    /// The secrets are encrypted with the key of this id.
    With(String),
}

impl Keyring {
    /// Creates a keyring with these keys. The first key is the current one.
    pub fn new(keys: &[[u8; 32]]) -> Keyring {
        let key = |bytes: &[u8; 32]| {
            let digest = Sha256::digest([b"reseq secrets key\0".as_slice(), bytes].concat());
            let id = hex(&digest)[..ID_DIGITS].to_owned();
            let of_mac = Sha256::digest([b"reseq fingerprint key\0".as_slice(), bytes].concat());
            let mac = hmac::Key::new(hmac::HMAC_SHA256, &of_mac);
            Some(SealingKey { id, seal: Seal::new(bytes)?, mac })
        };
        Keyring { keys: keys.iter().filter_map(key).collect(), has_warned: AtomicBool::default() }
    }

    /// True if secrets are stored in plain text.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// The id of the key that encrypts.
    pub fn current(&self) -> Option<&str> {
        self.keys.first().map(|key| key.id.as_str())
    }

    /// True if there is a key with this id.
    pub(super) fn has(&self, id: &str) -> bool {
        self.keys.iter().any(|key| key.id == id)
    }

    /// The text of a definition to store.
    pub(super) fn seal(&self, destination: &Destination) -> Result<String, StoreError> {
        let unfit = |error: serde_json::Error| StoreError::WrongState(error.to_string());
        let has_secrets = destination.secrets().next().is_some();
        let Some(key) = self.keys.first().filter(|_| has_secrets) else {
            if has_secrets && !self.has_warned.swap(true, Ordering::Relaxed) {
                tracing::warn!(
                    destination = %destination.name,
                    "the secrets of destinations are stored in Redis in plain text: set secrets.key"
                );
            }
            return serde_json::to_string(destination).map_err(unfit);
        };
        let mut masked = destination.clone();
        let mut values = BTreeMap::new();
        for (field, secret) in masked.secrets_mut() {
            let sealed = key.seal.seal(&place(destination, &field), secret);
            let failed = || StoreError::WrongState("a secret cannot be encrypted".into());
            values.insert(field.clone(), sealed.ok_or_else(failed)?);
            *secret = MASK.to_owned();
        }
        let mut value = serde_json::to_value(&masked).map_err(unfit)?;
        value[SEALED] =
            serde_json::to_value(Sealed { key: key.id.clone(), values }).map_err(unfit)?;
        Ok(value.to_string())
    }

    /// Reads a stored definition.
    pub(super) fn unseal(&self, text: &str) -> Result<Destination, StoreError> {
        let (mut destination, sealed) = parse(text)?;
        let Some(sealed) = sealed else { return Ok(destination) };
        let key = self.keys.iter().find(|key| key.id == sealed.key);
        let key = key.ok_or_else(|| StoreError::NoSecretsKey(sealed.key.clone()))?;
        let masked = destination.clone();
        for (field, secret) in destination.secrets_mut() {
            let value = sealed.values.get(&field);
            let opened = value.and_then(|value| key.seal.open(&place(&masked, &field), value));
            *secret = opened.ok_or_else(|| {
                StoreError::Unreadable(format!(
                    "{field} of {} cannot be decrypted: it was changed, or moved from another place",
                    masked.name
                ))
            })?;
        }
        Ok(destination)
    }

    /// Texts that are equal for equal definitions, and that do not allow anyone without the keys to guess a secret.
    /// The first text is the one to store. The others are those that were stored with earlier keys, or without a key.
    pub(super) fn fingerprints(&self, destination: &Destination) -> Vec<String> {
        let text = serde_json::json!(destination.set_fields()).to_string();
        let short = |digest: &[u8]| hex(digest)[..FINGERPRINT_DIGITS].to_owned();
        let has_secrets = destination.secrets().next().is_some();
        let keys = self.keys.iter().filter(|_| has_secrets);
        let of_keys = keys.map(|key| short(hmac::sign(&key.mac, text.as_bytes()).as_ref()));
        let mark = if has_secrets { UNKEYED } else { "" };
        of_keys.chain([format!("{mark}{}", short(&Sha256::digest(&text)))]).collect()
    }

    /// False if the fingerprint contains secrets, was made without a key, and there is a key now.
    pub(super) fn may_keep(&self, fingerprint: &str) -> bool {
        self.is_empty() || !fingerprint.starts_with(UNKEYED)
    }

    /// True if this stored definition has the form in which [`Keyring::seal`] would store it.
    pub(super) fn is_current(&self, text: &str) -> bool {
        match sealing(text) {
            Ok(Sealing::With(id)) => self.current() == Some(id.as_str()),
            Ok(Sealing::Plain) => self.is_empty(),
            Ok(Sealing::NoSecrets) => true,
            Err(_) => false,
        }
    }
}

/// How the secrets of a stored definition are stored.
pub(super) fn sealing(text: &str) -> Result<Sealing, StoreError> {
    let (destination, sealed) = parse(text)?;
    Ok(match sealed {
        Some(sealed) => Sealing::With(sealed.key),
        None if destination.secrets().next().is_some() => Sealing::Plain,
        None => Sealing::NoSecrets,
    })
}

/// The stored definition. Contains its secrets only if they are encrypted.
pub(super) fn without_plain_secrets(text: &str) -> Result<Value, StoreError> {
    let (destination, sealed) = parse(text)?;
    let unreadable = |error: serde_json::Error| StoreError::Unreadable(error.to_string());
    match sealed {
        Some(_) => serde_json::from_str(text).map_err(unreadable),
        None => serde_json::to_value(destination.masked()).map_err(unreadable),
    }
}

/// A stored definition, with masks in place of encrypted secrets; and these secrets.
fn parse(text: &str) -> Result<(Destination, Option<Sealed>), StoreError> {
    let unreadable = |error: serde_json::Error| StoreError::Unreadable(error.to_string());
    // Most definitions have no encrypted secrets, and this check is faster.
    if !text.contains("\"sealed\":{") {
        return Ok((serde_json::from_str(text).map_err(unreadable)?, None));
    }
    let mut value: Value = serde_json::from_str(text).map_err(unreadable)?;
    let sealed = value.as_object_mut().and_then(|fields| fields.remove(SEALED));
    let sealed = sealed.map(serde_json::from_value).transpose().map_err(unreadable)?;
    Ok((serde_json::from_value(value).map_err(unreadable)?, sealed))
}

impl Seal {
    /// Creates a seal with this key.
    pub fn new(key: &[u8]) -> Option<Seal> {
        // Fails only if the key does not have 32 bytes.
        Some(Seal(LessSafeKey::new(UnboundKey::new(&AES_256_GCM, key).ok()?)))
    }

    /// Encrypts a text for a place. Returns base64 of nonce, text and tag; `None` if the system provides no random
    /// numbers.
    pub fn seal(&self, place: &[u8], text: &str) -> Option<String> {
        let mut nonce = [0; NONCE_LEN];
        SystemRandom::new().fill(&mut nonce).ok()?;
        let mut bytes = text.as_bytes().to_vec();
        let unique = Nonce::assume_unique_for_key(nonce);
        self.0.seal_in_place_append_tag(unique, Aad::from(place), &mut bytes).ok()?;
        Some(BASE64_STANDARD.encode([nonce.as_slice(), &bytes].concat()))
    }

    /// Decrypts a value that [`Seal::seal`] returned for this place.
    pub fn open(&self, place: &[u8], value: &str) -> Option<String> {
        let bytes = BASE64_STANDARD.decode(value).ok()?;
        let (nonce, sealed) = bytes.split_first_chunk::<NONCE_LEN>()?;
        let mut sealed = sealed.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let opened = self.0.open_in_place(nonce, Aad::from(place), &mut sealed).ok()?;
        String::from_utf8(opened.to_vec()).ok()
    }
}

/// The place to which a secret is bound.
fn place(destination: &Destination, field: &str) -> Vec<u8> {
    [b"reseq\0", destination.name.as_str().as_bytes(), b"\0", field.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::destination::{Secrets, Sign};

    const KEYS: [[u8; 32]; 2] = [[1; 32], [2; 32]];

    fn destination(name: &str) -> Destination {
        let mut destination = Destination::new(name.parse().unwrap(), "http://h/");
        destination.headers.insert("authorization".into(), "Bearer s3cret".into());
        destination.transform.headers.insert("x-sealed".into(), "\"sealed\":{}".into());
        destination.sign = Some(Sign { secrets: Secrets::new(["one s3cret", "two s3cret"]) });
        destination
    }

    #[test]
    fn sealed_definition_has_no_secret_and_opens_with_its_keyring() {
        let [old, new] = KEYS.map(|key| Keyring::new(&[key]));
        let both = Keyring::new(&[KEYS[1], KEYS[0]]);
        let erp = destination("erp");
        let text = old.seal(&erp).unwrap();
        assert!(!text.contains("s3cret") && text.contains(old.current().unwrap()), "{text}");
        assert_ne!(text, old.seal(&erp).unwrap());
        assert_eq!(
            (old.unseal(&text).unwrap(), both.unseal(&text).unwrap()),
            (erp.clone(), erp.clone())
        );
        assert!(old.is_current(&text) && !both.is_current(&text) && !new.is_current(&text));
        assert_eq!(both.current(), new.current());
        for other in [new, Keyring::default()] {
            let error = other.unseal(&text).unwrap_err();
            assert!(
                matches!(&error, StoreError::NoSecretsKey(id) if Some(id.as_str()) == old.current())
            );
            assert!(!error.to_string().contains("s3cret"), "{error}");
        }
        let plain = Keyring::default().seal(&erp).unwrap();
        assert_eq!(plain, serde_json::to_string(&erp).unwrap());
        assert_eq!(old.unseal(&plain).unwrap(), erp);
        assert!(!old.is_current(&plain) && Keyring::default().is_current(&plain));
        let none = Destination::new("erp".parse().unwrap(), "http://h/");
        assert_eq!(old.seal(&none).unwrap(), serde_json::to_string(&none).unwrap());
        assert_eq!(sealing(&text).unwrap(), Sealing::With(old.current().unwrap().into()));
        assert_eq!(sealing(&plain).unwrap(), Sealing::Plain);
        assert_eq!(sealing(&old.seal(&none).unwrap()).unwrap(), Sealing::NoSecrets);
    }

    #[test]
    fn a_fingerprint_outlives_a_new_key_and_tells_secrets_apart() {
        let [erp, mut other] = ["erp", "erp"].map(destination);
        other.sign = Some(Sign { secrets: Secrets::new(["another s3cret"]) });
        let none = Keyring::new(&[]);
        let [old, new] = [&KEYS[..1], &[KEYS[1], KEYS[0]]].map(Keyring::new);
        let first = |keyring: &Keyring, of: &Destination| keyring.fingerprints(of).remove(0);
        for (before, after) in [(&none, &old), (&old, &new), (&old, &old)] {
            assert!(after.fingerprints(&erp).contains(&first(before, &erp)));
            assert!(!after.fingerprints(&other).contains(&first(before, &erp)));
        }
        assert!(!none.fingerprints(&erp).contains(&first(&old, &erp)));
        let kept = [&none, &old].map(|keyring| keyring.may_keep(&first(&none, &erp)));
        assert_eq!((kept, new.may_keep(&first(&old, &erp))), ([true, false], true));
        let plain = Destination::new("erp".parse().unwrap(), "http://h/");
        assert_eq!(none.fingerprints(&plain), new.fingerprints(&plain));
    }

    #[test]
    fn a_secret_cannot_be_changed_or_moved() {
        let keyring = Keyring::new(&KEYS);
        let [erp, crm] = ["erp", "crm"].map(|name| {
            serde_json::from_str::<Value>(&keyring.seal(&destination(name)).unwrap()).unwrap()
        });
        let unsealed =
            |value: &Value| keyring.unseal(&value.to_string()).map_err(|error| error.to_string());
        assert_eq!(unsealed(&erp).unwrap(), destination("erp"));
        let field = |value: &Value, field: &str| value[SEALED]["values"][field].clone();
        let mut moved = erp.clone();
        moved[SEALED]["values"]["sign.secrets.0"] = field(&erp, "sign.secrets.1");
        let mut of_other = erp.clone();
        of_other[SEALED]["values"]["headers.authorization"] = field(&crm, "headers.authorization");
        let mut changed = erp.clone();
        let text = field(&erp, "headers.authorization").as_str().unwrap().to_owned();
        let last = if text.ends_with("A==") { "B==" } else { "A==" };
        changed[SEALED]["values"]["headers.authorization"] =
            format!("{}{last}", &text[..text.len() - 3]).into();
        let mut gone = erp.clone();
        gone[SEALED]["values"].as_object_mut().unwrap().remove("sign.secrets.0");
        for (value, named) in [
            (&moved, "sign.secrets.0"),
            (&of_other, "headers.authorization"),
            (&changed, "headers.authorization"),
            (&gone, "sign.secrets.0"),
        ] {
            let error = unsealed(value).unwrap_err();
            assert!(error.contains(named) && !error.contains("s3cret"), "{named}: {error}");
        }
        // The secrets of one may not be those of the other.
        let mut renamed = erp;
        renamed["name"] = "crm".into();
        assert!(unsealed(&renamed).is_err());
    }
}
