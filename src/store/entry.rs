//! A destination as the store knows it: its definition, and what a script is told of it.

use super::keys::Claimers;
use crate::domain::{Destination, Epoch, Ordering, Processing, TransformKind};

/// What of a destination a person has paused.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct Paused {
    /// Nothing is taken in.
    pub ingest: bool,
    /// Nothing is sent.
    pub delivery: bool,
}

impl Paused {
    /// As the partition keeps it.
    pub(super) fn text(self) -> &'static str {
        match (self.ingest, self.delivery) {
            (false, false) => "",
            (true, false) => "ingest",
            (false, true) => "delivery",
            (true, true) => "ingest,delivery",
        }
    }

    pub(super) fn of_text(text: &str) -> Paused {
        let names = |what| text.split(',').any(|name| name == what);
        Paused { ingest: names("ingest"), delivery: names("delivery") }
    }

    /// As the index keeps it, with the epoch that the destination was born in: never empty.
    pub(super) fn mark(self, born: Epoch) -> String {
        let paused = if self == Paused::default() { "-" } else { self.text() };
        format!("{paused},@{born}")
    }

    /// What [`Paused::mark`] says. No epoch where the index was written by a version that noted none.
    pub(super) fn of_mark(mark: &str) -> (Paused, Option<Epoch>) {
        let born = mark.split(',').find_map(|part| part.strip_prefix('@')?.parse().ok());
        (Paused::of_text(mark), born)
    }
}

/// A destination as this pod knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogEntry {
    /// Its definition.
    pub destination: Destination,
    /// The definition's version; scripts refuse another than the current one.
    pub version: u64,
    /// The partition it lives in.
    pub partition: u16,
    /// What a person has paused.
    pub paused: Paused,
    /// The epoch that it was born in: one of the same name that is made after it was removed is another
    /// destination, and born in a higher one.
    pub born: Epoch,
}

impl CatalogEntry {
    /// Who may claim its messages.
    pub fn claimers(&self) -> Claimers {
        claimers_of(self.destination.transform.kind)
    }

    pub(super) fn processing_text(&self) -> &'static str {
        processing_text(self.destination.processing)
    }

    pub(super) fn ordering_text(&self) -> &'static str {
        ordering_text(self.destination.ordering)
    }
}

/// The ordering, as the scripts spell it.
pub(super) fn ordering_text(ordering: Ordering) -> &'static str {
    match ordering {
        Ordering::Destination => "destination",
        Ordering::Key => "key",
        Ordering::None => "none",
    }
}

/// How many of a lane are processed at a time, as the scripts spell it.
pub(super) fn processing_text(processing: Processing) -> &'static str {
    match processing {
        Processing::Parallel => "parallel",
        Processing::Serial => "serial",
    }
}

/// Who may claim messages of a destination with this transform.
pub(super) fn claimers_of(kind: TransformKind) -> Claimers {
    match kind {
        TransformKind::Worker => Claimers::Worker,
        TransformKind::None | TransformKind::Http | TransformKind::Jq | TransformKind::Native => {
            Claimers::Builtin
        }
    }
}

/// The key of the sets in which a lane's messages stand: where nothing is in order, all stand in
/// the destination's own.
pub(super) fn set_key<'a>(known: &CatalogEntry, lane: Option<&'a str>) -> Option<&'a str> {
    lane.filter(|_| known.destination.ordering == Ordering::Key)
}
