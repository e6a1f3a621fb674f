//! The numbers of one destination, and of all destinations.

use std::{cmp::Reverse, sync::Arc};

use axum::{Extension, Json, extract::State};
use futures::future::{join_all, try_join_all};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::{
    Api,
    destinations::{Listing, page_of, visible},
    request::{InDestination, Params, Target, limit_of},
    shards::OneShard,
};
use domain::DestinationName;
use http_server::{openapi_responses, principal::Principal, problem::Problem};
use store::{Attention, CatalogEntry, Stats, StoreError, Trouble};

/// The most destinations whose numbers one round trip reads.
const AT_ONCE: usize = 500;
/// The most destinations whose heads are read at the same time.
const HEADS_AT_ONCE: usize = 16;

/// `GET /v1/destinations/{d}/stats`
#[utoipa::path(get, path = "/v1/destinations/{destination}/stats", tag = "destinations",
    operation_id = "show_stats", params(InDestination),
    responses((status = 200, description = "Its numbers, and its oldest heads", body = Stats),
        openapi_responses::ReadsDestination))]
pub(super) async fn stats(
    one: Option<Extension<OneShard>>,
    target: Target,
) -> Result<Json<Stats>, Problem> {
    let store = &target.api.store;
    let shards = match one {
        Some(_) => vec![target.entry().clone()],
        None => shards_of(&target.api, target.entry()),
    };
    let all = try_join_all(shards.iter().map(|shard| store.stats(shard))).await?;
    Ok(Json(sum(all)))
}

/// The shards of a destination that this pod knows; the destination itself, unless it has several.
fn shards_of(api: &Api, entry: &Arc<CatalogEntry>) -> Vec<Arc<CatalogEntry>> {
    match (entry.destination.shards, entry.destination.name.shard()) {
        (2.., 0) => api.catalog.shards(entry),
        _ => vec![entry.clone()],
    }
}

fn sum(of_shards: Vec<Stats>) -> Stats {
    of_shards.into_iter().reduce(Stats::and).unwrap_or_default()
}

/// The numbers of a page of destinations, and the sums over all.
#[derive(Serialize, ToSchema)]
pub(super) struct AllStats {
    items: Vec<DestinationStats>,
    /// The `cursor` of the next page; null on the last.
    next_cursor: Option<String>,
    /// The sums over all destinations; absent with `totals=false`.
    #[serde(skip_serializing_if = "Option::is_none")]
    totals: Option<Totals>,
}

/// The name and the numbers of one destination.
#[derive(Serialize, ToSchema)]
struct DestinationStats {
    name: DestinationName,
    #[serde(flatten)]
    numbers: Numbers,
}

/// The numbers of a destination, or the reason why there are none.
#[derive(Serialize, ToSchema)]
#[schema(as = DestinationNumbers)]
#[serde(untagged)]
enum Numbers {
    /// The numbers. `head` and `heads` only with `heads=true`.
    Read(Box<Stats>),
    Damaged {
        /// The keys or fields that cannot be read.
        damaged: Vec<&'static str>,
        attention: Vec<Attention>,
    },
    Unread {
        /// Why Redis did not answer.
        not_read: String,
    },
}

/// Defines a struct of sums over destinations: fields named as in `Stats`, and other fields.
macro_rules! sums {
    ($(#[$attr:meta])* $vis:vis struct $sums:ident { $($number:ident)*; $($other:tt)* }) => {
        $(#[$attr])*
        $vis struct $sums {
            $($number: u64,)*
            $($other)*
        }

        impl $sums {
            /// Adds the numbers of a destination.
            $vis fn and(mut self, stats: &Stats) -> $sums {
                $(self.$number += stats.$number;)*
                self
            }
        }
    };
}
pub(super) use sums;

sums! {
    /// Sums over all destinations.
    #[derive(Default, Serialize, ToSchema)]
    struct Totals {
        pending waiting processing ready delivering halted delayed pending_bytes dead_letters delivered_total
        dropped_total dead_lettered_total cancelled_total;
        /// How many destinations need attention. A destination whose server does not answer is one of them.
        needs_attention: u64,
    }
}

impl Numbers {
    fn of(stats: Result<Stats, StoreError>) -> Numbers {
        match stats {
            Ok(stats) => Numbers::Read(Box::new(stats)),
            Err(error) if error.is_damage() => {
                let cause = Trouble::Damaged;
                let attention = Attention { cause, count: 1, since: None, error: None };
                Numbers::Damaged { damaged: vec!["all of it"], attention: vec![attention] }
            }
            Err(error) => Numbers::Unread { not_read: error.to_string() },
        }
    }

    fn read(&self) -> Option<&Stats> {
        match self {
            Numbers::Read(stats) => Some(stats),
            Numbers::Damaged { .. } | Numbers::Unread { .. } => None,
        }
    }

    /// True if something is wrong, or if the numbers could not be read.
    fn needs_attention(&self) -> bool {
        self.read().is_none_or(|stats| !stats.attention.is_empty())
    }
}

/// The order of the destinations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Sort {
    /// By name, page by page.
    #[default]
    Name,
    /// The longest backlogs first.
    Pending,
    /// Destinations that need attention first; then the longest backlogs.
    Stuck,
}

/// Which destinations to list.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct Which {
    /// The size of a page.
    #[param(minimum = 1, maximum = 1000, default = 100)]
    limit: Option<usize>,
    /// The `next_cursor` of the page before; only with `sort=name`.
    cursor: Option<String>,
    /// The order of the destinations. An order other than `name` has one page.
    #[serde(default)]
    #[param(inline)]
    sort: Sort,
    /// True: adds the oldest heads of each listed destination.
    #[serde(default)]
    heads: bool,
    /// True: only the destinations that need attention.
    #[serde(default)]
    attention: bool,
    /// False: leaves out the sums over all destinations, which need a read of each destination. `true` if absent.
    totals: Option<bool>,
}

