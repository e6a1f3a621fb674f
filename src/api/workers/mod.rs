//! `/v1/leases`: what a user's own worker needs, in any language that speaks HTTP and JSON.

mod complete;
mod handout;
mod lease;
mod lease_updates;
mod waiter_queue;

pub(super) use complete::complete;
pub(super) use lease::lease;
pub(super) use lease_updates::{extend, fail, release};

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, PoisonError},
};

use serde::{Deserialize, Serialize};

use waiter_queue::{Served, WaiterQueues};

use super::Api;
use crate::{
    domain::{DestinationName, LeaseToken, OnExhausted, Stamped},
    store::{CallSequence, CatalogEntry, Status, StoreError},
    wire::problem::Problem,
};

/// The most messages of one lease call, and items of the others.
const ITEMS_MAX: usize = 1000;
/// The most bytes of what attempts left behind that one call to Redis reads and writes.
const ATTEMPTS_BYTES_MAX: usize = 1 << 20;
/// The most bytes of outputs, and of what attempts left behind, that one call to Redis writes.
const CALL_BYTES_MAX: usize = 4 << 20;
/// The longest a lease call may wait, in milliseconds.
const WAIT_MS_MAX: u64 = 60_000;
/// Bounds of a lease, in milliseconds.
const LEASE_MS: std::ops::RangeInclusive<u64> = 100..=24 * 3_600_000;
/// The longest wait that a worker may ask for before the next attempt, in milliseconds.
const RETRY_MS_MAX: u64 = 24 * 3_600_000;

/// The most destinations whose idle callers are kept.
const CALLERS_OF_MAX: usize = 1024;

/// What the calls of workers share: callers, one for each call that is under way at once; who waits
/// for messages; and which destinations were served when.
#[derive(Default)]
pub struct CallSequences {
    idle: Mutex<HashMap<DestinationName, Vec<CallSequence>>>,
    lines: Arc<WaiterQueues>,
    served: Served,
}

impl CallSequences {
    fn take(&self, api: &Api, name: &DestinationName) -> CallSequence {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let caller = idle.get_mut(name).and_then(Vec::pop);
        caller.unwrap_or_else(|| api.store.caller_anew(&format!("worker:{name}")))
    }

    fn put_back(&self, name: &DestinationName, caller: CallSequence) {
        // An answer that did not come is not asked for again here.
        caller.give_up();
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() >= CALLERS_OF_MAX && !idle.contains_key(name) {
            // Any: whoever needs one finds or makes another.
            let other = idle.keys().next().cloned();
            other.map(|other| idle.remove(&other));
        }
        idle.entry(name.clone()).or_default().push(caller);
    }
}

fn half_a_minute() -> u64 {
    30_000
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Items<T> {
    items: Vec<T>,
}

#[derive(Serialize)]
pub(in crate::api) struct Results {
    results: Vec<ItemResult>,
}

#[derive(Serialize)]
struct ItemResult {
    token: String,
    status: Status,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
    /// What becomes of it, where its attempts are used up.
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

    /// What is damaged at their destination keeps these from what was asked.
    fn damaged(&mut self, at: &[usize]) {
        at.iter().for_each(|&index| self.set(index, Status::Damaged));
    }

    /// Tells of those of these items that are halted what their destination does with them.
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

/// The items of one destination: each by its place in the request, with its lease.
struct Group {
    known: Arc<CatalogEntry>,
    at: Vec<usize>,
    tokens: Vec<LeaseToken>,
}

/// The items of each destination, and a result for each until something better is known. What is
/// no token of ours, or belongs to a destination that is gone, holds no lease.
async fn group(api: &Api, tokens: Vec<&str>) -> Result<(Results, Vec<Group>), Problem> {
    check_range("items", tokens.len() as u64, 1..=ITEMS_MAX as u64)?;
    let mut by_name: BTreeMap<DestinationName, (Vec<usize>, Vec<LeaseToken>)> = BTreeMap::new();
    for (index, text) in tokens.iter().enumerate() {
        if let Ok(token) = LeaseToken::decode(text) {
            let (at, tokens) = by_name.entry(token.destination.clone()).or_default();
            at.push(index);
            tokens.push(token);
        }
    }
    let mut groups = Vec::with_capacity(by_name.len());
    for (name, (at, tokens)) in by_name {
        if let Some(known) = existing(api, &name).await? {
            groups.push(Group { known, at, tokens });
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

/// The bytes of what attempts at a message left behind, about.
fn bytes_left(message: &Stamped) -> usize {
    let attempts = &message.attempts;
    let details = attempts.errors.iter().map(|(_, error)| error.detail.len());
    attempts.checkpoint.as_ref().map_or(0, String::len) + details.sum::<usize>()
}

/// The answer, or none where what Redis holds of that destination is damaged: then its items say so,
/// and those of the others go on.
fn unless_damaged<T>(answer: Result<T, StoreError>) -> Result<Option<T>, Problem> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if error.is_damage() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The messages of these leases, as far as they are there; none at all where they cannot be read.
async fn messages_of(api: &Api, group: &Group) -> Result<Option<Vec<Option<Stamped>>>, Problem> {
    let sequences: Vec<u64> = group.tokens.iter().map(|token| token.sequence).collect();
    // Its body is needed only where it is kept beside the output.
    unless_damaged(match group.known.destination.log_bodies {
        true => api.store.messages(&group.known, &sequences).await,
        false => api.store.headers(&group.known, &sequences).await,
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
    let known = existing(api, name).await?;
    known.ok_or_else(|| Problem::unknown_destination(name.as_str()))
}
