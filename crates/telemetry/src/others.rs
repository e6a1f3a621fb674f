//! Counts the uses of destinations without series, to find the destinations that should get series.

use std::{cmp::Reverse, collections::HashMap, sync::Arc};

use parking_lot::Mutex;

/// The most destinations to remember. At the limit, all counts drop by one, and destinations at zero are forgotten.
const NAMES_MAX: usize = 4_096;

#[derive(Default)]
pub(super) struct Others(Mutex<HashMap<Arc<str>, u64>>);

impl Others {
    /// Counts one use of a destination that has no series of its own.
    pub(super) fn note(&self, destination: &str) {
        let mut counts = self.0.lock();
        if let Some(count) = counts.get_mut(destination) {
            *count += 1;
            return;
        }
        if counts.len() >= NAMES_MAX {
            counts.retain(|_, count| {
                *count -= 1;
                *count > 0
            });
        }
        if counts.len() < NAMES_MAX {
            counts.insert(destination.into(), 1);
        }
    }

    /// Returns all counts, the highest first, and starts from zero.
    pub(super) fn take(&self) -> Vec<(Arc<str>, u64)> {
        let counts = std::mem::take(&mut *self.0.lock());
        let mut all: Vec<_> = counts.into_iter().collect();
        all.sort_by_key(|(_, count)| Reverse(*count));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_counted_are_first_and_their_number_is_limited() {
        let others = Others::default();
        others.note("a");
        (0..9).for_each(|_| others.note("b"));
        (0..2 * NAMES_MAX).for_each(|number| others.note(&format!("once-{number}")));
        let all = others.take();
        assert_eq!(&*all[0].0, "b");
        assert!(all.len() <= NAMES_MAX, "{}", all.len());
        assert!(others.take().is_empty());
    }
}
