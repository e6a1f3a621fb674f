//! How Reseq finds the messages of a destination by their ids.

use super::Destination;

/// Up to this many of the last messages, Reseq searches for an id, so that no index costs memory and time.
pub const IDS_SEARCHED_MAX: u64 = 1_000;

impl Destination {
    /// The number of ids that the index holds; 0: there is no index.
    pub fn ids_indexed(&self) -> u64 {
        if self.ids_max > IDS_SEARCHED_MAX { self.ids_max } else { 0 }
    }
}
