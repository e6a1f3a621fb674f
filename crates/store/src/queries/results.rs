//! The results that producers wait for.

use bytes::Bytes;
use redis::Cmd;

use crate::{Store, StoreError, entry::CatalogEntry, kept_result::KeptResult};
use domain::Sequence;

impl Store {
    /// The result that Redis keeps for the producer of this message, if there is one.
    pub async fn kept_result(
        &self,
        entry: &CatalogEntry,
        sequence: Sequence,
    ) -> Result<Option<KeptResult>, StoreError> {
        let kept: Option<Bytes> = self.ask(&Cmd::get(self.keys_of(entry).result(sequence))).await?;
        kept.map(|kept| KeptResult::decode(&kept)).transpose()
    }
}
