//! Writes a definition, or its removal, to the index of all destinations (`lua/index.lua`).

use crate::{Store, StoreError, contract::contract, entry::Paused, keys::IndexKeys};
use domain::{DestinationName, Epoch};

contract! {
    index
    keys(keys: &IndexKeys) {
        destinations: keys.hash(), changes, removed,
    }
    args<'a> {
        destination: &'a str,
        version: u64,
        content: String,
        channel: String,
        removed_max: usize,
    }
}

/// How many removed names an index remembers. A pod that is further behind reads everything again.
pub(crate) const REMOVED_MAX: usize = 10_000;

impl Store {
    /// Writes a definition, or its removal, to the index of all destinations, unless the index has
    /// a newer one.
    pub(crate) async fn index(
        &self,
        name: &DestinationName,
        version: u64,
        definition: Option<(Paused, Epoch, &str)>,
    ) -> Result<(), StoreError> {
        let noted = definition.map_or_else(String::new, |(paused, born, json)| {
            format!("{version} {} {json}", paused.mark(born))
        });
        let index = self.keys().destinations();
        let call = Args {
            destination: name.as_str(),
            version,
            content: noted,
            channel: self.keys().wake_definitions(),
            removed_max: REMOVED_MAX,
        }
        .call(self, &index);
        self.run::<u64>(&call).await?;
        Ok(())
    }
}
