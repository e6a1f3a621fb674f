//! Reads the indexes of all destinations and topics.

use redis::{Cmd, Pipeline};
use serde::de::DeserializeOwned;

use crate::{Store, StoreError, keys::IndexKeys};

/// The most changes that one call returns.
const CHANGES_MAX: usize = 500;

/// About how many names one call returns while everything is read.
const PAGE: usize = 250;

/// Fields beside the names: `*` cannot be part of a name. The revision: a count of changes.
const REVISION: &str = "*";

/// The revision of the last removal that the index no longer lists.
const FLOOR: &str = "*floor";

/// The replication id of the server that wrote last. Revisions of another history cannot be compared.
const HISTORY: &str = "*history";

/// How far a pod has followed an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Followed {
    history: String,
    revision: u64,
}

/// What has changed in an index.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Changes {
    /// Nothing.
    Nothing,
    /// The current entries of these names (`None`: removed), and the position after them. There may
    /// be more.
    Of(Vec<(String, Option<String>)>, Followed),
    /// The index no longer lists all changes since then: everything must be read.
    Unknown,
}

/// Parses an entry of the index of topics or tokens: `<version> <JSON>`.
pub(super) fn read_entry<T: DeserializeOwned>(entry: &str) -> Option<(u64, T)> {
    let (version, json) = entry.split_once(' ')?;
    Some((version.parse().ok()?, serde_json::from_str(json).ok()?))
}

impl Store {
    /// The current position. A pod that then reads the whole index has followed it at least this
    /// far.
    pub(crate) async fn index_now(&self, index: &IndexKeys) -> Result<Followed, StoreError> {
        let (revision, history): (Option<u64>, Option<String>) =
            self.ask(&Cmd::hmget(index.hash(), &[REVISION, HISTORY])).await?;
        Ok(Followed {
            history: history.unwrap_or_default(),
            revision: revision.unwrap_or_default(),
        })
    }

    /// The changes since a position.
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
        // A name that changes again meanwhile is reported again.
        let held: Vec<Option<String>> = self.ask(&Cmd::hmget(index.hash(), &names)).await?;
        Ok(Changes::Of(names.into_iter().zip(held).collect(), followed))
    }

    /// Some names with their entries. From cursor 0 until it is 0 again, every name that exists
    /// throughout is returned, perhaps more than once.
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
