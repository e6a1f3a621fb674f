//! Leases messages to a consumer (`lua/consume.lua`).

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use redis::{FromRedisValue, Value};

use crate::{
    domain::{LeaseToken, Ordering, Sequence, Stamped, WorkerName},
    redis_client::server_clock_ms,
    store::{
        CallSequence, Store, StoreError, attempts,
        calls::unexpected,
        entry::{CatalogEntry, set_key},
        record,
    },
};

/// The most bytes of records and bodies that one call returns (at least one message is returned).
const BYTES_MAX: usize = 8 << 20;
/// The fewest and the most lanes that one call looks at: some may have nothing for this consumer.
const LANES_MIN: usize = 16;
const LANES_MAX: usize = 256;

/// Messages under a consumer's lease.
#[derive(Debug, Default)]
pub struct Consumed {
    /// When the lease expires unless extended, in ms since 1970 by the server's clock.
    pub deadline_ms: u64,
    /// The messages, each with its token: those of a lane in order.
    pub messages: Vec<(LeaseToken, Stamped)>,
}

impl Store {
    /// The lanes of a destination that may have messages for a consumer that takes at most `max`. A hint.
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
        self.check_rights()?;
        let destination = &entry.destination;
        let keys = self.keys().destination(&destination.name);
        let secret = LeaseToken::secret_of(&self.random_of(call_sequence), consumer);
        let lease = Duration::from_millis(destination.delivery.timeout_ms);
        let mut call = self.call(|scripts| &scripts.consume);
        let (caller, number) = call_sequence.current();
        call.key(keys.partition.call(&caller)).key(keys.hash());
        call.key(keys.consumer_leases()).key(keys.consumer_lease_ends()).key(keys.messages());
        call.key(keys.attempts()).key(keys.bodies()).key(keys.partition.epoch());
        call.key(keys.partition.releasable()).key(keys.lanes()).key(keys.halted());
        call.key(keys.withdrawals()).key(keys.partition.wake_releasable());
        call.key(keys.partition.consumers());
        // Without ordering, all lanes share the same sets.
        let sets = if destination.ordering == Ordering::None { 1 } else { lanes.len() };
        for lane in lanes.iter().take(sets) {
            let key = set_key(entry, Some(lane));
            call.key(keys.in_progress(key)).key(keys.ready(key));
        }
        call.arg(number).arg(self.known_of_epoch(entry.partition));
        call.arg(entry.version).arg(&*secret).arg(lease.as_millis() as u64);
        call.arg(max.clamp(1, 1000)).arg(BYTES_MAX).arg(destination.name.as_str());
        call.arg(entry.ordering_text()).arg(destination.delivery.lanes_max);
        call.arg(destination.delivery.wait_max_ms()).arg(lanes.len());
        lanes.iter().for_each(|lane| _ = call.arg(lane));
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
        let body = match record::is_apart(&bytes) {
            true => Some(read::<Bytes>(parts.next())?),
            false => None,
        };
        let message = record::read_with(bytes, body, name, sequence, attempts);
        // Nothing may be given out behind a message that cannot be read. Its lease expires, and its owner reads
        // it again.
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
