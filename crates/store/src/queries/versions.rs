//! Reads the last versions of a definition.

use crate::{Store, StoreError, versions::KeptDefinition};
use domain::DestinationName;

impl Store {
    /// The last versions of a destination's definition, the newest first. Their secrets are masked.
    pub async fn versions(
        &self,
        destination: &DestinationName,
    ) -> Result<Vec<KeptDefinition>, StoreError> {
        let mut pipe = redis::pipe();
        pipe.hget(self.keys().destination(destination).hash(), "versions");
        let (lines,): (Option<String>,) = self.query(&pipe).await?;
        Ok(lines.unwrap_or_default().lines().filter_map(KeptDefinition::read).collect())
    }
}
