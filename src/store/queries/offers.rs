//! Which lanes are offered to consumers, and who holds them; for display.

use std::collections::{BTreeSet, HashMap};

use serde::de::IgnoredAny;

use super::messages::{Leased, Listed};
use crate::{
    domain::{DeliveryKind, LeaseToken, State},
    redis_client::server_clock_ms,
    store::{Store, StoreError, entry::CatalogEntry},
};

/// An offer, as `lua/include/offers.lua` describes it: epoch, secret, deadline, how many of the sequences are leased,
/// how many of these are accepted, the refusal, the sequences.
type Offer = (String, String, u64, usize, usize, IgnoredAny, Vec<String>);

impl Store {
    /// Adds to these messages what consumers may take, and who holds it.
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
        let offers_key = self.keys().destination(&entry.destination.name).offers();
        let mut pipe = redis::pipe();
        lanes.iter().for_each(|lane| _ = pipe.hget(&offers_key, lane));
        let answers = self.query_lenient(&pipe).await?;
        let offers: HashMap<String, Offer> = lanes
            .into_iter()
            .zip(answers)
            .filter_map(|(lane, answer)| {
                let bytes: Vec<u8> = redis::from_redis_value(answer).ok()?;
                Some((lane, rmp_serde::from_slice(&bytes).ok()?))
            })
            .collect();
        let now_ms = server_clock_ms();
        for one in listed.iter_mut().filter(|one| one.state == State::Ready) {
            if let Some(offer) = offers.get(&lane_of(one)) {
                note(one, offer, now_ms);
            }
        }
        Ok(())
    }
}

fn note(one: &mut Listed, offer: &Offer, now_ms: u64) {
    let (_, secret, deadline, leased, accepted, _, sequences) = offer;
    let sequence = one.message.position.sequence.to_string();
    let at = sequences.iter().position(|offered| *offered == sequence);
    let Some(at) = at.filter(|at| at >= accepted) else { return };
    one.is_offered = true;
    if !secret.is_empty() && *deadline > now_ms && at < *leased {
        one.lease = Some(Leased { holder: LeaseToken::holder_of(secret), expires_ms: *deadline });
    }
}
