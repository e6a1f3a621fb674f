//! Reads stored earlier definitions.

use std::collections::BTreeMap;

use crate::{
    Store, StoreError, server_clock_ms,
    versions::{KeptDefinition, REMOVED_KEPT},
};
use domain::{Destination, DestinationName};

impl Store {
    /// The last versions of a destination's definition, newest first. Their secrets are masked.
    pub async fn versions(
        &self,
        destination: &DestinationName,
    ) -> Result<Vec<KeptDefinition>, StoreError> {
        let lines: Option<String> = self
            .ask(&redis::Cmd::hget(self.keys().destination(destination).hash(), "versions"))
            .await?;
        Ok(lines.unwrap_or_default().lines().filter_map(KeptDefinition::read).collect())
    }

    /// The last definitions of removed destinations, by name. Their secrets are masked.
    pub async fn removed_definitions(
        &self,
    ) -> Result<BTreeMap<DestinationName, KeptDefinition>, StoreError> {
        let mut pipe = redis::pipe();
        // There are few definitions, so one call returns them all.
        pipe.cmd("HSCAN").arg(self.keys().removed_definitions()).arg(0).arg("COUNT").arg(1000);
        let ((_, lines),): ((u64, BTreeMap<String, String>),) = self.query(&pipe).await?;
        let read = |(name, line): (String, String)| {
            let mut kept = read_removed(&line)?;
            kept.definition.as_object_mut()?.remove("sealed");
            Some((name.parse().ok()?, kept))
        };
        Ok(lines.into_iter().filter_map(read).collect())
    }

    /// The definition of a removed destination in its stored form, if Redis still keeps it.
    pub async fn removed_definition(
        &self,
        destination: &DestinationName,
    ) -> Result<Option<KeptDefinition>, StoreError> {
        let line: Option<String> = self
            .ask(&redis::Cmd::hget(self.keys().removed_definitions(), destination.as_str()))
            .await?;
        Ok(line.as_deref().and_then(read_removed))
    }

    /// Decrypts a kept definition. Its secrets are included only if they were encrypted.
    pub fn unseal_kept(&self, kept: &KeptDefinition) -> Result<Destination, StoreError> {
        self.inner.keyring.unseal(&kept.definition.to_string())
    }
}

/// Reads the definition of a removed destination; `None` if it was kept for too long.
fn read_removed(line: &str) -> Option<KeptDefinition> {
    let since = server_clock_ms().saturating_sub(REMOVED_KEPT.as_millis() as u64);
    KeptDefinition::read(line).filter(|kept| kept.at_ms >= since)
}
