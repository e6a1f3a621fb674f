//! `/v1/leases`: what a user's own worker needs, in any language that speaks HTTP and JSON.

mod complete;
mod give_back;
mod lease;

pub(super) use complete::complete;
pub(super) use give_back::{extend, fail, release};
pub(super) use lease::lease;

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use serde::{Deserialize, Serialize};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use super::{Api, problem_of};
use crate::{
    domain::{DestinationName, LeaseToken},
    store::{Caller, Known, Status},
    wire::problem::Problem,
};

/// The most messages of one lease call, and items of the others.
const ITEMS_MAX: usize = 1000;
/// The longest a lease call may wait, in milliseconds.
const WAIT_MS_MAX: u64 = 60_000;
/// Bounds of a lease, in milliseconds.
const LEASE_MS: std::ops::RangeInclusive<u64> = 100..=24 * 3_600_000;
/// The longest wait that a worker may ask for before the next attempt, in milliseconds.
const RETRY_MS_MAX: u64 = 24 * 3_600_000;

/// Callers for calls on behalf of workers: one for each that is under way at once.
#[derive(Default)]
pub struct Callers {
    idle: Mutex<HashMap<DestinationName, Vec<Caller>>>,
    made: AtomicU64,
}

impl Callers {
    fn take(&self, api: &Api, name: &DestinationName) -> Caller {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let caller = idle.get_mut(name).and_then(Vec::pop);
        caller.unwrap_or_else(|| {
            let number = self.made.fetch_add(1, Ordering::Relaxed);
            api.store.caller(&format!("worker:{name}:{number}"))
        })
    }

    fn put_back(&self, name: &DestinationName, caller: Caller) {
        // An answer that did not come is not asked for again here.
        caller.give_up();
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
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
    deadline: Option<String>,
}

impl Results {
    /// Until something better is known: a token that is none of ours holds no lease.
    fn stale(tokens: impl Iterator<Item = String>) -> Results {
        let result = |token| ItemResult { token, status: Status::StaleLease, deadline: None };
        Results { results: tokens.map(result).collect() }
    }

    fn set(&mut self, index: usize, status: Status) {
        self.results[index].status = status;
    }

    fn fill(&mut self, at: &[usize], statuses: Vec<Status>) {
        at.iter().zip(statuses).for_each(|(&index, status)| self.set(index, status));
    }
}

type Groups = BTreeMap<DestinationName, Vec<(usize, LeaseToken)>>;

/// The items of each destination, by their place in the request. What is no token is left out.
fn group<'t>(tokens: impl Iterator<Item = &'t str>) -> Result<Groups, Problem> {
    let mut groups = Groups::new();
    let mut count = 0;
    for (index, text) in tokens.enumerate() {
        count += 1;
        if let Ok(token) = LeaseToken::decode(text) {
            groups.entry(token.destination.clone()).or_default().push((index, token));
        }
    }
    check_range("items", count, 1..=ITEMS_MAX as u64)?;
    Ok(groups)
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

async fn existing(api: &Api, name: &DestinationName) -> Result<Option<Arc<Known>>, Problem> {
    api.catalog.find(name).await.map_err(|error| problem_of(&error))
}

async fn find(api: &Api, name: &DestinationName) -> Result<Arc<Known>, Problem> {
    let known = existing(api, name).await?;
    known.ok_or_else(|| Problem::unknown_destination(name.as_str()))
}

fn rfc3339(ms: u64) -> String {
    OffsetDateTime::from_unix_timestamp_nanos(i128::from(ms) * 1_000_000)
        .ok()
        .and_then(|instant| instant.format(&Rfc3339).ok())
        .unwrap_or_default()
}
