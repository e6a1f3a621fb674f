//! Creates a destination or changes its definition (`lua/define.lua`).
//!
//! The partition's copy of the definition is authoritative, because the scripts that check it run there. The index of
//! all destinations is written afterwards. If a pod dies in between, the next pod whose definition the partition
//! refuses corrects the index.

use crate::{
    Store, StoreError,
    contract::contract,
    entry::{Paused, claimers_of, delivery_text, ordering_text, processing_text},
    keys::DestinationKeys,
    versions::{Author, VERSIONS_MAX, note_of},
};
use domain::{Destination, Epoch};

contract! {
    define
    keys(keys: &DestinationKeys) {
        epoch, destination: keys.hash(), waiting, active_builtin, active_worker, withdrawn,
        previous, ids,
    }
    args<'a> {
        destination: &'a str,
        new_definition: &'a str,
        ordering: &'a str,
        claimers: &'a str,
        seen_epoch: String,
        processing: &'a str,
        stalls_max: u32,
        replaces: String,
        ids_max: u64,
        same_definition: String,
        delivery: &'a str,
        shards: u16,
        note: String,
        versions_max: usize,
        file_forms: &'a str,
    }
}

/// The result of defining a destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Defined {
    /// The definition's version.
    pub version: u64,
    /// False if the definition was the same before.
    pub changed: bool,
    /// True if the destination is new.
    pub created: bool,
    /// The epoch in which the destination was created.
    pub born: Epoch,
}

/// Which version of the definition the new one may replace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Replaces {
    /// Any version, or no version.
    #[default]
    Any,
    /// Only this version.
    Version(u64),
    /// No version: the destination must not exist.
    Nothing,
}

impl Replaces {
    fn text(self) -> String {
        match self {
            Replaces::Any => String::new(),
            Replaces::Version(version) => version.to_string(),
            Replaces::Nothing => "0".to_owned(),
        }
    }
}

/// The author of a definition, and the version that it may replace.
#[derive(Debug, Clone, Default)]
pub struct Terms {
    /// The version that the definition may replace.
    pub replaces: Replaces,
    /// The author.
    pub by: Author,
    /// The forms of the definition that configuration files have written, including the current one; empty: the
    /// stored forms stay.
    pub(crate) file_forms: String,
}

impl Terms {
    /// Creates the terms for this author and this version.
    pub fn new(by: Author, replaces: Replaces) -> Terms {
        Terms { replaces, by, file_forms: String::new() }
    }
}

/// The most removals that one definition finishes before its last try.
const REMOVALS_MAX: usize = 3;

impl Store {
    /// Creates or changes a destination, and notifies all pods.
    pub async fn define(&self, destination: &Destination) -> Result<Defined, StoreError> {
        self.define_over(destination, &Terms::default()).await
    }

    /// Like `define`, but replaces only the version in `terms`. A definition that is already stored counts as done,
    /// whatever its version, so that a repeat succeeds. Finishes an earlier removal first: the process that began the
    /// removal may be gone, or a failover may have lost its end.
    pub async fn define_over(
        &self,
        destination: &Destination,
        terms: &Terms,
    ) -> Result<Defined, StoreError> {
        if destination.shards > 1 && destination.name.shard() == 0 {
            self.check_shards(destination).await?;
        }
        for _ in 0..REMOVALS_MAX {
            match self.call_define(destination, terms).await {
                Err(StoreError::BeingRemoved) => {}
                answer => return answer,
            }
            match self.complete_removal(&destination.name).await {
                // Another process may have finished the removal, and defined the destination again.
                Ok(_) | Err(StoreError::UnknownDestination | StoreError::WrongState(_)) => {}
                Err(error) => return Err(error),
            }
        }
        self.call_define(destination, terms).await
    }

    /// Calls the script once.
    pub async fn call_define(
        &self,
        destination: &Destination,
        terms: &Terms,
    ) -> Result<Defined, StoreError> {
        let keys = self.keys().destination(&destination.name);
        self.check_defined(destination.durability, &keys.hash()).await?;
        let (definition, same) = self.definition_to_store(destination).await?;
        let claimers = claimers_of(destination.transform.kind);
        let partition = self.keys().partition_of(&destination.name);
        let call = Args {
            destination: destination.name.as_str(),
            new_definition: &definition,
            ordering: ordering_text(destination.ordering),
            claimers: claimers.as_str(),
            seen_epoch: self.known_of_epoch(partition),
            processing: processing_text(destination.processing),
            stalls_max: destination.transform.stalls_max,
            replaces: terms.replaces.text(),
            ids_max: destination.ids_indexed(),
            same_definition: same,
            delivery: delivery_text(destination.delivery.kind),
            shards: destination.shards,
            note: note_of(&terms.by, serde_json::json!(destination.masked())),
            versions_max: VERSIONS_MAX,
            file_forms: &terms.file_forms,
        }
        .call(self, &keys);
        let answer = self.run(&call).await?;
        let (version, changed, created, paused, born): (u64, bool, bool, String, u64) = answer;
        self.inner.epochs.note_carried(partition, born);
        let paused = Paused::of_text(&paused);
        let noted = self.index(&destination.name, version, (paused, born, &definition));
        noted.await.map_err(StoreError::after_partial_success)?;
        Ok(Defined { version, changed, created, born })
    }

    /// The text of the definition to store. Also the stored text, if it means the same but must be replaced: its
    /// secrets are encrypted with another key, or not encrypted.
    async fn definition_to_store(
        &self,
        destination: &Destination,
    ) -> Result<(String, String), StoreError> {
        let keyring = &self.inner.keyring;
        if destination.secrets().next().is_none() {
            return Ok((keyring.seal(destination)?, String::new()));
        }
        let keys = self.keys().destination(&destination.name);
        let stored: Option<String> = self.ask(&redis::Cmd::hget(keys.hash(), "definition")).await?;
        let Some(stored) = stored else { return Ok((keyring.seal(destination)?, String::new())) };
        let is_same = match keyring.unseal(&stored) {
            Ok(known) => known == *destination,
            // Storing would replace encrypted secrets by plain text.
            Err(error @ StoreError::NoSecretsKey(_)) if keyring.is_empty() => return Err(error),
            Err(_) => false,
        };
        match is_same {
            true if keyring.is_current(&stored) => Ok((stored, String::new())),
            true => Ok((keyring.seal(destination)?, stored)),
            false => Ok((keyring.seal(destination)?, String::new())),
        }
    }
}
