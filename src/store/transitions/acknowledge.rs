//! Applies what consumers say of messages that they hold (`lua/acknowledge.lua`).

use std::time::Duration;

use redis::{FromRedisValue, ParsingError, Value};

use super::complete::Status;
use crate::{
    domain::{AttemptError, LeaseToken},
    store::{Store, StoreError, attempts, calls::unexpected, entry::CatalogEntry},
};

/// A message that a consumer refuses.
#[derive(Debug, Clone)]
pub struct RefusedMessage {
    /// The lease.
    pub token: LeaseToken,
    /// What went wrong.
    pub error: AttemptError,
    /// The wait before the next attempt that the consumer asks for.
    pub retry_after: Option<Duration>,
    /// No other attempt can succeed.
    pub is_permanent: bool,
}

impl Store {
    /// Accepts messages, and those before them in their lanes. They count as delivered.
    pub async fn accept(
        &self,
        entry: &CatalogEntry,
        tokens: &[LeaseToken],
    ) -> Result<Vec<Status>, StoreError> {
        Ok(self.acknowledge(entry, "accept", Duration::ZERO, tokens, &[]).await?.1)
    }

    /// Gives back the lanes of these messages, from the first message that is not accepted on. Counts no attempt.
    pub async fn give_back(
        &self,
        entry: &CatalogEntry,
        tokens: &[LeaseToken],
    ) -> Result<Vec<Status>, StoreError> {
        Ok(self.acknowledge(entry, "requeue", Duration::ZERO, tokens, &[]).await?.1)
    }

    /// Lets the leases of these messages' lanes last for `delivery.timeout_ms` from now. Also returns the new
    /// deadline, in ms since 1970 by the server's clock.
    pub async fn extend_deliveries(
        &self,
        entry: &CatalogEntry,
        tokens: &[LeaseToken],
    ) -> Result<(u64, Vec<Status>), StoreError> {
        let lease = Duration::from_millis(entry.destination.delivery.timeout_ms);
        self.acknowledge(entry, "extend", lease, tokens, &[]).await
    }

    /// Refuses messages, and accepts those before them in their lanes.
    pub async fn refuse(
        &self,
        entry: &CatalogEntry,
        refused: &[RefusedMessage],
    ) -> Result<Vec<Status>, StoreError> {
        let tokens: Vec<_> = refused.iter().map(|one| one.token.clone()).collect();
        Ok(self.acknowledge(entry, "refuse", Duration::ZERO, &tokens, refused).await?.1)
    }

    async fn acknowledge(
        &self,
        entry: &CatalogEntry,
        what: &str,
        lease: Duration,
        tokens: &[LeaseToken],
        refused: &[RefusedMessage],
    ) -> Result<(u64, Vec<Status>), StoreError> {
        let destination = &entry.destination;
        let keys = self.keys().destination(&destination.name);
        let mut call = self.call(|scripts| &scripts.acknowledge);
        call.key(keys.partition.epoch()).key(keys.hash()).key(keys.consumer_leases());
        call.key(keys.consumer_lease_ends()).key(keys.messages());
        call.key(keys.partition.releasable()).key(keys.lanes());
        call.key(keys.partition.wake_releasable()).key(keys.partition.consumers());
        call.arg(self.known_of_epoch(entry.partition)).arg(destination.name.as_str());
        call.arg(entry.ordering_text()).arg(what);
        call.arg(lease.as_millis() as u64).arg(tokens.len());
        for token in tokens {
            let lane = destination.lane_of(token.key.as_deref(), token.sequence);
            call.arg(lane.unwrap_or_default()).arg(&*token.secret).arg(token.sequence);
        }
        for RefusedMessage { error, retry_after, is_permanent, .. } in refused {
            let wait = retry_after.map(|wait| wait.as_millis().to_string());
            call.arg(attempts::error_text(error)).arg(wait.unwrap_or_default());
            call.arg(u8::from(*is_permanent));
        }
        let mut answer = self.run::<Vec<Value>>(&call).await?.into_iter();
        let deadline = answer.next().and_then(|value| u64::from_redis_value(value).ok());
        let deadline = deadline.ok_or_else(|| unexpected("acknowledge"))?;
        let statuses: Result<_, ParsingError> = answer.map(Status::from_redis_value).collect();
        Ok((deadline, statuses.map_err(|_| unexpected("acknowledge"))?))
    }
}
