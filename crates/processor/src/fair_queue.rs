//! Decides which destination claims next: destinations take turns, by weight over time. No I/O.

use std::collections::{BTreeMap, HashMap, HashSet};

use domain::{Destination, DestinationName};

/// The cost of one slot for a destination of weight 1.
const SLOT: u64 = 1 << 20;
/// How many destinations outside the queue are remembered.
const REMEMBERED_MAX: usize = 1024;

/// The destinations that wait for their turn. First is the destination that has used least, relative to its weight;
/// among equals, the one that waited longest. A new or returning destination starts at the level of the destination
/// being served: no destination saves up turns, so none waits longer than one round. While a claim of a destination is
/// in flight, the destination is not in the queue, but keeps its level.
#[derive(Default)]
pub(super) struct FairQueue {
    /// The key is the cost used so far, then the number of arrival.
    queue: BTreeMap<(u64, u64), (DestinationName, u32)>,
    places: HashMap<DestinationName, (u64, u64)>,
    /// The sum of the weights in the queue.
    weights: u64,
    /// The cost that each destination has used: slots divided by weight.
    had: HashMap<DestinationName, u64>,
    /// Destinations with a claim in flight, or whose last claim used all its slots.
    claiming: HashSet<DestinationName>,
    /// The level: the cost that the last destination in turn had used.
    level: u64,
    number: u64,
}

impl FairQueue {
    /// Adds a destination to the queue, unless it is already there.
    pub(super) fn push(&mut self, name: DestinationName, weight: u32) {
        if self.places.contains_key(&name) {
            return;
        }
        self.number += 1;
        let had = self.had.get(&name).copied().unwrap_or_default();
        let had = if self.claiming.remove(&name) { had } else { had.max(self.level) };
        let position = (had, self.number);
        self.places.insert(name.clone(), position);
        self.weights += u64::from(weight);
        self.queue.insert(position, (name, weight));
    }

    /// Removes the next destination. Returns it with the sum of the weights that were in the queue, including its own.
    pub(super) fn pop(&mut self) -> Option<(DestinationName, u64)> {
        let ((had, _), (name, weight)) = self.queue.pop_first()?;
        self.places.remove(&name);
        self.level = self.level.max(had);
        self.had.insert(name.clone(), had);
        let weights = self.weights;
        self.weights -= u64::from(weight);
        self.forget();
        Some((name, weights))
    }

    /// True if no destination is in the queue.
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// The destinations in the queue, the next first.
    pub(super) fn names(&self) -> impl Iterator<Item = &DestinationName> {
        self.queue.values().map(|(name, _)| name)
    }

    /// Charges the destination for the slots of messages that begin on arrival. No other destination wants these slots,
    /// so this destination counts as the one being served: others start at its level.
    pub(super) fn arrived(&mut self, destination: &Destination, slots: usize) {
        let had = self.had.get(&destination.name).copied().unwrap_or_default().max(self.level);
        self.level = had;
        self.had.insert(destination.name.clone(), had + cost(destination, slots));
        self.forget();
        if self.had.len() > REMEMBERED_MAX + self.queue.len() {
            // Too many destinations are above the level: all of them begin again at one level.
            self.level = self.had.values().copied().max().unwrap_or_default();
            self.forget();
        }
    }

    /// Forgets destinations that are not above the level, if too many are remembered.
    fn forget(&mut self) {
        if self.had.len() > REMEMBERED_MAX + self.queue.len() {
            let level = self.level;
            self.had.retain(|_, had| *had > level);
            self.claiming.retain(|name| self.had.contains_key(name));
        }
    }

    /// Charges the destination for slots.
    pub(super) fn took(&mut self, destination: &Destination, slots: usize) {
        let had = self.had.entry(destination.name.clone()).or_insert(self.level);
        *had += cost(destination, slots);
        self.claiming.insert(destination.name.clone());
    }

    /// Refunds slots that the destination could not use.
    pub(super) fn gave_back(&mut self, destination: &Destination, slots: usize) {
        if let Some(had) = self.had.get_mut(&destination.name) {
            *had = had.saturating_sub(cost(destination, slots));
        }
        if slots > 0 {
            // It has no more messages, so it saves up no turns.
            self.claiming.remove(&destination.name);
        }
    }
}

