//! Extends leases (`lua/extend.lua`).

use std::time::Duration;

use redis::{FromRedisValue, ParsingError, Value};

use super::complete::Status;
use crate::{
    Store, StoreError,
    calls::unexpected,
    contract::{contract, row},
    entry::CatalogEntry,
    keys::{Claimers, DestinationKeys},
};
use domain::{LeaseToken, Sequence};

row! {
    /// An extension of one lease.
    ExtensionRow<'a> {
        sequence: Sequence,
        /// The lease, as a member of `leases`.
        member: String,
        claimed_ms: u64,
        /// The checkpoint as JSON; empty: unchanged.
        checkpoint: &'a str,
    }
}

contract! {
    extend
    keys(keys: &DestinationKeys) {
        messages, leases, attempts, epoch,
    }
    args<'a> {
        lease_ms: u64,
        /// 0: no limit.
        attempt_ms_max: u64,
    }
    lists {
        extensions: ExtensionRow<'a>,
    }
}

/// An extension of one lease.
#[derive(Debug, Clone)]
pub struct Extension {
    /// The lease.
    pub token: LeaseToken,
    /// The checkpoint for the next attempt, as JSON, in case this attempt fails. `None` keeps the earlier checkpoint.
    pub checkpoint: Option<String>,
}

impl Store {
    /// Extends leases on one destination's messages to `lease` from now, and stores checkpoints. Also returns the new
    /// deadline, in ms since 1970 by the server's clock. If a worker's attempt has made no progress for
    /// `transform.attempt_ms_max`, its status is [`Status::AttemptTimeout`], and its lease continues unchanged.
    pub async fn extend(
        &self,
        entry: &CatalogEntry,
        extensions: &[Extension],
        lease: Duration,
    ) -> Result<(u64, Vec<Status>), StoreError> {
        let keys = self.keys_of(entry);
        let rows = extensions.iter().map(|Extension { token, checkpoint }| ExtensionRow {
            sequence: token.sequence,
            member: token.member(),
            claimed_ms: token.claimed_ms,
            checkpoint: checkpoint.as_deref().unwrap_or_default(),
        });
        let attempt_ms_max = match entry.claimers() {
            Claimers::Worker => entry.destination.transform.attempt_ms_max,
            // Processors limit their attempts themselves.
            Claimers::Builtin => 0,
        };
        let lease_ms = lease.as_millis() as u64;
        let call = Args { lease_ms, attempt_ms_max, extensions: rows.collect() }.call(self, &keys);
        let mut answer = self.run::<Vec<Value>>(&call).await?.into_iter();
        let read = |value| u64::from_redis_value(value).ok();
        let deadline = answer.next().and_then(read).ok_or_else(|| unexpected("extend"))?;
        let statuses: Result<_, ParsingError> = answer.map(Status::from_redis_value).collect();
        Ok((deadline, statuses.map_err(|_| unexpected("extend"))?))
    }
}
