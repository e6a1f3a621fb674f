//! Reads secrets from files and variables, and the keys that encrypt the secrets of destinations in Redis.

use std::{collections::HashMap, fmt, fs::File, io::Read, path::Path};

use base64::{Engine, prelude::BASE64_STANDARD};
use serde::{Deserialize, Serialize};

use super::{ConfigError, invalid};
use domain::secret::{self, Reference};

/// The longest file with a secret, in bytes.
const FILE_BYTES_MAX: u64 = 64 << 10;
/// The length of a key, in bytes.
const KEY_BYTES: usize = 32;
/// The most keys: the current key, and earlier keys.
const KEYS_MAX: usize = 10;

/// Encryption of the secrets of destinations in Redis.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Secrets {
    /// Keys in base64, separated by white space. The first key encrypts, all keys decrypt. Empty: plain text.
    #[serde(deserialize_with = "secret::text")]
    pub key: String,
    /// Refuses to start without a key.
    pub required: bool,
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secrets").field("required", &self.required).finish_non_exhaustive()
    }
}

impl Secrets {
    /// The keys, the current one first.
    pub fn keys(&self) -> Result<Vec<[u8; KEY_BYTES]>, ConfigError> {
        let mut keys: Vec<[u8; KEY_BYTES]> = Vec::new();
        for (at, text) in self.key.split_whitespace().enumerate() {
            // The error must not contain the key.
            let bad = |problem: &str| {
                let make = "make one with: openssl rand -base64 32";
                invalid("secrets.key", format!("key {}: {problem}; {make}", at + 1))
            };
            let bytes = BASE64_STANDARD.decode(text).map_err(|_| bad("is not base64"))?;
            let key = bytes.try_into().map_err(|_| bad("must have 32 bytes"))?;
            if keys.contains(&key) {
                return Err(bad("is there twice"));
            }
            keys.push(key);
        }
        if keys.len() > KEYS_MAX {
            return Err(invalid("secrets.key", format!("has more than {KEYS_MAX} keys")));
        }
        Ok(keys)
    }

    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        let keys = self.keys()?;
        if self.required && keys.is_empty() {
            let problem = "is true, and there is no secrets.key".into();
            return Err(invalid("secrets.required", problem));
        }
        Ok(())
    }
}

/// Reads the secret that a reference names.
pub(super) fn resolve(
    reference: &Reference,
    variables: &HashMap<String, String>,
) -> Result<String, String> {
    match reference {
        Reference::File(path) => read_secret(path),
        Reference::Env(name) if name.starts_with(super::overlay::PREFIX) => {
            Err(format!("the variable {name} must not begin with RESEQ_: these are fields"))
        }
        Reference::Env(name) => match variables.get(name) {
            Some(text) if !text.trim().is_empty() => Ok(text.trim().to_owned()),
            Some(_) => Err(format!("the environment variable {name} is empty")),
            None => Err(format!("the environment variable {name} is not set")),
        },
    }
}

/// The secret in a file, without white space around it.
pub fn read_secret(path: &Path) -> Result<String, String> {
    let shown = path.display();
    let mut text = String::new();
    File::open(path)
        .and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text))
        .map_err(|error| format!("the file {shown} cannot be read: {error}"))?;
    match text.trim() {
        _ if text.len() as u64 > FILE_BYTES_MAX => {
            Err(format!("the file {shown} has more than {FILE_BYTES_MAX} bytes"))
        }
        "" => Err(format!("the file {shown} is empty")),
        text => Ok(text.to_owned()),
    }
}

/// Runs `read`, and resolves the references to files and variables that it finds in place of secrets.
pub fn with_references<T>(read: impl FnOnce() -> T) -> T {
    let variables: HashMap<String, String> = std::env::vars().collect();
    secret::resolving(move |reference| resolve(reference, &variables), read)
}
