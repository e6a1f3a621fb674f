//! Reads the indexes of all destinations and topics.

use redis::{Cmd, Pipeline};
use serde::de::DeserializeOwned;

use crate::{Store, StoreError, keys::IndexKeys};

/// The most changes that one call returns.
const CHANGES_MAX: usize = 500;

/// The approximate number of names that one call returns while a whole index is read.
const PAGE: usize = 250;

/// The count of changes. It is a field of the index like the names; `*` cannot be part of a name.
const REVISION: &str = "*";

/// The revision of the newest removal that the index has forgotten.
const FLOOR: &str = "*floor";

/// The replication id of the server that wrote last. Revisions of different histories cannot be compared.
const HISTORY: &str = "*history";

/// The position up to which a pod has followed an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Followed {
    history: String,
    revision: u64,
}

/// The changes of an index since a position.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Changes {
    /// There are no changes.
    Nothing,
    /// The current entries of these names (`None`: removed), and the position after these changes. There may be
    /// further changes.
    Of(Vec<(String, Option<String>)>, Followed),
    /// The index no longer lists all changes since the position: the pod must read the whole index.
    Unknown,
}

/// Parses an entry of the index of topics or tokens: `<version> <JSON>`.
pub(super) fn read_entry<T: DeserializeOwned>(entry: &str) -> Option<(u64, T)> {
    let (version, json) = entry.split_once(' ')?;
    Some((version.parse().ok()?, serde_json::from_str(json).ok()?))
}

impl Store {
    /// The current position. A pod that reads the whole index afterwards has followed it at least up to this
    /// position.
    pub(crate) async fn index_now(&self, index: &IndexKeys) -> Result<Followed, StoreError> {
        let (revision, history): (Option<u64>, Option<String>) =
            self.ask(&Cmd::hmget(index.hash(), &[REVISION, HISTORY])).await?;
        Ok(Followed {
            history: history.unwrap_or_default(),
            revision: revision.unwrap_or_default(),
        })
    }

    /// Reads the changes since a position.
    pub(crate) async fn index_changes(
        &self,
        index: &IndexKeys,
        since: &Followed,
    ) -> Result<Changes, StoreError> {
        let mut pipe = Pipeline::new();
        pipe.cmd("ZRANGE").arg(index.changes()).arg(format!("({}", since.revision)).arg("+inf");
        pipe.arg("BYSCORE").arg("LIMIT").arg(0).arg(CHANGES_MAX).arg("WITHSCORES");
        pipe.hmget(index.hash(), &[REVISION, FLOOR, HISTORY]);
        type Head = (Option<u64>, Option<u64>, Option<String>);
        let (changed, (revision, floor, history)): (Vec<(String, u64)>, Head) =
            self.query_at_once(&pipe).await?;
        let (revision, floor) = (revision.unwrap_or_default(), floor.unwrap_or_default());
        if history.unwrap_or_default() != since.history
            || revision < since.revision
            || floor > since.revision
        {
            return Ok(Changes::Unknown);
        }
        let Some((_, upto)) = changed.last() else {
            let is_all = revision == since.revision;
            return Ok(if is_all { Changes::Nothing } else { Changes::Unknown });
        };
        let followed = Followed { history: since.history.clone(), revision: *upto };
        let names: Vec<String> = changed.into_iter().map(|(name, _)| name).collect();
        // If a name changes again meanwhile, a later call reports it again.
        let held: Vec<Option<String>> = self.ask(&Cmd::hmget(index.hash(), &names)).await?;
        Ok(Changes::Of(names.into_iter().zip(held).collect(), followed))
    }

    /// Reads some names with their entries. A scan starts with cursor 0 and ends when the next cursor is 0. It
    /// returns every name that exists all the time, perhaps more than once.
    pub(crate) async fn index_page(
        &self,
        index: &IndexKeys,
        cursor: u64,
    ) -> Result<(u64, Vec<(String, String)>), StoreError> {
        let (next, mut entries): (u64, Vec<(String, String)>) = self
            .ask(redis::cmd("HSCAN").arg(index.hash()).arg(cursor).arg("COUNT").arg(PAGE))
            .await?;
        entries.retain(|(name, _)| !name.starts_with(REVISION));
        Ok((next, entries))
    }
}
