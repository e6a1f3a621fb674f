//! The marks of sources: the position of the last message of each source.

use std::collections::BTreeMap;

use redis::Cmd;

use crate::{Store, StoreError, entry::CatalogEntry};

/// The approximate number of marks that one query reads.
const PAGE: usize = 1000;

impl Store {
    /// The mark of each source; at most `sources_max`.
    pub async fn sources(
        &self,
        entry: &CatalogEntry,
    ) -> Result<BTreeMap<String, String>, StoreError> {
        let key = self.keys_of(entry).sources();
        let (mut marks, mut cursor) = (BTreeMap::new(), 0);
        loop {
            let (next, page): (u64, Vec<(String, String)>) =
                self.ask(redis::cmd("HSCAN").arg(&key).arg(cursor).arg("COUNT").arg(PAGE)).await?;
            marks.extend(page);
            if next == 0 {
                return Ok(marks);
            }
            cursor = next;
        }
    }

    /// The mark of this source, if it has one.
    pub async fn source(
        &self,
        entry: &CatalogEntry,
        name: &str,
    ) -> Result<Option<String>, StoreError> {
        self.ask(&Cmd::hget(self.keys_of(entry).sources(), name)).await
    }

    /// Forgets the mark of a source. False if the source had no mark.
    pub async fn remove_source(
        &self,
        entry: &CatalogEntry,
        name: &str,
    ) -> Result<bool, StoreError> {
        let removed: bool = self.ask(&Cmd::hdel(self.keys_of(entry).sources(), name)).await?;
        Ok(removed)
    }
}
