//! The answer to a message over HTTP: the position of each copy, or the reason why it was refused.

use serde::Serialize;
use serde_json::json;
use utoipa::ToSchema;

use super::{Outcome, Receipt, Refusal};
use domain::{DestinationName, Durability, Epoch, Sequence};
use http_server::problem::Problem;

/// The field of a problem that lists the stored copies.
pub(super) const DELIVERIES: &str = "deliveries";
/// This header says that the answer repeats the answer to an earlier request with the same idempotency key.
pub(super) const REPLAYED: &str = "idempotent-replayed";

/// The answer to a message of which all destinations have a copy.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Accepted {
    /// The id of the message. If all copies are duplicates: the id of the first message.
    id: String,
    deliveries: Vec<Copy>,
}

/// The copy of a message in one destination.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = StoredCopy)]
struct Copy {
    /// The destination; with several shards, the shard that holds the copy, such as `orders~3`.
    destination: DestinationName,
    sequence: Sequence,
    epoch: Epoch,
    /// True if the message had been stored before, under the same idempotency key or from the same position of its
    /// source. In the second case, sequence and epoch are 0, because they are not known. Also true if the message only
    /// moves the mark of its source.
    duplicate: bool,
    /// The durability that the message has reached.
    durability: Durability,
    /// The id of the first message, for a duplicate under an idempotency key.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
}

impl Copy {
    fn of(receipt: Receipt) -> Copy {
        let Receipt { destination, position, durability, duplicate_of } = receipt;
        Copy {
            destination,
            sequence: position.sequence,
            epoch: position.epoch,
            duplicate: duplicate_of.is_some(),
            durability,
            id: duplicate_of.filter(|id| !id.is_empty()),
        }
    }
}

impl Accepted {
    /// True if nothing was stored, because all copies had been stored before.
    pub(super) fn is_replay(&self) -> bool {
        self.deliveries.iter().all(|copy| copy.duplicate)
    }
}

/// The answer for one message: the positions of all copies, or the worst problem with the positions of the stored
/// copies. The id is the stored id: a duplicate has the id of the first message.
pub(super) fn answer(
    id: &str,
    outcomes: impl IntoIterator<Item = Outcome>,
) -> Result<Accepted, Problem> {
    let mut deliveries = Vec::new();
    let mut worst: Option<Refusal> = None;
    for outcome in outcomes {
        match outcome {
            Ok(receipt) => deliveries.push(Copy::of(receipt)),
            Err(refusal) => {
                let is_worse = |worst: &Refusal| worst.code().status() < refusal.code().status();
                if worst.as_ref().is_none_or(is_worse) {
                    worst = Some(refusal);
                }
            }
        }
    }
    let mut accepted = Accepted { id: id.to_owned(), deliveries };
    if accepted.is_replay() {
        let first_id = accepted.deliveries.first().and_then(|copy| copy.id.clone());
        accepted.id = first_id.unwrap_or(accepted.id);
    }
    let Some(refusal) = worst else { return Ok(accepted) };
    let mut problem = refusal.problem();
    if !accepted.deliveries.is_empty() {
        problem.more.insert("id".into(), json!(accepted.id));
        problem.more.insert(DELIVERIES.into(), json!(accepted.deliveries));
    }
    Err(problem)
}
