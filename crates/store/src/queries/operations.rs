//! Reads bulk operations.

use redis::{Cmd, Pipeline};

use crate::{Store, StoreError, entry::CatalogEntry};
use domain::DestinationName;

impl Store {
    /// The state of an operation; `None` if the operation does not exist (any more).
    pub async fn operation(
        &self,
        entry: &CatalogEntry,
        id: &str,
    ) -> Result<Option<String>, StoreError> {
        let keys = self.keys_of(entry);
        let state: Option<String> = self.ask(&Cmd::hget(keys.operation(id), "state")).await?;
        Ok(state)
    }

    /// The states of a destination's operations that Redis still keeps, newest first.
    pub async fn operations(&self, entry: &CatalogEntry) -> Result<Vec<String>, StoreError> {
        let keys = self.keys_of(entry);
        let ids = self.operation_ids(&entry.destination.name).await?;
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let mut pipe = Pipeline::new();
        for id in ids.iter().rev() {
            pipe.hget(keys.operation(id), "state");
        }
        let states: Vec<Option<String>> = self.query(&pipe).await?;
        Ok(states.into_iter().flatten().collect())
    }

    /// The ids of a destination's operations, oldest first. Redis may have forgotten some of them.
    pub(crate) async fn operation_ids(
        &self,
        destination: &DestinationName,
    ) -> Result<Vec<String>, StoreError> {
        let keys = self.keys().destination(destination);
        let members: Vec<String> =
            self.ask(&Cmd::zrange(keys.partition.operations(), 0, -1)).await?;
        let id = |member: &String| {
            let (of, id) = member.split_once('/')?;
            (of == destination.as_str()).then(|| id.to_owned())
        };
        Ok(members.iter().filter_map(id).collect())
    }
}
