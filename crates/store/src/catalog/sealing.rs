//! Finds out how the secrets of all definitions are stored, and encrypts them with a new key.

use std::collections::BTreeMap;

use tokio_util::sync::CancellationToken;

use crate::{
    Author, Replaces, Store, StoreError, Terms,
    sealed::{Sealing, sealing},
};
use domain::{Destination, DestinationName};

/// The most names of destinations that one sentence lists.
const NAMED_MAX: usize = 5;

/// How the secrets of all definitions are stored.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct SecretsFound {
    /// The number of definitions whose secrets are encrypted with the current key.
    pub current: u64,
    /// The number of definitions whose secrets are in plain text.
    pub plain: u64,
    /// The number of definitions whose secrets are encrypted with an earlier key, by the id of the key.
    pub earlier: BTreeMap<String, u64>,
    /// The names of destinations whose secrets are encrypted with a key that this process does not have, by the id of
    /// the key.
    pub unknown: BTreeMap<String, Vec<String>>,
}

impl SecretsFound {
    /// Returns a sentence for each missing key.
    pub fn missing_keys(&self) -> impl Iterator<Item = String> {
        self.unknown.iter().map(|(id, names)| {
            let shown = names.iter().take(NAMED_MAX).map(String::as_str).collect::<Vec<_>>().join(", ");
            let more = if names.len() > NAMED_MAX { ", …" } else { "" };
            format!(
                "secrets.key does not have the key {id}, with which the secrets of {} destinations are encrypted \
                 ({shown}{more}): this process can neither deliver nor accept their messages",
                names.len()
            )
        })
    }

    /// Returns a sentence for each other problem that the operator should correct.
    pub fn advice(&self) -> Vec<String> {
        let mut all = Vec::new();
        if self.plain > 0 {
            all.push(format!(
                "the secrets of {} destinations are in Redis in plain text: set secrets.key, and start a process with it",
                self.plain
            ));
        }
        all.extend(self.earlier.iter().map(|(id, count)| {
            format!(
                "the secrets of {count} destinations are still encrypted with the earlier key {id}: keep it in \
                 secrets.key until a process was started with the new one before it"
            )
        }));
        all
    }
}

impl Store {
    /// True if this process has keys for the secrets of definitions.
    pub fn has_keys(&self) -> bool {
        !self.inner.keyring.is_empty()
    }

    /// Reads all definitions, and counts how their secrets are stored.
    pub async fn secrets_found(&self) -> Result<SecretsFound, StoreError> {
        let keyring = &self.inner.keyring;
        let mut found = SecretsFound::default();
        let mut cursor = 0;
        loop {
            let (next, page) = self.stored_definitions(cursor).await?;
            for (name, _, text) in page {
                match sealing(&text) {
                    Ok(Sealing::NoSecrets) | Err(_) => {}
                    Ok(Sealing::Plain) => found.plain += 1,
                    Ok(Sealing::With(id)) if keyring.current() == Some(&id) => found.current += 1,
                    Ok(Sealing::With(id)) if keyring.has(&id) => {
                        *found.earlier.entry(id).or_default() += 1;
                    }
                    Ok(Sealing::With(id)) => found.unknown.entry(id).or_default().push(name),
                }
            }
            if next == 0 {
                found.unknown.values_mut().for_each(|names| names.sort());
                return Ok(found);
            }
            cursor = next;
        }
    }

    /// Encrypts the secrets of all definitions with the current key. The versions of the definitions stay. Returns
    /// how many definitions it changed.
    pub async fn seal_again(&self, stop: &CancellationToken) -> Result<u64, StoreError> {
        let keyring = &self.inner.keyring;
        let (mut changed, mut cursor) = (0, 0);
        loop {
            let (next, page) = self.stored_definitions(cursor).await?;
            for (_, version, text) in page {
                if keyring.is_current(&text) {
                    continue;
                }
                // A definition that cannot be read stays as it is.
                let Ok(destination) = keyring.unseal(&text) else { continue };
                if stop.is_cancelled() {
                    return Ok(changed);
                }
                changed += self.seal_one_again(&destination, version).await?;
            }
            if next == 0 {
                return Ok(changed);
            }
            cursor = next;
        }
    }

    async fn seal_one_again(
        &self,
        destination: &Destination,
        version: u64,
    ) -> Result<u64, StoreError> {
        let terms = Terms::new(Author::default(), Replaces::Version(version));
        match self.define_over(destination, &terms).await {
            Ok(_) => Ok(1),
            // The definition has changed meanwhile, and the process that changed it has encrypted it.
            Err(
                StoreError::WrongVersion(_)
                | StoreError::WrongState(_)
                | StoreError::UnknownDestination
                | StoreError::BeingRemoved,
            ) => Ok(0),
            Err(error) => Err(error),
        }
    }

    /// Reads some stored definitions, with name and version. Also returns the cursor for the next call.
    async fn stored_definitions(
        &self,
        cursor: u64,
    ) -> Result<(u64, Vec<(String, u64, String)>), StoreError> {
        let index = self.keys().destinations();
        let (next, entries) = self.index_page(&index, cursor).await?;
        let parsed = entries.into_iter().filter_map(|(name, entry)| {
            name.parse::<DestinationName>().ok()?;
            let mut parts = entry.splitn(3, ' ');
            let version = parts.next()?.parse().ok()?;
            Some((name, version, parts.nth(1)?.to_owned()))
        });
        Ok((next, parsed.collect()))
    }
}
