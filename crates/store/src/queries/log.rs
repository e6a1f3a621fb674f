//! The log of a destination: what has left it.

use bytes::Bytes;

use crate::{
    Store, StoreError,
    entry::CatalogEntry,
    log_entry::{Content, LogEntry},
};
use domain::Sequence;

impl Store {
    /// The log entries of these sequences; `None` if there is none (any more).
    pub async fn log_entries(
        &self,
        entry: &CatalogEntry,
        sequences: &[Sequence],
    ) -> Result<Vec<Option<LogEntry>>, StoreError> {
        if sequences.is_empty() {
            return Ok(Vec::new());
        }
        // An unreadable entry counts as none, so that it does not hide the others.
        let found = self.log_found(entry, sequences).await?;
        Ok(found.into_iter().map(|entry| entry?.ok()).collect())
    }

    /// Like `log_entries`, but an unreadable entry says why. For display.
    pub async fn log_found(
        &self,
        entry: &CatalogEntry,
        sequences: &[Sequence],
    ) -> Result<Vec<Option<Result<LogEntry, String>>>, StoreError> {
        let entries: Vec<Option<Bytes>> =
            self.ask(&redis::Cmd::hmget(self.keys_of(entry).log(), sequences)).await?;
        let read = |entry: Bytes| LogEntry::decode(&entry).map_err(|error| error.to_string());
        Ok(entries.into_iter().map(|entry| entry.map(read)).collect())
    }

    /// Loads the bodies that are stored out of line into entries. An entry whose body is gone loses its
    /// content.
    pub async fn fill_entries(
        &self,
        entry: &CatalogEntry,
        entries: &mut [(Sequence, LogEntry)],
    ) -> Result<(), StoreError> {
        let wanted = entries.iter().enumerate().filter_map(|(at, (sequence, entry))| {
            let (part, length) = entry.content.as_ref()?.part()?;
            Some((at, (part.field(*sequence), length)))
        });
        let (places, fields): (Vec<_>, Vec<_>) = wanted.unzip();
        for (at, body) in places.into_iter().zip(self.bodies(entry, &fields).await?) {
            let content = entries[at].1.content.take();
            entries[at].1.content =
                content.zip(body).map(|(content, bytes)| Content { bytes, ..content });
        }
        Ok(())
    }
}