fn cost(destination: &Destination, slots: usize) -> u64 {
    (slots as u64 * SLOT).div_ceil(u64::from(destination.weight.max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn destination(name: &str, weight: u32) -> Destination {
        let name = name.parse().unwrap();
        Destination { weight, ..Destination::new(name, "http://h/") }
    }

    fn push(queue: &mut FairQueue, all: &[&Destination]) {
        all.iter().for_each(|one| queue.push(one.name.clone(), one.weight));
    }

    /// Who is served while slots free up one by one and all always have more to do.
    fn one_by_one(all: &[&Destination], count: usize) -> String {
        let mut queue = FairQueue::default();
        push(&mut queue, all);
        let mut served = String::new();
        for _ in 0..count {
            let (name, _) = queue.pop().unwrap();
            let destination = all.iter().find(|one| one.name == name).unwrap();
            served += name.as_str();
            queue.took(destination, 1);
            push(&mut queue, &[destination]);
        }
        served
    }

    #[test]
    fn slots_that_free_up_one_by_one_go_round_by_weight() {
        let (a, b, c) = (destination("a", 1), destination("b", 1), destination("c", 3));
        assert_eq!(one_by_one(&[&a, &b], 6), "ababab");
        let served = one_by_one(&[&a, &c], 40);
        assert_eq!(served.matches('c').count(), 30, "{served}");
        // No destination waits longer than a round.
        assert!(!served.contains("cccc"), "{served}");
    }

    #[test]
    fn free_slots_are_shared_by_weight_and_none_is_left() {
        let all = [destination("a", 1), destination("b", 2), destination("c", 5)];
        let mut queue = FairQueue::default();
        push(&mut queue, &all.each_ref());
        let mut free = 80;
        for (destination, expected) in all.iter().zip([10, 20, 50]) {
            let (name, weights) = queue.pop().unwrap();
            assert_eq!(name, destination.name);
            let share = destination.share(free, weights);
            assert_eq!(share, expected);
            free -= share;
        }
        assert_eq!((free, all[0].share(3, 8), all[0].share(1, 1000)), (0, 1, 1));
    }

    #[test]
    fn one_message_waits_one_turn_however_much_another_has() {
        let (heavy, light) = (destination("heavy", 1), destination("light", 1));
        let mut queue = FairQueue::default();
        for _ in 0..1000 {
            push(&mut queue, &[&heavy]);
            queue.pop().unwrap();
            queue.took(&heavy, 100);
        }
        // Both together: the heavy one has used so much that the light one is first.
        push(&mut queue, &[&heavy, &light]);
        assert_eq!(queue.pop().unwrap().0, light.name);
        // The idle one has saved nothing up: after one turn the other is level again.
        queue.took(&light, 1);
        queue.pop().unwrap();
        queue.took(&heavy, 1);
        push(&mut queue, &[&light, &heavy]);
        assert_eq!(queue.pop().unwrap().0, light.name);
        queue.took(&light, 200);
        push(&mut queue, &[&light]);
        assert_eq!(queue.pop().unwrap().0, heavy.name);
    }

    #[test]
    fn arrivals_that_begin_at_once_are_neither_debt_nor_credit() {
        let (a, b) = (destination("a", 1), destination("b", 1));
        let served = |queue: &mut FairQueue| {
            let mut served = String::new();
            push(queue, &[&a, &b]);
            for _ in 0..8 {
                let (name, _) = queue.pop().unwrap();
                served += name.as_str();
                let one = if name == a.name { &a } else { &b };
                queue.took(one, 1);
                push(queue, &[one]);
            }
            served
        };
        let mut busy = FairQueue::default();
        (0..1000).for_each(|_| busy.arrived(&a, 1));
        assert!(["abababab", "babababa"].contains(&&*served(&mut busy)));
        let mut idle = FairQueue::default();
        idle.arrived(&a, 1);
        for _ in 0..1000 {
            push(&mut idle, &[&b]);
            idle.pop().unwrap();
            idle.took(&b, 1);
        }
        let served = served(&mut idle);
        assert!(!served.contains("aaa") && !served.contains("bbb"), "{served}");
        for number in 0..3 * REMEMBERED_MAX {
            busy.arrived(&destination(&format!("d{number}"), 1), 1);
        }
        assert!(busy.had.len() <= REMEMBERED_MAX + busy.queue.len());
    }

    #[test]
    fn slots_that_were_not_used_cost_nothing() {
        let (a, b) = (destination("a", 1), destination("b", 1));
        let mut queue = FairQueue::default();
        queue.took(&a, 100);
        queue.gave_back(&a, 100);
        push(&mut queue, &[&a, &b]);
        assert_eq!(queue.pop().unwrap().0, a.name);
    }

    /// A destination whose claim is in flight is not in the queue, and must not lose its turns.
    #[test]
    fn weights_hold_while_claims_take_longer_than_a_slot() {
        let all = [destination("a", 1), destination("b", 2), destination("c", 5)];
        let mut queue = FairQueue::default();
        push(&mut queue, &all.each_ref());
        let (mut served, mut claims, mut random) = ([0; 3], [None; 3], 1_u32);
        for step in 0..40_000 {
            for (claim, destination) in claims.iter_mut().zip(&all) {
                if claim.take_if(|end| *end == step).is_some() {
                    push(&mut queue, &[destination]);
                }
            }
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let is_slot_free = random >> 31 == 0;
            if is_slot_free && let Some((name, _)) = queue.pop() {
                let at = all.iter().position(|destination| destination.name == name).unwrap();
                queue.took(&all[at], 1);
                served[at] += 1;
                claims[at] = Some(step + 2);
            }
        }
        let sum: u32 = served.iter().sum();
        for (count, destination) in served.iter().zip(&all) {
            let ideal = f64::from(sum) * f64::from(destination.weight) / 8.0;
            assert!((f64::from(*count) - ideal).abs() < 0.05 * ideal, "{served:?}");
        }
    }
}
