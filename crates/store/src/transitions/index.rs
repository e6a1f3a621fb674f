//! Writes a definition, or its removal, to the index of all destinations (`lua/index.lua`).

use crate::{
    Store, StoreError,
    contract::contract,
    entry::Paused,
    keys::{IndexKeys, Keys},
    sealed,
    versions::{Author, REMOVED_DEFINITIONS_MAX, REMOVED_KEPT, note_of},
};
use domain::{DestinationName, Epoch};

contract! {
    index
    keys(keys: &IndexKeys, all: &Keys) {
        destinations: keys.hash(), changes, removed, removed_definitions: all.removed_definitions(),
    }
    args<'a> {
        destination: &'a str,
        version: u64,
        content: String,
        channel: String,
        removed_max: usize,
        removed_note: String,
        kept_ms: u64,
        definitions_max: usize,
    }
}

/// How many removed names an index remembers. A pod that is further behind reads the whole index again.
pub(crate) const REMOVED_MAX: usize = 10_000;

impl Store {
    /// Writes a definition to the index of all destinations, unless the index has a newer definition.
    pub(crate) async fn index(
        &self,
        name: &DestinationName,
        version: u64,
        (paused, born, json): (Paused, Epoch, &str),
    ) -> Result<(), StoreError> {
        let noted = format!("{version} {} {json}", paused.mark(born));
        self.call_index(name, version, noted, String::new()).await
    }

    /// Removes a destination from the index, unless the index has a newer definition. Redis keeps the removed
    /// definition for some time; its secrets only if they are encrypted.
    pub(crate) async fn index_removal(
        &self,
        name: &DestinationName,
        version: u64,
        by: &Author,
    ) -> Result<(), StoreError> {
        let mut pipe = redis::pipe();
        pipe.hget(self.keys().destinations().hash(), name.as_str());
        let (noted,): (Option<String>,) = self.query(&pipe).await?;
        let json = noted.as_deref().and_then(|noted| noted.splitn(3, ' ').nth(2));
        let kept = json.and_then(|json| sealed::without_plain_secrets(json).ok());
        // That of the first shard is the definition of the destination.
        let kept = kept.filter(|_| name.shard() == 0);
        let note = kept.map(|definition| note_of(by, definition)).unwrap_or_default();
        self.call_index(name, version, String::new(), note).await
    }

    async fn call_index(
        &self,
        name: &DestinationName,
        version: u64,
        content: String,
        removed_note: String,
    ) -> Result<(), StoreError> {
        let call = Args {
            destination: name.as_str(),
            version,
            content,
            channel: self.keys().wake_definitions(),
            removed_max: REMOVED_MAX,
            removed_note,
            kept_ms: REMOVED_KEPT.as_millis() as u64,
            definitions_max: REMOVED_DEFINITIONS_MAX,
        }
        .call(self, &self.keys().destinations(), self.keys());
        self.run::<u64>(&call).await?;
        Ok(())
    }
}
