//! Settles and releases ordinary messages without ordering (`lua/release_each_fast.lua`).

use super::release::{BYTES_MAX, LaneRequest, LaneRun, LogRow, Owner, Released};
use crate::{Store, StoreError, contract::contract, entry::CatalogEntry, keys::DestinationKeys};
use domain::{Epoch, Sequence};
use redis_client::ScriptCall;

contract! {
    release_each_fast
    keys(keys: &DestinationKeys) {
        epoch, owner, destination: keys.hash(), messages, attempts, releasable, log, log_order,
        bodies, lanes, halted, in_progress: keys.in_progress(None), ready: keys.ready(None),
    }
    args<'a> {
        token: &'a str,
        owner_epoch: Epoch,
        version: u64,
        destination: &'a str,
        seen_epoch: String,
        /// The most bytes of records.
        bytes_max: usize,
        /// The most messages in the log.
        log_max: u64,
        /// The accounted bytes of the settled messages.
        settled_bytes: u64,
    }
    lists {
        /// The messages that left.
        left: Sequence,
        /// The messages to release.
        asked: Sequence,
        /// The log entries of the messages that left, in the same order.
        log: LogRow,
    }
}

/// The messages that these lanes settle, and the messages that they ask for. `None` if the lanes cannot take the fast
/// path: it needs that each lane either settles its message or asks for it, and that no lane occurs twice.
fn messages_of(lanes: &[LaneRequest]) -> Option<(Vec<Sequence>, Vec<Sequence>)> {
    let (mut left, mut asked) = (Vec::new(), Vec::with_capacity(lanes.len()));
    for lane in lanes {
        let settled = &lane.settled;
        match settled.count {
            1 if settled.has_no_extras() => left.push(settled.upto),
            0 if asks(lane) => asked.push(lane.key.as_deref()?.parse().ok()?),
            _ => return None,
        }
    }
    if lanes.iter().all(|lane| lane.settled.log.is_empty()) {
        // Sorted, because Redis can remove neighbours together.
        left.sort_unstable();
    }
    let mut all = [left.as_slice(), asked.as_slice()].concat();
    all.sort_unstable();
    all.windows(2).all(|pair| pair[0] != pair[1]).then_some((left, asked))
}

/// True if the lane asks for its message and settles no message.
fn asks(lane: &LaneRequest) -> bool {
    lane.settled.count == 0 && lane.limit > 0 && lane.held_upto == 0
}

impl Store {
    /// Releases messages on the fast path.
    pub(super) async fn release_each_fast(
        &self,
        owner: &Owner,
        entry: &CatalogEntry,
        lanes: &[LaneRequest],
    ) -> Result<Released, StoreError> {
        let Some((left, asked)) = messages_of(lanes) else { return Err(StoreError::NotFast) };
        let call = self.fast_release_of_each(owner, entry, lanes, left, asked);
        let mut released = self.released(&call, entry).await?;
        let mut messages = released.runs.pop().unwrap_or_default().messages.into_iter();
        let run = |lane: &LaneRequest| LaneRun {
            messages: messages.by_ref().take(asks(lane).into()).collect(),
            ..LaneRun::default()
        };
        released.runs = lanes.iter().map(run).collect();
        Ok(released)
    }

    fn fast_release_of_each(
        &self,
        owner: &Owner,
        entry: &CatalogEntry,
        lanes: &[LaneRequest],
        left: Vec<Sequence>,
        asked: Vec<Sequence>,
    ) -> ScriptCall<'_> {
        let destination = &entry.destination;
        let mut call = Args {
            token: owner.token.as_str(),
            owner_epoch: owner.epoch,
            version: entry.version,
            destination: destination.name.as_str(),
            seen_epoch: self.known_of_epoch(entry.partition),
            bytes_max: BYTES_MAX,
            log_max: destination.log_max,
            settled_bytes: lanes.iter().map(|lane| lane.settled.bytes).sum(),
            left,
            asked,
            log: lanes.iter().flat_map(|lane| lane.settled.log_rows()).collect(),
        }
        .call(self, &self.keys().destination(&destination.name));
        call.of_messages(lanes.len());
        call
    }
}
