//! Writes a definition, or its removal, to the index of all destinations (`lua/index.lua`).

use crate::{
    domain::{DestinationName, Epoch},
    store::{Store, StoreError, entry::Paused},
};

/// How many removed names an index remembers. A pod that is further behind reads everything again.
pub(in crate::store) const REMOVED_MAX: usize = 10_000;

impl Store {
    /// Writes a definition, or its removal, to the index of all destinations, unless the index has
    /// a newer one.
    pub(in crate::store) async fn index(
        &self,
        name: &DestinationName,
        version: u64,
        definition: Option<(Paused, Epoch, &str)>,
    ) -> Result<(), StoreError> {
        let noted = definition.map_or_else(String::new, |(paused, born, json)| {
            format!("{version} {} {json}", paused.mark(born))
        });
        let mut call = self.call(|scripts| &scripts.index);
        let index = self.keys().destinations();
        call.key(index.hash()).key(index.changes()).key(index.removed());
        call.arg(name.as_str()).arg(version).arg(noted).arg(self.keys().wake_definitions());
        call.arg(REMOVED_MAX);
        self.run::<u64>(&call).await?;
        Ok(())
    }
}
