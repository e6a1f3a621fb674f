//! Divides copies among the shards of their destination.

use std::collections::BTreeMap;

use super::CopyResult;
use crate::Refusal;
use domain::{Arrival, Destination, DestinationName};

/// The copies for one shard, each with its index in the request.
#[derive(Default)]
pub(super) struct ForShard {
    pub(super) at: Vec<usize>,
    pub(super) copies: Vec<CopyResult>,
}

/// The copies for each shard, in the order of submission.
pub(super) fn by_shard(
    destination: &Destination,
    copies: &[CopyResult],
) -> BTreeMap<DestinationName, ForShard> {
    let mut parts = BTreeMap::<_, ForShard>::new();
    for (at, copy) in copies.iter().enumerate() {
        let copy = copy.clone().and_then(without_source);
        let name = match &copy {
            Ok(arrival) => destination.shard_of(arrival),
            Err(_) => destination.name.clone(),
        };
        let part = parts.entry(name).or_default();
        part.at.push(at);
        part.copies.push(copy);
    }
    parts
}

/// Refuses a message that names a source. A mark says that all messages up to it are stored, so messages and mark
/// must be stored together; but the messages of a source go to several shards.
fn without_source(arrival: Arrival) -> CopyResult {
    match arrival.source {
        None => Ok(arrival),
        Some(_) => Err(Refusal::invalid_field(
            "source: a destination with shards keeps no marks of sources; leave the source out, and give an \
             idempotency key instead",
        )),
    }
}
