//! Extends leases (`lua/extend.lua`).

use std::time::Duration;

use redis::{FromRedisValue, ParsingError, Value};

use super::complete::Status;
use crate::{
    domain::LeaseToken,
    store::{Store, StoreError, calls::unexpected, entry::CatalogEntry},
};

/// An extension of one lease.
#[derive(Debug, Clone)]
pub struct Extension {
    /// The lease.
    pub token: LeaseToken,
    /// The checkpoint for the next attempt, as JSON, if this one fails. `None` keeps the earlier
    /// one.
    pub checkpoint: Option<String>,
}

impl Store {
    /// Extends leases on one destination's messages to `lease` from now, and stores checkpoints.
    /// Also returns the new deadline, in ms since 1970 by the server's clock.
    pub async fn extend(
        &self,
        entry: &CatalogEntry,
        extensions: &[Extension],
        lease: Duration,
    ) -> Result<(u64, Vec<Status>), StoreError> {
        let keys = self.keys().destination(&entry.destination.name);
        let mut call = self.call(|scripts| &scripts.extend);
        call.key(keys.messages()).key(keys.partition.leases()).key(keys.attempts());
        call.key(keys.partition.epoch());
        call.arg(lease.as_millis() as u64);
        for Extension { token, checkpoint } in extensions {
            call.arg(token.sequence).arg(token.member());
            call.arg(checkpoint.as_deref().unwrap_or_default());
        }
        let mut answer = self.run::<Vec<Value>>(&call).await?.into_iter();
        let read = |value| u64::from_redis_value(value).ok();
        let deadline = answer.next().and_then(read).ok_or_else(|| unexpected("extend"))?;
        let statuses: Result<_, ParsingError> = answer.map(Status::from_redis_value).collect();
        Ok((deadline, statuses.map_err(|_| unexpected("extend"))?))
    }
}
