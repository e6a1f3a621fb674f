//! Discards dead letters (`lua/discard.lua`).

use crate::{Store, StoreError, contract::contract, entry::CatalogEntry, keys::DestinationKeys};
use domain::Sequence;

contract! {
    discard
    keys(keys: &DestinationKeys) {
        destination: keys.hash(), dead_letters, dead_letter_messages, epoch, bodies,
        dead_lettered_at,
    }
    args {
        version: u64,
    }
    lists {
        sequences: Sequence,
    }
}

impl Store {
    /// Discards dead letters; at most 1,000. Returns how many of them existed.
    pub async fn discard(
        &self,
        entry: &CatalogEntry,
        letters: &[Sequence],
    ) -> Result<u64, StoreError> {
        if letters.is_empty() {
            return Ok(0);
        }
        let keys = self.keys_of(entry);
        let call = Args { version: entry.version, sequences: letters.to_vec() }.call(self, &keys);
        self.run(&call).await
    }
}
