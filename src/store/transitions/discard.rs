//! Discards dead letters (`lua/discard.lua`).

use crate::{
    domain::Sequence,
    store::{Store, StoreError, entry::CatalogEntry},
};

impl Store {
    /// Discards dead letters; at most 1,000. Returns how many there were.
    pub async fn discard(
        &self,
        entry: &CatalogEntry,
        letters: &[Sequence],
    ) -> Result<u64, StoreError> {
        if letters.is_empty() {
            return Ok(0);
        }
        let keys = self.keys().destination(&entry.destination.name);
        let mut call = self.call(|scripts| &scripts.discard);
        call.key(keys.hash())
            .key(keys.dead_letters())
            .key(keys.dead_letter_messages())
            .key(keys.partition.epoch());
        call.key(keys.bodies()).key(keys.dead_lettered_at());
        call.arg(entry.version).arg(letters);
        self.run(&call).await
    }
}
