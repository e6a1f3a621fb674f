//! A destination in the catalog: its definition, and the values that scripts get from it.

use std::sync::Arc;

use super::keys::Claimers;
use domain::{DeliveryKind, Destination, Epoch, Ordering, Processing, TransformKind};

/// Which parts of a destination are paused.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, utoipa::ToSchema)]
pub struct Paused {
    /// True if ingest refuses messages.
    pub ingest: bool,
    /// True if no processor or worker can claim messages.
    pub processing: bool,
    /// True if the sender sends no messages.
    pub delivery: bool,
}

impl Paused {
    /// True if every part is paused: no message is accepted, processed or delivered.
    pub fn is_all(self) -> bool {
        self.ingest && self.processing && self.delivery
    }

    /// The text that the partition stores.
    pub(super) fn text(self) -> String {
        let Paused { ingest, processing, delivery } = self;
        let parts = [(ingest, "ingest"), (processing, "processing"), (delivery, "delivery")];
        let paused: Vec<&str> = parts.iter().filter(|part| part.0).map(|part| part.1).collect();
        paused.join(",")
    }

    pub(super) fn of_text(text: &str) -> Paused {
        let names = |what| text.split(',').any(|name| name == what);
        Paused {
            ingest: names("ingest"),
            processing: names("processing"),
            delivery: names("delivery"),
        }
    }

    /// The text that the index stores: the paused parts and the epoch of creation. Never empty.
    pub(super) fn mark(self, born: Epoch) -> String {
        let paused = if self == Paused::default() { "-".to_owned() } else { self.text() };
        format!("{paused},@{born}")
    }

    /// Parses [`Paused::mark`]. The epoch is `None` if an older version wrote the index entry.
    pub(super) fn of_mark(mark: &str) -> (Paused, Option<Epoch>) {
        let born = mark.split(',').find_map(|part| part.strip_prefix('@')?.parse().ok());
        (Paused::of_text(mark), born)
    }
}

/// A destination, as this pod's catalog holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogEntry {
    /// The definition of the destination. With several shards: what holds for this shard.
    pub destination: Destination,
    /// With several shards: the definition as it was written, with the limits of all shards together.
    pub of_all_shards: Option<Arc<Destination>>,
    /// The version of the definition. Scripts refuse an outdated version.
    pub version: u64,
    /// The partition of the destination.
    pub partition: u16,
    /// The parts that an operator has paused.
    pub paused: Paused,
    /// The epoch in which the destination was created. If a destination is removed and created again with the same
    /// name, the new one has a higher epoch.
    pub born: Epoch,
}

impl CatalogEntry {
    /// The definition as it was written.
    pub fn definition(&self) -> &Destination {
        self.of_all_shards.as_deref().unwrap_or(&self.destination)
    }

    /// Which processors may claim the destination's messages.
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

/// The ordering, as text for the scripts.
pub(super) fn ordering_text(ordering: Ordering) -> &'static str {
    match ordering {
        Ordering::Destination => "destination",
        Ordering::Key => "key",
        Ordering::None => "none",
    }
}

/// The kind of delivery, as text for the scripts.
pub(super) fn delivery_text(kind: DeliveryKind) -> &'static str {
    match kind {
        DeliveryKind::Push => "push",
        DeliveryKind::Pull => "pull",
        DeliveryKind::None => "none",
    }
}

/// The processing mode, as text for the scripts.
pub(super) fn processing_text(processing: Processing) -> &'static str {
    match processing {
        Processing::Parallel => "parallel",
        Processing::Serial => "serial",
    }
}

/// Which processors may claim messages of a destination with this transform.
pub(super) fn claimers_of(kind: TransformKind) -> Claimers {
    match kind {
        TransformKind::Worker => Claimers::Worker,
        TransformKind::None | TransformKind::Http | TransformKind::Jq | TransformKind::Native => {
            Claimers::Builtin
        }
    }
}

/// The key in the names of a lane's sets. Without ordering, the sets of the destination hold all messages.
pub(super) fn set_key<'a>(entry: &CatalogEntry, lane: Option<&'a str>) -> Option<&'a str> {
    lane.filter(|_| entry.destination.ordering == Ordering::Key)
}
