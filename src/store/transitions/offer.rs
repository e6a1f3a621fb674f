//! Offers the front of lanes to consumers (`lua/offer.lua`).

use std::time::Duration;

use redis::{FromRedisValue, Value};

use super::release::Owner;
use crate::{
    domain::{AttemptError, Sequence},
    store::{Store, StoreError, calls::unexpected, entry::CatalogEntry},
};

/// What the owner wants of a lane's offer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ask {
    /// Offer these messages.
    Offer(Vec<Sequence>),
    /// Say what became of the offer.
    Look,
    /// The same, and end the offer unless a consumer holds it.
    Recall,
}

/// A lane and what the owner wants: the lane's key, as in [`super::LaneRequest::key`], `""` for the
/// destination's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfferRequest {
    /// The lane.
    pub lane: String,
    /// What to do.
    pub ask: Ask,
}

/// What became of an offer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Offered {
    /// No consumer has it yet.
    Free,
    /// A consumer holds it for this time, and has accepted this many of its messages.
    Leased(Duration, usize),
    /// This many of its messages are accepted: the owner settles them, and may offer the rest again.
    Accepted(usize),
    /// After this many, the consumer refused the next one.
    Refused {
        /// How many before it are accepted.
        accepted: usize,
        /// What the consumer says.
        error: AttemptError,
        /// The wait that it asks for.
        retry_after: Option<Duration>,
        /// No other attempt can succeed.
        is_permanent: bool,
    },
    /// The lease of its consumer expired when this many were accepted.
    Expired(usize),
    /// Redis has no such offer any more.
    Gone,
    /// It cannot be offered before this: a consumer that Redis forgot may hold the lane.
    Wait(Duration),
}

impl Store {
    /// Offers the fronts of lanes of one destination to consumers, and learns what became of earlier offers. One
    /// answer for each request, in order.
    pub async fn offer(
        &self,
        owner: &Owner,
        entry: &CatalogEntry,
        requests: &[OfferRequest],
    ) -> Result<Vec<Offered>, StoreError> {
        let name = &entry.destination.name;
        let keys = self.keys().destination(name);
        let mut call = self.call(|scripts| &scripts.offer);
        call.key(keys.partition.epoch()).key(keys.partition.owner()).key(keys.hash());
        call.key(keys.offers()).key(keys.offered()).key(keys.partition.wake_offered());
        call.arg(owner.token.as_str()).arg(owner.epoch).arg(entry.version).arg(name.as_str());
        call.arg(self.known_of_epoch(entry.partition)).arg(entry.destination.delivery.timeout_ms);
        call.arg(requests.len());
        for OfferRequest { lane, ask } in requests {
            let (what, count) = match ask {
                Ask::Offer(sequences) => ("offer", sequences.len()),
                Ask::Look => ("look", 0),
                Ask::Recall => ("recall", 0),
            };
            call.arg(lane).arg(what).arg(count);
        }
        for request in requests {
            if let Ask::Offer(sequences) = &request.ask {
                for sequence in sequences {
                    call.arg(*sequence);
                }
            }
        }
        let answers: Vec<Vec<Value>> = self.learned(entry.partition, self.run(&call).await)?;
        answers.into_iter().map(|answer| read(answer).ok_or_else(|| unexpected("offer"))).collect()
    }
}

fn read(answer: Vec<Value>) -> Option<Offered> {
    let mut parts = answer.into_iter();
    let what = String::from_redis_value(parts.next()?).ok()?;
    let mut text = || String::from_redis_value(parts.next()?).ok();
    let number = |text: String| text.parse::<u64>().ok();
    Some(match what.as_str() {
        "offered" => Offered::Free,
        "leased" => {
            let left = Duration::from_millis(number(text()?)?);
            Offered::Leased(left, number(text()?)? as usize)
        }
        "accepted" => Offered::Accepted(number(text()?)? as usize),
        "refused" => {
            let accepted = number(text()?)? as usize;
            let error = serde_json::from_str(&text()?).ok()?;
            let retry_after = number(text()?).map(Duration::from_millis);
            Offered::Refused { accepted, error, retry_after, is_permanent: text()? == "1" }
        }
        "expired" => Offered::Expired(number(text()?)? as usize),
        "gone" => Offered::Gone,
        "wait" => Offered::Wait(Duration::from_millis(number(text()?)?)),
        _ => return None,
    })
}
