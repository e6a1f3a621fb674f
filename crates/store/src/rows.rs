//! What the lists of several transitions hold.

use std::collections::HashMap;

use bytes::Bytes;

use super::{contract::row, keys::DestinationKeys};

row! {
    /// The sets of a lane.
    LaneSets {
        [in_progress, ready]
    }
}

impl LaneSets {
    /// Those of the lane with this key; `None`: of the destination.
    pub fn of(keys: &DestinationKeys, key: Option<&str>) -> LaneSets {
        LaneSets { in_progress: keys.in_progress(key), ready: keys.ready(key) }
    }
}

row! {
    /// A lane: its sets, and its key.
    LaneRow<'a> {
        [in_progress, ready]
        key: &'a str,
    }
}

impl<'a> LaneRow<'a> {
    /// The lane with this key; `None`: the destination's own.
    pub fn of(keys: &DestinationKeys, key: Option<&'a str>) -> LaneRow<'a> {
        let LaneSets { in_progress, ready } = LaneSets::of(keys, key);
        LaneRow { in_progress, ready, key: key.unwrap_or_default() }
    }
}

/// The lanes of a call, each once.
#[derive(Default)]
pub struct LaneRows<'a> {
    numbers: HashMap<Option<&'a str>, usize>,
    rows: Vec<LaneRow<'a>>,
}

impl<'a> LaneRows<'a> {
    /// The number of the lane with this key, from 1.
    pub fn number_of(&mut self, keys: &DestinationKeys, key: Option<&'a str>) -> usize {
        *self.numbers.entry(key).or_insert_with(|| {
            self.rows.push(LaneRow::of(keys, key));
            self.rows.len()
        })
    }

    /// All rows, in the order of their numbers.
    pub fn into_rows(self) -> Vec<LaneRow<'a>> {
        self.rows
    }
}

row! {
    /// A body that is stored out of line.
    BodyOutOfLine {
        /// Of which message of the call, from 1.
        of: usize,
        /// Empty, or `i`: the body as it arrived.
        suffix: &'static str,
        /// Empty, if one is to be removed.
        body: Bytes,
    }
}
