//! The views that the pages show. This process reads a view once for all browsers that show it.

mod destinations;
mod lane;
mod overview;
mod pods;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};

use super::{Sources, numbers::Numbers};
use domain::DestinationName;
use store::{CatalogEntry, StoreError, server_clock_ms};

/// A view, with every parameter that its numbers depend on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum View {
    Overview { only: Only },
    Destinations { only: Only, rows: Rows },
    Lane { destination: DestinationName, key: Option<String> },
    Pods,
}

/// The destinations that the token lists; `None`: all.
pub(super) type Only = Option<Arc<BTreeSet<DestinationName>>>;

/// The rows that the list of destinations shows.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Rows {
    /// Only destinations whose names contain this text.
    pub(super) search: String,
    pub(super) sort: Sort,
    pub(super) page: usize,
}

/// The order of the rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Sort {
    #[default]
    Name,
    Pending,
    Halted,
    DeadLetters,
    In,
    Out,
}

impl View {
    /// The shortest time between two reads of the view.
    pub(super) fn interval(&self) -> Duration {
        Duration::from_millis(match self {
            View::Lane { .. } => 400,
            View::Overview { .. } => 1_000,
            View::Destinations { .. } | View::Pods => 2_000,
        })
    }

    /// The view as JSON; if it cannot be read, an object with the reason in `error`.
    pub(super) async fn frame(&self, sources: &Sources, numbers: &Numbers) -> String {
        let read = match self {
            View::Overview { only } => overview::read(sources, numbers, only).await.map(json),
            View::Destinations { only, rows } => {
                destinations::read(sources, numbers, only, rows).await.map(json)
            }
            View::Lane { destination, key } => {
                lane::read(sources, destination, key.as_deref()).await.map(json)
            }
            View::Pods => pods::read(sources).await.map(json),
        };
        read.unwrap_or_else(|error| {
            let failed = Failed { at_ms: server_clock_ms(), error: error.to_string() };
            json(failed)
        })
    }
}

#[derive(Serialize)]
struct Failed {
    at_ms: u64,
    error: String,
}

fn json(view: impl Serialize) -> String {
    serde_json::to_string(&view).unwrap_or_default()
}

fn covers(only: &Only, entry: &CatalogEntry) -> bool {
    only.as_ref().is_none_or(|only| only.contains(&entry.destination.name))
}

/// Why a view cannot be read.
type ReadError = StoreError;
