//! The numbers of one destination, and of all.

use axum::{
    Extension, Json,
    extract::{Path, Query, State, rejection::QueryRejection},
};
use serde::Serialize;
use utoipa::ToSchema;

use super::{
    Api,
    destinations::{Listing, page_of, visible},
    request::{find, query_of},
};
use crate::{
    domain::DestinationName,
    store::{Paused, Stats},
    wire::{caller::Caller, document, problem::Problem},
};

/// Destinations whose numbers are read in one round trip.
const AT_ONCE: usize = 500;

/// `GET /v1/destinations/{d}/stats`
#[utoipa::path(get, path = "/v1/destinations/{destination}/stats", tag = "destinations",
    operation_id = "show_stats", params(("destination" = String, Path, description = "The name of the destination")),
    responses((status = 200, description = "Its numbers, and its oldest heads", body = Stats),
        document::ReadsDestination))]
pub(super) async fn stats(
    State(api): State<Api>,
    Path(name): Path<String>,
) -> Result<Json<Stats>, Problem> {
    let entry = find(&api, &name).await?;
    let stats = api.store.stats(&entry).await?;
    Ok(Json(stats))
}

/// The numbers of a page of destinations, and the sums over all.
#[derive(Serialize, ToSchema)]
pub(super) struct AllStats {
    items: Vec<DestinationStats>,
    /// The `cursor` of the next page; null on the last.
    next_cursor: Option<String>,
    totals: Totals,
}

/// The numbers of one destination. Only `name` and `damaged`, if they cannot be read.
#[derive(Serialize, ToSchema)]
struct DestinationStats {
    name: DestinationName,
    #[serde(flatten)]
    counts: Counts,
    /// Unreadable fields of the destination's hash, and unreadable keys.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    damaged: Vec<&'static str>,
}

#[derive(Default, Serialize, ToSchema)]
#[schema(as = DestinationCounts)]
struct Counts {
    #[serde(skip_serializing_if = "Option::is_none")]
    pending: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    waiting: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    processing: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ready: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delayed: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    halted: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dead_letters: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delivered_total: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    paused: Option<Paused>,
}

/// Sums over all destinations.
#[derive(Default, Serialize, ToSchema)]
struct Totals {
    pending: u64,
    waiting: u64,
    processing: u64,
    ready: u64,
    delivering: u64,
    halted: u64,
    delayed: u64,
    pending_bytes: u64,
    dead_letters: u64,
    delivered_total: u64,
    dropped_total: u64,
    dead_lettered_total: u64,
    cancelled_total: u64,
}

impl Totals {
    fn add(&mut self, stats: &Stats) {
        self.pending += stats.pending;
        self.waiting += stats.waiting;
        self.processing += stats.processing;
        self.ready += stats.ready;
        self.delivering += stats.delivering;
        self.halted += stats.halted;
        self.delayed += stats.delayed;
        self.pending_bytes += stats.pending_bytes;
        self.dead_letters += stats.dead_letters;
        self.delivered_total += stats.delivered_total;
        self.dropped_total += stats.dropped_total;
        self.dead_lettered_total += stats.dead_lettered_total;
        self.cancelled_total += stats.cancelled_total;
    }
}

impl DestinationStats {
    fn of(name: &DestinationName, stats: &Stats) -> DestinationStats {
        let counts = Counts {
            pending: Some(stats.pending),
            waiting: Some(stats.waiting),
            processing: Some(stats.processing),
            ready: Some(stats.ready),
            delayed: Some(stats.delayed),
            halted: Some(stats.halted),
            dead_letters: Some(stats.dead_letters),
            delivered_total: Some(stats.delivered_total),
            paused: Some(stats.paused),
        };
        let (name, damaged) = (name.clone(), stats.damaged.clone());
        DestinationStats { name, counts, damaged }
    }
}

/// `GET /v1/stats`
#[utoipa::path(get, path = "/v1/stats", tag = "destinations", operation_id = "list_stats",
    params(Listing),
    responses((status = 200, description = "A page by name, and totals", body = AllStats),
        document::Reads))]
pub(super) async fn all_stats(
    State(api): State<Api>,
    Extension(caller): Extension<Caller>,
    query: Result<Query<Listing>, QueryRejection>,
) -> Result<Json<AllStats>, Problem> {
    let listing = query_of(query)?;
    let all = visible(&api, &caller);
    let (shown, next_cursor) = page_of(&all, &listing, |entry| entry.destination.name.as_str())?;
    let (first, last) = (shown.first().cloned(), shown.last().cloned());
    let name_of = |entry: Option<&std::sync::Arc<_>>| entry.cloned();
    let (first, last) = (name_of(first.as_ref()), name_of(last.as_ref()));
    let is_shown = |name: &DestinationName| {
        let after = first.as_ref().is_some_and(|first| *name >= first.destination.name);
        after && last.as_ref().is_some_and(|last| *name <= last.destination.name)
    };
    let (mut items, mut totals) = (Vec::with_capacity(shown.len()), Totals::default());
    for some in all.chunks(AT_ONCE) {
        let numbers = api.store.backlogs_each(some).await;
        for (entry, stats) in some.iter().zip(numbers) {
            let name = &entry.destination.name;
            let item = match stats {
                Err(error) if error.is_damage() => DestinationStats {
                    name: name.clone(),
                    counts: Counts::default(),
                    damaged: vec!["all of it"],
                },
                stats => {
                    let stats = stats?;
                    totals.add(&stats);
                    DestinationStats::of(name, &stats)
                }
            };
            if is_shown(name) {
                items.push(item);
            }
        }
    }
    Ok(Json(AllStats { items, next_cursor, totals }))
}
