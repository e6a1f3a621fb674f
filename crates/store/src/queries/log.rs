//! The log of a destination: the messages that have left it.

use bytes::Bytes;

use crate::{
    Store, StoreError,
    entry::CatalogEntry,
    log_entry::{Content, LogEntry},
};
use domain::Sequence;

impl Store {
    /// The log entries of these sequences; `None` if an entry does not exist (any more).
    pub async fn log_entries(
        &self,
        entry: &CatalogEntry,
        sequences: &[Sequence],
    ) -> Result<Vec<Option<LogEntry>>, StoreError> {
        if sequences.is_empty() {
            return Ok(Vec::new());
        }
        // An unreadable entry counts as missing, so that it does not hide other entries.
        let found = self.log_found(entry, sequences).await?;
        Ok(found.into_iter().map(|entry| entry?.ok()).collect())
    }

    /// Like `log_entries`, but returns the reason for an unreadable entry. For display.
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

    /// Loads bodies that are stored out of line into their entries. If the body of an entry is gone, the entry loses
    /// its content.
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
