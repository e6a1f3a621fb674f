//! `/v1/leases`: the API for the user's own workers, in any language with HTTP and JSON.

pub(super) mod complete;
mod handout;
pub(super) mod lease;
pub(super) mod lease_updates;
mod waiter_queue;

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, PoisonError},
};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use waiter_queue::{Served, WaiterQueues};

use super::Api;
use crate::{
    domain::{DestinationName, LeaseToken, OnExhausted, Stamped},
    store::{CallSequence, CatalogEntry, Status, StoreError},
    wire::{caller::Caller, problem::Problem},
};

/// The most messages of one lease call, and items of the others.
const ITEMS_MAX: usize = 1000;
/// The most bytes of attempts (errors, checkpoints) that one call to Redis reads and writes.
const ATTEMPTS_BYTES_MAX: usize = 1 << 20;
/// The most bytes of outputs and attempts that one call to Redis writes.
const CALL_BYTES_MAX: usize = 4 << 20;
/// The longest a lease call may wait, in milliseconds.
const WAIT_MS_MAX: u64 = 60_000;
/// Bounds of a lease, in milliseconds.
const LEASE_MS: std::ops::RangeInclusive<u64> = 100..=24 * 3_600_000;
/// The longest wait that a worker may ask for before the next attempt, in milliseconds.
const RETRY_MS_MAX: u64 = 24 * 3_600_000;

/// The most destinations whose idle call sequences are kept.
const IDLE_DESTINATIONS_MAX: usize = 1024;

/// State shared by the requests of workers: idle call sequences (each call in flight has its own), queues of
/// waiting requests, and when each destination was last served.
#[derive(Default)]
pub struct WorkerRequests {
    idle: Mutex<HashMap<DestinationName, Vec<CallSequence>>>,
    lines: Arc<WaiterQueues>,
    served: Served,
}

impl WorkerRequests {
    fn take(&self, api: &Api, name: &DestinationName) -> CallSequence {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = idle.get_mut(name).and_then(Vec::pop);
        kept.unwrap_or_else(|| api.store.new_call_sequence(&format!("worker:{name}")))
    }

    fn put_back(&self, name: &DestinationName, call_sequence: CallSequence) {
        // If the last call had no answer, it is not repeated: the next one gets a new number.
        call_sequence.give_up();
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() >= IDLE_DESTINATIONS_MAX && !idle.contains_key(name) {
            // Any entry: a call sequence can always be created again.
            let other = idle.keys().next().cloned();
            other.map(|other| idle.remove(&other));
        }
        idle.entry(name.clone()).or_default().push(call_sequence);
    }
}

fn half_a_minute() -> u64 {
    30_000
}

/// What to do with claimed messages.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = LeaseItems)]
struct Items<T> {
    #[schema(min_items = 1, max_items = 1000)]
    items: Vec<T>,
}

/// One result for each item, in order.
#[derive(Serialize, ToSchema)]
#[schema(as = LeaseResults)]
pub(in crate::api) struct Results {
    results: Vec<ItemResult>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = LeaseResult)]
struct ItemResult {
    token: String,
    status: Status,
    /// When the extended lease expires.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
    /// What happens to the message if its attempts are used up.
    #[serde(skip_serializing_if = "Option::is_none")]
    exhausted: Option<&'static str>,
}

impl Results {
    fn set(&mut self, index: usize, status: Status) {
        self.results[index].status = status;
    }

    fn fill(&mut self, at: &[usize], statuses: &[Status]) {
        at.iter().zip(statuses).for_each(|(&index, &status)| self.set(index, status));
    }

    /// Marks these items as damaged.
    fn damaged(&mut self, at: &[usize]) {
        at.iter().for_each(|&index| self.set(index, Status::Damaged));
    }

    /// Reports, for halted items, what the destination does with them.
    fn exhausted(&mut self, at: &[usize], policy: OnExhausted) {
        let progress = match policy {
            OnExhausted::Halt => "halted",
            OnExhausted::DeadLetter => "dead_lettered",
            OnExhausted::Drop => "dropped",
        };
        for &index in at {
            let result = &mut self.results[index];
            if result.status == Status::Halted {
                result.status = Status::Ok;
                result.exhausted = Some(progress);
            }
        }
    }
}

/// The items of one destination: index in the request, and lease.
struct Group {
    entry: Arc<CatalogEntry>,
    at: Vec<usize>,
    tokens: Vec<LeaseToken>,
}

/// Groups items by destination, with a preliminary result for each. An item whose token is invalid,
/// or whose destination is gone, has a stale lease.
async fn group(
    api: &Api,
    caller: &Caller,
    tokens: Vec<&str>,
) -> Result<(Results, Vec<Group>), Problem> {
    check_range("items", tokens.len() as u64, 1..=ITEMS_MAX as u64)?;
    let mut by_name: BTreeMap<DestinationName, (Vec<usize>, Vec<LeaseToken>)> = BTreeMap::new();
    for (index, text) in tokens.iter().enumerate() {
        if let Ok(token) = LeaseToken::decode(text) {
            caller.check(&token.destination)?;
            let (at, tokens) = by_name.entry(token.destination.clone()).or_default();
            at.push(index);
            tokens.push(token);
        }
    }
    let mut groups = Vec::with_capacity(by_name.len());
    for (name, (at, tokens)) in by_name {
        if let Some(entry) = existing(api, &name).await? {
            groups.push(Group { entry, at, tokens });
        }
    }
    let stale = |token: &str| ItemResult {
        token: token.to_owned(),
        status: Status::StaleLease,
        expires_at: None,
        exhausted: None,
    };
    Ok((Results { results: tokens.into_iter().map(stale).collect() }, groups))
}

/// The approximate bytes of what is stored about a message's attempts.
fn bytes_left(message: &Stamped) -> usize {
    let attempts = &message.attempts;
    let details = attempts.errors.iter().map(|(_, error)| error.detail.len());
    attempts.checkpoint.as_ref().map_or(0, String::len) + details.sum::<usize>()
}

/// The answer, or `None` if that destination's data is damaged: only its own items then fail.
fn unless_damaged<T>(answer: Result<T, StoreError>) -> Result<Option<T>, Problem> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if error.is_damage() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The messages of these leases that exist; `None` if they cannot be read.
async fn messages_of(api: &Api, group: &Group) -> Result<Option<Vec<Option<Stamped>>>, Problem> {
    let sequences: Vec<u64> = group.tokens.iter().map(|token| token.sequence).collect();
    // The body is needed only if the log keeps it.
    unless_damaged(match group.entry.destination.log_bodies {
        true => api.store.messages(&group.entry, &sequences).await,
        false => api.store.headers(&group.entry, &sequences).await,
    })
}

fn check_range(
    what: &str,
    value: u64,
    range: std::ops::RangeInclusive<u64>,
) -> Result<(), Problem> {
    if range.contains(&value) {
        return Ok(());
    }
    let (min, max) = range.into_inner();
    Err(Problem::invalid_field(format!("{what}: {value} is outside {min} to {max}")))
}

async fn existing(api: &Api, name: &DestinationName) -> Result<Option<Arc<CatalogEntry>>, Problem> {
    Ok(api.catalog.find(name).await?)
}

async fn find(api: &Api, name: &DestinationName) -> Result<Arc<CatalogEntry>, Problem> {
    let entry = existing(api, name).await?;
    entry.ok_or_else(|| Problem::unknown_destination(name.as_str()))
}
