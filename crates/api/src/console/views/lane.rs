//! The strip of a lane: its oldest pending messages with their states, and the last messages that have left.

use serde::Serialize;

use super::ReadError;
use crate::console::{Sources, measure, numbers::Counts};
use domain::{DeliveryKind, DestinationName, Ordering, Sequence, State, TransformKind, WorkerName};
use store::{Head, Listed, Paused, StoreError, Which, server_clock_ms};

/// The most pending messages of a strip.
const PENDING_MAX: usize = 120;
/// How many of the last log entries are searched for messages of the lane, and the most messages that are shown.
const LOG_MAX: usize = 100;
const LEFT_MAX: usize = 24;

#[derive(Serialize)]
pub(super) struct Lane {
    at_ms: u64,
    destination: DestinationName,
    key: Option<String>,
    ordering: Ordering,
    transform: TransformKind,
    delivery: DeliveryKind,
    paused: Paused,
    counts: Backlog,
    /// The oldest heads of the destination, if it has many lanes.
    heads: Vec<Head>,
    cells: Vec<Cell>,
    /// True if more messages are pending behind the cells.
    has_more: bool,
    left: Vec<Left>,
}

/// The backlog of the whole destination.
#[derive(Serialize)]
struct Backlog {
    #[serde(flatten)]
    counts: Counts,
    last_sequence: Sequence,
    delivered_total: u64,
    retrying: u64,
}

/// A pending message.
#[derive(Serialize)]
struct Cell {
    sequence: Sequence,
    /// The state; for a tombstone, the state with which it will leave.
    state: State,
    age_ms: u64,
    attempts: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    due_ms: Option<u64>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    withdrawing: bool,
    /// The worker, consumer or pod that holds the message, and when its lease expires.
    #[serde(skip_serializing_if = "Option::is_none")]
    worker: Option<WorkerName>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lease_expires_ms: Option<u64>,
}

/// A message that has left.
#[derive(Serialize)]
struct Left {
    sequence: Sequence,
    state: State,
    settled_ms: u64,
    total_ms: u64,
}

pub(super) async fn read(
    sources: &Sources,
    destination: &DestinationName,
    key: Option<&str>,
) -> Result<Lane, ReadError> {
    let entry = sources.catalog.find(destination).await?;
    let entry = entry.ok_or(StoreError::UnknownDestination)?;
    let ordering = entry.destination.ordering;
    // With ordering by destination, or without ordering, the key of a message does not matter.
    let key = if ordering == Ordering::Key { Some(key.unwrap_or_default()) } else { None };
    let store = &sources.store;
    let which = Which { key: key.map(str::to_owned), limit: PENDING_MAX, ..Which::default() };
    let (stats, page, entries) = futures::join!(
        store.stats(&entry),
        store.pending(&entry, &which),
        measure::last_entries(store, &entry, LOG_MAX),
    );
    let (stats, page, now_ms) = (stats?, page?, server_clock_ms());
    let mut cells: Vec<Cell> = page.items.iter().map(|one| cell(one, now_ms)).collect();
    let delivery = entry.destination.delivery.kind;
    match delivery {
        DeliveryKind::Pull => mark_consuming(&mut cells),
        DeliveryKind::Push | DeliveryKind::None => {
            mark_delivering(&mut cells, stats.delivering, ordering);
        }
    }
    let is_of_lane =
        |of: &Option<String>| key.is_none_or(|key| key == of.as_deref().unwrap_or_default());
    let left = entries.unwrap_or_default().into_iter().filter(|(_, one)| is_of_lane(&one.key));
    let mut left: Vec<Left> = left
        .map(|(sequence, one)| Left {
            sequence,
            state: one.outcome,
            settled_ms: one.settled_ms,
            total_ms: one.settled_ms.saturating_sub(one.received_ms),
        })
        .collect();
    // A message may have left between the two reads.
    cells.retain(|cell| !left.iter().any(|left| left.sequence == cell.sequence));
    left.drain(..left.len().saturating_sub(LEFT_MAX));
    Ok(Lane {
        at_ms: now_ms,
        destination: destination.clone(),
        key: key.map(str::to_owned),
        ordering,
        transform: entry.destination.transform.kind,
        delivery,
        paused: entry.paused,
        counts: Backlog {
            counts: Counts::default().and(&stats),
            last_sequence: stats.last_sequence,
            delivered_total: stats.delivered_total,
            retrying: stats.with_attempts,
        },
        heads: stats.heads,
        has_more: page.next.is_some(),
        cells,
        left,
    })
}

fn cell(listed: &Listed, now_ms: u64) -> Cell {
    let message = &listed.message;
    Cell {
        sequence: message.position.sequence,
        state: listed.state,
        age_ms: message.message.age_ms(now_ms).unwrap_or_default(),
        attempts: message.attempts.failed,
        due_ms: listed.due_ms,
        withdrawing: listed.withdrawing,
        worker: listed.lease.as_ref().and_then(|lease| lease.holder.clone()),
        lease_expires_ms: listed.lease.as_ref().map(|lease| lease.expires_ms),
    }
}

/// Marks the messages that consumers hold. Redis knows which.
fn mark_consuming(cells: &mut [Cell]) {
    let is_held = |cell: &&mut Cell| cell.state == State::Ready && cell.lease_expires_ms.is_some();
    cells.iter_mut().filter(is_held).for_each(|cell| cell.state = State::Delivering);
}

/// Marks the ready messages at the front as being delivered. Redis knows only how many there are.
fn mark_delivering(cells: &mut [Cell], delivering: u64, ordering: Ordering) {
    let most = match ordering {
        Ordering::Destination | Ordering::None => delivering as usize,
        // The number is the sum over all lanes.
        Ordering::Key => delivering.min(1) as usize,
    };
    let ready = cells.iter_mut().take_while(|cell| {
        cell.state == State::Ready || ordering == Ordering::None || cell.state.is_settled()
    });
    for cell in ready.filter(|cell| cell.state == State::Ready).take(most) {
        cell.state = State::Delivering;
    }
}
