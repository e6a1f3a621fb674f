//! A page of the list of destinations.

use futures::{StreamExt, stream};
use serde::Serialize;

use super::{Only, ReadError, Rows, Sort, covers};
use crate::console::{
    Sources, measure,
    numbers::{Counts, Numbers, Row},
};
use domain::{DestinationName, Ordering, TransformKind};
use store::{Head, Paused, server_clock_ms};

/// Destinations on one page.
const PAGE: usize = 50;
/// Destinations whose heads and logs are read at the same time.
const AT_ONCE: usize = 16;
/// The last messages of the log that the error rate is computed from.
const LAST_MAX: usize = 50;

#[derive(Serialize)]
pub(super) struct Destinations {
    at_ms: u64,
    /// How many destinations match the search, and how many there are.
    matching: usize,
    all: usize,
    page: usize,
    pages: usize,
    rows: Vec<Shown>,
}

#[derive(Serialize)]
struct Shown {
    name: DestinationName,
    ordering: Ordering,
    transform: TransformKind,
    paused: Paused,
    #[serde(skip_serializing_if = "Option::is_none")]
    counts: Option<Backlog>,
    in_per_second: f64,
    out_per_second: f64,
    head: Option<Head>,
    /// The share of the last attempts that failed, 0 to 1.
    error_rate: Option<f64>,
}

#[derive(Serialize)]
struct Backlog {
    #[serde(flatten)]
    counts: Counts,
    delivered_total: u64,
    is_damaged: bool,
}

pub(super) async fn read(
    sources: &Sources,
    numbers: &Numbers,
    only: &Only,
    wanted: &Rows,
) -> Result<Destinations, ReadError> {
    let read = numbers.all().await?;
    let visible = || read.rows.iter().filter(|row| covers(only, &row.entry));
    let mut found: Vec<&Row> = visible()
        .filter(|row| row.entry.destination.name.as_str().contains(&wanted.search))
        .collect();
    sort(&mut found, wanted.sort);
    let pages = found.len().div_ceil(PAGE).max(1);
    let page = wanted.page.min(pages - 1);
    let on_page: Vec<Row> = found.iter().skip(page * PAGE).take(PAGE).copied().cloned().collect();
    let rows = stream::iter(on_page)
        .map(|row| shown(sources, row))
        .buffered(AT_ONCE)
        .collect::<Vec<_>>()
        .await;
    let (matching, all) = (found.len(), visible().count());
    Ok(Destinations { at_ms: server_clock_ms(), matching, all, page, pages, rows })
}

/// Sorts the rows, which are already sorted by name.
fn sort(rows: &mut [&Row], sort: Sort) {
    let number = |row: &Row| -> f64 {
        let stats = row.stats.as_ref();
        match sort {
            Sort::Name => 0.0,
            Sort::Pending => stats.map_or(0, |stats| stats.pending) as f64,
            Sort::Halted => stats.map_or(0, |stats| stats.halted) as f64,
            Sort::DeadLetters => stats.map_or(0, |stats| stats.dead_letters) as f64,
            Sort::In => row.in_per_second,
            Sort::Out => row.out_per_second,
        }
    };
    rows.sort_by(|a, b| number(b).total_cmp(&number(a)));
}

async fn shown(sources: &Sources, row: Row) -> Shown {
    let Row { entry, stats, in_per_second, out_per_second } = row;
    let has_pending = stats.as_ref().is_some_and(|stats| stats.pending > 0);
    let head = match has_pending {
        true => sources.store.stats(&entry).await.ok().and_then(|stats| stats.head),
        false => None,
    };
    let has_left = stats.as_ref().is_some_and(|stats| stats.last_sequence > stats.pending);
    let entries = match has_left {
        true => measure::last_entries(&sources.store, &entry, LAST_MAX).await.unwrap_or_default(),
        false => Vec::new(),
    };
    Shown {
        name: entry.destination.name.clone(),
        ordering: entry.destination.ordering,
        transform: entry.destination.transform.kind,
        paused: entry.paused,
        counts: stats.map(|stats| Backlog {
            counts: Counts::default().and(&stats),
            delivered_total: stats.delivered_total,
            is_damaged: !stats.damaged.is_empty(),
        }),
        in_per_second,
        out_per_second,
        head,
        error_rate: measure::error_rate(&entries),
    }
}
