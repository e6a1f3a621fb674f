//! How many messages a claim asks for: about as many as the destination had waiting before. A claim in flight reserves
//! a slot for each message, so large claims from quiet destinations would take all slots from the others. No I/O.

use std::collections::HashMap;

use domain::DestinationName;

/// Every claim may ask for at least this many messages.
const SIZE_MIN: usize = 4;
/// A destination with more messages is not quiet: only its share of the slots limits its claims.
const QUIET_MAX: usize = 64;

#[derive(Default)]
pub(super) struct ClaimSizes {
    /// The most messages of the next claim, for each quiet destination.
    of_quiet: HashMap<DestinationName, usize>,
}

impl ClaimSizes {
    /// The most messages that the next claim may ask for.
    pub(super) fn next(&self, name: &DestinationName) -> usize {
        self.of_quiet.get(name).copied().unwrap_or(usize::MAX)
    }

    /// Notes that a claim found this many messages. The next claim may ask for twice as many.
    pub(super) fn claimed(&mut self, name: &DestinationName, found: usize) {
        let size = (2 * found).max(SIZE_MIN);
        if size > QUIET_MAX {
            self.of_quiet.remove(name);
        } else {
            self.of_quiet.insert(name.clone(), size);
        }
    }

    /// The sizes, to forget destinations that are gone.
    pub(super) fn all(&mut self) -> &mut HashMap<DestinationName, usize> {
        &mut self.of_quiet
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claim_doubles_the_last_find_while_destination_is_quiet() {
        let (mut sizes, a) = (ClaimSizes::default(), "a".parse().unwrap());
        assert_eq!(sizes.next(&a), usize::MAX, "nothing is known of it");
        for (found, next) in [(0, 4), (1, 4), (3, 6), (6, 12), (12, 24), (24, 48), (48, usize::MAX)]
        {
            sizes.claimed(&a, found);
            assert_eq!(sizes.next(&a), next, "after {found}");
        }
        sizes.claimed(&a, 32);
        assert_eq!(sizes.next(&a), 64);
        sizes.all().clear();
        assert_eq!(sizes.next(&a), usize::MAX);
    }
}
