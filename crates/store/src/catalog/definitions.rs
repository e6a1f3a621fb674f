//! Definitions as Redis stores them: the authoritative copy in the partition, and the copy in the index.

use std::sync::Arc;

use redis::Pipeline;

use crate::{
    Store, StoreError,
    entry::{CatalogEntry, Paused},
};
use domain::{DestinationName, Epoch};

impl Store {
    /// Parses an index entry: `<version> <paused, or ->,@<born> <definition>`.
    pub(crate) fn parse_index_entry(&self, name: &str, entry: &str) -> Option<CatalogEntry> {
        let mut parts = entry.splitn(3, ' ');
        let (version, mark, json) = (parts.next()?, parts.next()?, parts.next()?);
        let (paused, born) = Paused::of_mark(mark);
        let parsed = self.parse_definition(name, version, paused, born?, json);
        parsed.unwrap_or_default()
    }

    /// Reads the definition from the partition, and corrects the index.
    pub(crate) async fn stored_definition(
        &self,
        name: &DestinationName,
    ) -> Result<Option<CatalogEntry>, StoreError> {
        let keys = self.keys().destination(name);
        let mut pipe = Pipeline::new();
        pipe.hmget(keys.hash(), &["version", "definition", "deleted", "paused", "born"]);
        type Text = Option<String>;
        type StoredDefinition = (Text, Text, Text, Text, Option<Epoch>);
        let ((version, definition, deleted, paused, born),): (StoredDefinition,) =
            self.query(&pipe).await?;
        let (Some(version), Some(json), None) = (version, definition, deleted) else {
            return Ok(None);
        };
        let paused = Paused::of_text(paused.as_deref().unwrap_or_default());
        let entry = self.parse_definition(
            name.as_str(),
            &version,
            paused,
            born.unwrap_or_default(),
            &json,
        )?;
        if let Some(entry) = &entry {
            self.index(name, entry.version, (paused, entry.born, &json)).await?;
        }
        Ok(entry)
    }

    fn parse_definition(
        &self,
        name: &str,
        version: &str,
        paused: Paused,
        born: Epoch,
        json: &str,
    ) -> Result<Option<CatalogEntry>, StoreError> {
        match (self.inner.keyring.unseal(json), version.parse()) {
            (Ok(written), Ok(version)) => {
                let partition = self.keys().partition_of(&written.name);
                self.inner.epochs.note_carried(partition, born);
                let (destination, of_all_shards) = match written.shards {
                    1 => (written, None),
                    _ => (written.for_each_shard(), Some(Arc::new(written))),
                };
                Ok(Some(CatalogEntry {
                    destination,
                    of_all_shards,
                    version,
                    partition,
                    paused,
                    born,
                }))
            }
            (Err(error), _) => {
                tracing::error!(destination = name, %error, "a stored definition cannot be read");
                // A process with the key can read the definition, so do not treat it as missing.
                match error {
                    StoreError::NoSecretsKey(_) => Err(error),
                    _ => Ok(None),
                }
            }
            (_, Err(_)) => Ok(None),
        }
    }
}
