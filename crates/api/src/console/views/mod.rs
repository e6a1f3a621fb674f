//! What the pages show. A view is read once for all browsers that show it.

mod destinations;
mod lane;
mod overview;
mod pods;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};

use super::{Sources, numbers::Numbers};
use domain::DestinationName;
use store::{CatalogEntry, StoreError, server_clock_ms};

/// What is shown: everything that its numbers depend on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum View {
    Overview { only: Only },
    Destinations { only: Only, rows: Rows },
    Lane { destination: DestinationName, key: Option<String> },
    Pods,
}

/// The destinations that the token lists; `None`: all.
pub(super) type Only = Option<Arc<BTreeSet<DestinationName>>>;

/// Which destinations are shown.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Rows {
    /// Only names with this text.
    pub(super) search: String,
    pub(super) sort: Sort,
    pub(super) page: usize,
}

/// What comes first.
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
    /// How often it is read at most.
    pub(super) fn interval(&self) -> Duration {
        Duration::from_millis(match self {
            View::Lane { .. } => 400,
            View::Overview { .. } => 1_000,
            View::Destinations { .. } | View::Pods => 2_000,
        })
    }

    /// The view as JSON; why it cannot be read, as `error`.
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