impl Sort {
    /// The rank of an item; the lowest comes first.
    fn place(self, item: &DestinationStats) -> (Reverse<bool>, Reverse<u64>) {
        let pending = item.numbers.read().map_or(0, |stats| stats.pending);
        (Reverse(self == Sort::Stuck && item.numbers.needs_attention()), Reverse(pending))
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
    Params(Which { limit, cursor, sort, heads, attention, totals }): Params<Which>,
) -> Result<Json<AllStats>, Problem> {
    let all = visible(&api, &caller);
    let wants_totals = totals.unwrap_or(true);
    let (mut items, next_cursor, totals) = if sort == Sort::Name {
        let listing = Listing { limit, cursor };
        let name = |entry: &CatalogEntry| entry.destination.name.as_str().to_owned();
        let (shown, next) = page_of(&all, &listing, |entry| entry.destination.name.as_str())?;
        let (mut items, totals) = numbers(&api, if wants_totals { &all } else { shown }).await;
        let ends =
            shown.first().map(|entry| name(entry)).zip(shown.last().map(|entry| name(entry)));
        items.retain(|item| {
            let name = item.name.as_str();
            ends.as_ref()
                .is_some_and(|(first, last)| (first.as_str()..=last.as_str()).contains(&name))
        });
        items.retain(|item| !attention || item.numbers.needs_attention());
        (items, next, totals)
    } else {
        if cursor.is_some() {
            let detail = "cursor: only with sort=name; other orders have one page";
            return Err(Problem::invalid_parameter(detail));
        }
        let limit = limit_of(limit)?;
        let (mut items, totals) = numbers(&api, &all).await;
        items.retain(|item| !attention || item.numbers.needs_attention());
        items.sort_by_key(|item| sort.place(item));
        items.truncate(limit);
        (items, None, totals)
    };
    if heads {
        add_heads(&api, &all, &mut items).await;
    }
    Ok(Json(AllStats { items, next_cursor, totals: wants_totals.then_some(totals) }))
}

/// The numbers of these destinations, and their sums. If a server does not answer, only its destinations have no
/// numbers.
async fn numbers(api: &Api, all: &[Arc<CatalogEntry>]) -> (Vec<DestinationStats>, Totals) {
    let shards: Vec<_> = all.iter().map(|entry| shards_of(api, entry)).collect();
    let entries: Vec<_> = shards.iter().flatten().cloned().collect();
    // Reads all at once: several servers that do not answer cost one wait together.
    let read = entries.chunks(AT_ONCE).map(|some| api.store.backlogs_each(some));
    let mut read: Vec<_> = join_all(read).await.into_iter().flatten().collect();
    let known = entries.iter().zip(&mut read);
    let mut known: Vec<_> =
        known.filter_map(|(entry, stats)| Some((&**entry, stats.as_mut().ok()?))).collect();
    let attention = api.store.attention(&known).await;
    for ((_, stats), attention) in known.iter_mut().zip(attention) {
        stats.attention = attention;
    }
    let (mut items, mut totals) = (Vec::with_capacity(all.len()), Totals::default());
    let mut read = read.into_iter();
    for (entry, shards) in all.iter().zip(shards) {
        // Collected first: a result that ends at an error would leave numbers of this destination for the next one.
        let of_shards: Vec<_> = read.by_ref().take(shards.len()).collect();
        let of_shards: Result<Vec<Stats>, _> = of_shards.into_iter().collect();
        let numbers = Numbers::of(of_shards.map(sum));
        if let Some(stats) = numbers.read() {
            totals = totals.and(stats);
        }
        totals.needs_attention += u64::from(numbers.needs_attention());
        items.push(DestinationStats { name: entry.destination.name.clone(), numbers });
    }
    (items, totals)
}

/// Adds the oldest heads of all shards of a destination.
async fn add_heads_of(
    api: &Api,
    entry: &Arc<CatalogEntry>,
    stats: &mut Stats,
) -> Result<(), StoreError> {
    let mut of_shards = Vec::new();
    for shard in shards_of(api, entry) {
        let mut heads = Stats { delivering: stats.delivering, ..Stats::default() };
        api.store.add_heads(&shard, &mut heads).await?;
        of_shards.push(heads);
    }
    let heads = sum(of_shards);
    (stats.head, stats.heads) = (heads.head, heads.heads);
    Ok(())
}

/// Reads the heads of the items with pending messages.
async fn add_heads(api: &Api, all: &[Arc<CatalogEntry>], items: &mut [DestinationStats]) {
    for some in items.chunks_mut(HEADS_AT_ONCE) {
        let read = some.iter_mut().map(|item| async {
            let found = all.binary_search_by(|entry| entry.destination.name.cmp(&item.name));
            if let (Ok(at), Numbers::Read(stats)) = (found, &mut item.numbers)
                && (stats.pending > 0 || stats.halted > 0)
                && let Err(error) = add_heads_of(api, &all[at], stats).await
            {
                item.numbers = Numbers::of(Err(error));
            }
        });
        join_all(read).await;
    }
}
