//! The numbers of one destination, and of all.

use std::{cmp::Reverse, sync::Arc};

use axum::{
    Extension, Json,
    extract::{Path, Query, State, rejection::QueryRejection},
};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::{
    Api,
    destinations::{Listing, page_of, visible},
    request::{find, limit_of, query_of},
};
use domain::DestinationName;
use http_server::{openapi_responses, principal::Principal, problem::Problem};
use store::{CatalogEntry, Paused, Stats};

/// Destinations whose numbers are read in one round trip.
const AT_ONCE: usize = 500;

/// `GET /v1/destinations/{d}/stats`
#[utoipa::path(get, path = "/v1/destinations/{destination}/stats", tag = "destinations",
    operation_id = "show_stats", params(("destination" = String, Path, description = "The name of the destination")),
    responses((status = 200, description = "Its numbers, and its oldest heads", body = Stats),
        openapi_responses::ReadsDestination))]
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
    last_sequence: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pending: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    waiting: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    processing: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ready: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delivering: Option<u64>,
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
            last_sequence: Some(stats.last_sequence),
            pending: Some(stats.pending),
            waiting: Some(stats.waiting),
            processing: Some(stats.processing),
            ready: Some(stats.ready),
            delivering: Some(stats.delivering),
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

/// Which destinations come first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Sort {
    /// By name, page by page.
    #[default]
    Name,
    /// Those with the longest backlogs.
    Pending,
    /// Those with halted messages, then those with the longest backlogs.
    Stuck,
}

/// Which destinations are listed.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct Which {
    /// The size of a page.
    #[param(minimum = 1, maximum = 1000, default = 100)]
    limit: Option<usize>,
    /// The `next_cursor` of the page before; only with `sort=name`.
    cursor: Option<String>,
    /// Which destinations come first. Other orders than `name` have one page.
    #[serde(default)]
    #[param(inline)]
    sort: Sort,
}

impl Sort {
    /// The lowest comes first.
    fn place(self, item: &DestinationStats) -> (Reverse<u64>, Reverse<u64>) {
        let Counts { halted, pending, .. } = item.counts;
        let halted = if self == Sort::Stuck { halted.unwrap_or(u64::MAX) } else { 0 };
        (Reverse(halted), Reverse(pending.unwrap_or_default()))
    }
}

/// `GET /v1/stats`
#[utoipa::path(get, path = "/v1/stats", tag = "destinations", operation_id = "list_stats",
    params(Which),
    responses((status = 200, description = "A page, and totals", body = AllStats),
        openapi_responses::Reads))]
pub(super) async fn all_stats(
    State(api): State<Api>,
    Extension(caller): Extension<Principal>,
    query: Result<Query<Which>, QueryRejection>,
) -> Result<Json<AllStats>, Problem> {
    let Which { limit, cursor, sort } = query_of(query)?;
    let all = visible(&api, &caller);
    if sort != Sort::Name {
        if cursor.is_some() {
            let detail = "cursor: only with sort=name; other orders have one page";
            return Err(Problem::invalid_parameter(detail));
        }
        let limit = limit_of(limit)?;
        let (mut items, totals) = numbers(&api, &all, |_| true).await?;
        items.sort_by_key(|item| sort.place(item));
        items.truncate(limit);
        return Ok(Json(AllStats { items, next_cursor: None, totals }));
    }
    let listing = Listing { limit, cursor };
    let (shown, next_cursor) = page_of(&all, &listing, |entry| entry.destination.name.as_str())?;
    let ends = shown.first().zip(shown.last());
    let is_shown = |name: &DestinationName| {
        ends.is_some_and(|(first, last)| {
            (&first.destination.name..=&last.destination.name).contains(&name)
        })
    };
    let (items, totals) = numbers(&api, &all, is_shown).await?;
    Ok(Json(AllStats { items, next_cursor, totals }))
}

/// The numbers of those destinations that are shown, and the sums over all.
async fn numbers(
    api: &Api,
    all: &[Arc<CatalogEntry>],
    is_shown: impl Fn(&DestinationName) -> bool,
) -> Result<(Vec<DestinationStats>, Totals), Problem> {
    let (mut items, mut totals) = (Vec::new(), Totals::default());
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
    Ok((items, totals))
}
