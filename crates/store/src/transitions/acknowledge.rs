//! Applies the acknowledgements of consumers to the messages that they hold (`lua/acknowledge.lua`).

use std::time::Duration;

use redis::{FromRedisValue, ParsingError, Value};

use super::complete::Status;
use crate::{
    Store, StoreError, attempts,
    calls::unexpected,
    contract::{contract, row},
    entry::CatalogEntry,
    keys::DestinationKeys,
};
use domain::{AttemptError, LeaseToken, Sequence};

row! {
    /// A message that a consumer holds.
    Acknowledged<'a> {
        /// The key of the message's lane; without ordering, its sequence.
        lane: String,
        secret: &'a str,
        sequence: Sequence,
        /// With `refuse`: the error, as JSON.
        problem: String,
        /// With `refuse`: the wait before the next attempt; empty: the destination decides.
        wait_ms: String,
        is_final: bool,
    }
}

contract! {
    acknowledge
    keys(keys: &DestinationKeys) {
        epoch, destination: keys.hash(), consumer_leases, consumer_lease_ends, messages, releasable,
        lanes, wake_releasable, consumers,
    }
    args<'a> {
        seen_epoch: String,
        destination: &'a str,
        ordering: &'a str,
        /// `accept`, `refuse`, `extend` or `requeue`.
        verb: &'a str,
        /// With `extend`: the length of the lease from now on.
        lease_ms: u64,
    }
    lists {
        messages: Acknowledged<'a>,
    }
}

/// A message that a consumer refuses.
#[derive(Debug, Clone)]
pub struct RefusedMessage {
    /// The lease.
    pub token: LeaseToken,
    /// The error that the consumer reports.
    pub error: AttemptError,
    /// The wait before the next attempt, if the consumer asks for one.
    pub retry_after: Option<Duration>,
    /// True if no further attempt can succeed.
    pub is_permanent: bool,
}

impl Store {
    /// Accepts messages, and the messages before them in their lanes. Accepted messages count as delivered.
    pub async fn accept(
        &self,
        entry: &CatalogEntry,
        tokens: &[LeaseToken],
    ) -> Result<Vec<Status>, StoreError> {
        Ok(self.acknowledge(entry, "accept", Duration::ZERO, tokens, &[]).await?.1)
    }

    /// Ends the leases on the lanes of these messages. Messages that are not accepted can be leased again. This does not
    /// count as an attempt.
    pub async fn give_back(
        &self,
        entry: &CatalogEntry,
        tokens: &[LeaseToken],
    ) -> Result<Vec<Status>, StoreError> {
        Ok(self.acknowledge(entry, "requeue", Duration::ZERO, tokens, &[]).await?.1)
    }

    /// Extends the leases on these messages' lanes to `delivery.timeout_ms` from now. Also returns the new deadline,
    /// in ms since 1970 by the server's clock.
    pub async fn extend_deliveries(
        &self,
        entry: &CatalogEntry,
        tokens: &[LeaseToken],
    ) -> Result<(u64, Vec<Status>), StoreError> {
        let lease = Duration::from_millis(entry.destination.delivery.timeout_ms);
        self.acknowledge(entry, "extend", lease, tokens, &[]).await
    }

    /// Refuses messages, and accepts the messages before them in their lanes.
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
        verb: &str,
        lease: Duration,
        tokens: &[LeaseToken],
        refused: &[RefusedMessage],
    ) -> Result<(u64, Vec<Status>), StoreError> {
        let destination = &entry.destination;
        let keys = self.keys().destination(&destination.name);
        let messages = tokens.iter().enumerate().map(|(at, token)| {
            let refused = refused.get(at);
            let wait_ms = |one: &RefusedMessage| Some(one.retry_after?.as_millis().to_string());
            let lane = destination.lane_of(token.key.as_deref(), token.sequence);
            Acknowledged {
                lane: lane.unwrap_or_default(),
                secret: &token.secret,
                sequence: token.sequence,
                problem: refused.map_or_else(String::new, |one| attempts::error_text(&one.error)),
                wait_ms: refused.and_then(wait_ms).unwrap_or_default(),
                is_final: refused.is_some_and(|one| one.is_permanent),
            }
        });
        let call = Args {
            seen_epoch: self.known_of_epoch(entry.partition),
            destination: destination.name.as_str(),
            ordering: entry.ordering_text(),
            verb,
            lease_ms: lease.as_millis() as u64,
            messages: messages.collect(),
        }
        .call(self, &keys);
        let mut answer = self.run::<Vec<Value>>(&call).await?.into_iter();
        let deadline = answer.next().and_then(|value| u64::from_redis_value(value).ok());
        let deadline = deadline.ok_or_else(|| unexpected("acknowledge"))?;
        let statuses: Result<_, ParsingError> = answer.map(Status::from_redis_value).collect();
        Ok((deadline, statuses.map_err(|_| unexpected("acknowledge"))?))
    }
}
