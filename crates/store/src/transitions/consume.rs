//! Leases messages to a consumer (`lua/consume.lua`).

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use redis::{FromRedisValue, Value};

use crate::{
    CallSequence, Store, StoreError, attempts,
    calls::unexpected,
    contract::contract,
    entry::{CatalogEntry, set_key},
    keys::DestinationKeys,
    record,
    rows::LaneSets,
};
use domain::{LeaseToken, Ordering, Sequence, Stamped, WorkerName};
use redis_client::server_clock_ms;

contract! {
    consume
    keys(keys: &DestinationKeys, caller: &str) {
        call: keys.call(caller), destination: keys.hash(), consumer_leases, consumer_lease_ends,
        messages, attempts, bodies, epoch, releasable, lanes, halted, withdrawals, wake_releasable,
        consumers,
    }
    args<'a> {
        call_number: u64,
        seen_epoch: String,
        version: u64,
        /// The secret of all leases of the call.
        secret: &'a str,
        lease_ms: u64,
        most: usize,
        /// The most bytes of records and bodies; at least one message is returned.
        bytes_max: usize,
        destination: &'a str,
        ordering: &'a str,
        /// The most lanes that consumers hold at once.
        lanes_max: u32,
        /// The longest backoff.
        wait_max_ms: u64,
    }
    lists {
        /// The sets of each lane. Without ordering, one entry for all lanes.
        sets: LaneSets,
        /// The keys of the lanes; without ordering, sequences.
        lanes: &'a str,
    }
}

/// The most bytes of records and bodies that one call returns. It returns at least one message.
const BYTES_MAX: usize = 8 << 20;
/// The fewest and the most lanes that one call checks: some of them may have no messages for this consumer.
const LANES_MIN: usize = 16;
const LANES_MAX: usize = 256;

/// Messages under a consumer's lease.
#[derive(Debug, Default)]
pub struct Consumed {
    /// When the lease expires unless extended, in ms since 1970 by the server's clock.
    pub deadline_ms: u64,
    /// The messages, each with its token. The messages of a lane are in order.
    pub messages: Vec<(LeaseToken, Stamped)>,
}

impl Store {
    /// The lanes of a destination that may have messages for a consumer that takes at most `max`. This is only a
    /// hint.
    pub async fn lanes_to_consume(
        &self,
        entry: &CatalogEntry,
        max: usize,
    ) -> Result<Vec<String>, StoreError> {
        if entry.destination.ordering == Ordering::Destination {
            return Ok(vec![String::new()]);
        }
        let found = self.releasable_lanes(entry, max.clamp(LANES_MIN, LANES_MAX)).await?;
        let mut lanes = [found.due, found.waiting].concat();
        lanes.truncate(LANES_MAX);
        Ok(lanes)
    }

    /// Leases messages of one destination to a consumer: at most `max`, from the fronts of these lanes.
    pub async fn consume(
        &self,
        consumer: Option<&WorkerName>,
        call_sequence: &CallSequence,
        entry: &CatalogEntry,
        lanes: &[String],
        max: usize,
    ) -> Result<Consumed, StoreError> {
        let destination = &entry.destination;
        let keys = self.keys().destination(&destination.name);
        let secret = LeaseToken::secret_of(&self.random_of(call_sequence), consumer);
        let lease = Duration::from_millis(destination.delivery.timeout_ms);
        let (caller, number) = call_sequence.current();
        // Without ordering, all lanes share the same sets.
        let shared = if destination.ordering == Ordering::None { 1 } else { lanes.len() };
        let sets =
            lanes.iter().take(shared).map(|lane| LaneSets::of(&keys, set_key(entry, Some(lane))));
        let call = Args {
            call_number: number,
            seen_epoch: self.known_of_epoch(entry.partition),
            version: entry.version,
            secret: &secret,
            lease_ms: lease.as_millis() as u64,
            most: max.clamp(1, 1000),
            bytes_max: BYTES_MAX,
            destination: destination.name.as_str(),
            ordering: entry.ordering_text(),
            lanes_max: destination.delivery.lanes_max,
            wait_max_ms: destination.delivery.wait_max_ms(),
            sets: sets.collect(),
            lanes: lanes.iter().map(String::as_str).collect(),
        }
        .call(self, &keys, &caller);
        let answer = call_sequence.answered(self.run::<Vec<Value>>(&call).await)?;
        read_all(entry, &secret, answer)
    }
}

fn read_all(
    entry: &CatalogEntry,
    secret: &Arc<str>,
    answer: Vec<Value>,
) -> Result<Consumed, StoreError> {
    let (name, claimed_ms) = (&entry.destination.name, server_clock_ms());
    let mut parts = answer.into_iter();
    let deadline_ms = read(parts.next())?;
    let mut messages: Vec<(LeaseToken, Stamped)> = Vec::new();
    let mut broken_lane = None;
    while let Some(lane) = parts.next() {
        let lane: String = read(Some(lane))?;
        let sequence: Sequence = read(parts.next())?;
        let bytes: Bytes = read(parts.next())?;
        let attempts = attempts::read(&read::<Bytes>(parts.next())?);
        let body = match record::is_out_of_line(&bytes) {
            true => Some(read::<Bytes>(parts.next())?),
            false => None,
        };
        let message = record::read_with(bytes, body, name, sequence, attempts);
        // The consumer must not get messages that follow an unreadable one in its lane. The lease of the unreadable
        // message expires, and then the owner reads it again.
        match message {
            Ok(message) if broken_lane.as_ref() != Some(&lane) => {
                let key = entry.destination.lane_key(message.message.key.as_deref());
                let key = key.map(str::to_owned);
                let (destination, secret) = (name.clone(), secret.clone());
                let token = LeaseToken { destination, sequence, secret, claimed_ms, key };
                messages.push((token, message));
            }
            Ok(_) => {}
            Err(error) => {
                tracing::error!(destination = %name, sequence, %error, "a message cannot be read");
                broken_lane = Some(lane);
            }
        }
    }
    Ok(Consumed { deadline_ms, messages })
}

fn read<T: FromRedisValue>(value: Option<Value>) -> Result<T, StoreError> {
    let value = value.ok_or_else(|| unexpected("consume"))?;
    redis::from_redis_value(value).map_err(|_| unexpected("consume"))
}
