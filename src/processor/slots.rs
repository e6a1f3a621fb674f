//! Counts the slots of a processor: the free ones, and those of each destination. No I/O.

use std::collections::HashMap;

use crate::domain::DestinationName;

pub(super) struct Slots {
    all: usize,
    /// Negative after a repeated claim that returned more messages than slots were reserved.
    free: isize,
    /// Slots in use or reserved, by destination.
    taken: HashMap<DestinationName, usize>,
}

impl Slots {
    pub(super) fn new(all: usize) -> Slots {
        Slots { all, free: all as isize, taken: HashMap::new() }
    }

    pub(super) fn all(&self) -> usize {
        self.all
    }

    pub(super) fn free(&self) -> usize {
        self.free.max(0) as usize
    }

    /// Slots in use or reserved.
    pub(super) fn taken(&self) -> usize {
        (self.all as isize - self.free).max(0) as usize
    }

    pub(super) fn taken_by(&self, name: &DestinationName) -> usize {
        self.taken.get(name).copied().unwrap_or_default()
    }

    /// Reserves slots, even if too few are free.
    pub(super) fn take(&mut self, name: &DestinationName, slots: usize) {
        self.free -= slots as isize;
        *self.taken.entry(name.clone()).or_default() += slots;
    }

    pub(super) fn give_back(&mut self, name: &DestinationName, slots: usize) {
        self.free += slots as isize;
        if let Some(taken) = self.taken.get_mut(name) {
            *taken = taken.saturating_sub(slots);
            if *taken == 0 {
                self.taken.remove(name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_over_what_was_set_aside_is_owed_before_anything_is_free() {
        let (a, b): (DestinationName, DestinationName) =
            ("a".parse().unwrap(), "b".parse().unwrap());
        let mut slots = Slots::new(16);
        // The claim for all slots gets no answer: its slots are freed, and taken by another.
        slots.take(&a, 16);
        slots.give_back(&a, 16);
        slots.take(&b, 11);
        assert_eq!((slots.free(), slots.taken_by(&a)), (5, 0));
        // Repeated with the free slots, the claim returns all that it got the first time.
        slots.take(&a, 5);
        slots.take(&a, 11);
        assert_eq!((slots.free(), slots.taken(), slots.taken_by(&a)), (0, 27, 16));
        slots.give_back(&b, 11);
        assert_eq!((slots.free(), slots.taken_by(&b)), (0, 0));
        slots.give_back(&a, 1);
        assert_eq!((slots.free(), slots.taken()), (1, 15));
    }
}
