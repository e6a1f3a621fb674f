//! Notes a definition, or its end, in the index of all destinations (`lua/index.lua`).

use crate::{
    domain::{DestinationName, Epoch},
    store::{Store, StoreError, entry::Paused},
};

/// How many names that are gone an index remembers. A pod that has followed to before the oldest of them
/// reads everything again.
pub(in crate::store) const REMOVED_MAX: usize = 10_000;

impl Store {
    /// Notes a definition, or its end, in the index of all destinations, unless newer is noted.
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
