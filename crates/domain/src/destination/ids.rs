//! How the messages of a destination are found by their ids.

use super::Destination;

/// Up to this many of the last messages are searched for an id, so that no index costs memory and time.
pub const IDS_SEARCHED_MAX: u64 = 1_000;

impl Destination {
    /// How many ids the index holds; 0: there is none.
    pub fn ids_indexed(&self) -> u64 {
        if self.ids_max > IDS_SEARCHED_MAX { self.ids_max } else { 0 }
    }
}
