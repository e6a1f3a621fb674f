//! Rows that the lists of several transitions contain.

use std::{collections::HashMap, hash::Hash};

use bytes::Bytes;

use super::{contract::row, keys::DestinationKeys};

row! {
    /// The sets of a lane.
    LaneSets {
        [in_progress, ready]
    }
}

impl LaneSets {
    /// The sets of the lane with this key; `None`: the sets of the destination.
    pub fn of(keys: &DestinationKeys, key: Option<&str>) -> LaneSets {
        LaneSets { in_progress: keys.in_progress(key), ready: keys.ready(key) }
    }
}

row! {
    /// A lane: its sets and its key.
    LaneRow<'a> {
        [in_progress, ready]
        key: &'a str,
    }
}

impl<'a> LaneRow<'a> {
    /// The lane with this key; `None`: the only lane of the destination.
    pub fn of(keys: &DestinationKeys, key: Option<&'a str>) -> LaneRow<'a> {
        let LaneSets { in_progress, ready } = LaneSets::of(keys, key);
        LaneRow { in_progress, ready, key: key.unwrap_or_default() }
    }

    /// The rows of these lanes, in order.
    pub fn of_all(keys: &DestinationKeys, lanes: &Numbered<Option<&'a str>>) -> Vec<LaneRow<'a>> {
        lanes.values.iter().map(|key| LaneRow::of(keys, *key)).collect()
    }
}

/// The values of a call, each of them once, with a number.
#[derive(Default)]
pub struct Numbered<T> {
    numbers: HashMap<T, usize>,
    /// The values, in the order of their numbers.
    pub values: Vec<T>,
}

impl<T: Copy + Eq + Hash> Numbered<T> {
    /// The number of this value, from 1. A new value gets the next number.
    pub fn number_of(&mut self, value: T) -> usize {
        *self.numbers.entry(value).or_insert_with(|| {
            self.values.push(value);
            self.values.len()
        })
    }
}

row! {
    /// A body that is stored out of line.
    BodyOutOfLine {
        /// The number of the message in the call, from 1.
        of: usize,
        /// Empty: the current body; `i`: the body as it arrived.
        suffix: &'static str,
        /// The body; empty if the stored body must be removed.
        body: Bytes,
    }
}
