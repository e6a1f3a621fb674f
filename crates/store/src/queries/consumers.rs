//! Which messages consumers may take, and which consumers hold them; for display.

use std::collections::{BTreeSet, HashMap};

use serde::Deserialize;

use super::messages::{Leased, Listed};
use crate::{Store, StoreError, entry::CatalogEntry};
use domain::{DeliveryKind, LeaseToken, State};
use redis_client::server_clock_ms;

/// The entry of a lane, as `lua/include/consumers.lua` describes it.
#[derive(Debug, Default, Deserialize)]
struct Lease {
    accepted: u64,
    secret: Option<String>,
    #[serde(default)]
    deadline: u64,
    #[serde(default)]
    leased: u64,
}

impl Store {
    /// Adds to these messages whether consumers may take them, and which consumers hold them.
    pub(super) async fn note_consumers(
        &self,
        entry: &CatalogEntry,
        listed: &mut [Listed],
    ) -> Result<(), StoreError> {
        if entry.destination.delivery.kind != DeliveryKind::Pull {
            return Ok(());
        }
        let lane_of = |one: &Listed| {
            let key = one.message.message.key.as_deref();
            entry.destination.lane_of(key, one.message.position.sequence).unwrap_or_default()
        };
        let ready = listed.iter().filter(|one| one.state == State::Ready);
        let lanes: Vec<String> = ready.map(lane_of).collect::<BTreeSet<_>>().into_iter().collect();
        if lanes.is_empty() {
            return Ok(());
        }
        let leases_key = self.keys_of(entry).consumer_leases();
        let mut pipe = redis::pipe();
        lanes.iter().for_each(|lane| _ = pipe.hget(&leases_key, lane));
        let answers = self.query_lenient(&pipe).await?;
        let read = |(lane, answer): (String, redis::Value)| {
            let bytes: Vec<u8> = redis::from_redis_value(answer).unwrap_or_default();
            (lane, rmp_serde::from_slice(&bytes).unwrap_or_default())
        };
        let leases: HashMap<String, Lease> = lanes.into_iter().zip(answers).map(read).collect();
        let now_ms = server_clock_ms();
        for one in listed.iter_mut().filter(|one| one.state == State::Ready) {
            if let Some(lease) = leases.get(&lane_of(one)) {
                note(one, lease, now_ms);
            }
        }
        Ok(())
    }
}

fn note(one: &mut Listed, lease: &Lease, now_ms: u64) {
    let sequence = one.message.position.sequence;
    one.is_for_consumers = sequence > lease.accepted && one.message.tombstone.is_none();
    if let Some(secret) = &lease.secret
        && one.is_for_consumers
        && lease.deadline > now_ms
        && sequence <= lease.leased
    {
        one.lease =
            Some(Leased { holder: LeaseToken::holder_of(secret), expires_ms: lease.deadline });
    }
}
