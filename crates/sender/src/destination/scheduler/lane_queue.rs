//! A queue of lanes, in the order of their turns.

use std::collections::{HashSet, VecDeque};

use super::LaneKey;

/// At least this many removed lanes may stay in `order`, even in a short queue.
const REMOVED_MAX: usize = 64;

/// A queue that holds each lane at most once.
#[derive(Default)]
pub(super) struct LaneQueue {
    /// The lanes in order. Some may have been removed: they are not in `members` any more.
    order: VecDeque<LaneKey>,
    members: HashSet<LaneKey>,
}

impl LaneQueue {
    pub(super) fn push(&mut self, key: &LaneKey) {
        if self.members.insert(key.clone()) {
            self.order.push_back(key.clone());
        }
    }

    /// Puts a popped lane back at the front.
    pub(super) fn push_front(&mut self, key: LaneKey) {
        if self.members.insert(key.clone()) {
            self.order.push_front(key);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    pub(super) fn pop(&mut self) -> Option<LaneKey> {
        while let Some(key) = self.order.pop_front() {
            if self.members.remove(&key) {
                return Some(key);
            }
        }
        None
    }

    /// Removes a lane. Some removed lanes stay in `order`, so that few removals search all of it.
    pub(super) fn remove(&mut self, key: &LaneKey) {
        if self.members.remove(key) && self.order.len() > 2 * self.members.len() + REMOVED_MAX {
            let mut seen = HashSet::new();
            self.order.retain(|key| self.members.contains(key) && seen.insert(key.clone()));
        }
    }
}

/// Two queues, served in turn so that neither starves: lanes that go first, and other lanes. A
/// lane is in at most one queue.
#[derive(Default)]
pub(super) struct LaneQueues {
    first: LaneQueue,
    others: LaneQueue,
    /// True if the last popped lane came from the queue of the lanes that go first.
    was_first: bool,
}

impl LaneQueues {
    /// Adds the lane to one of the queues. If it goes first, removes it from the queue of the others.
    pub(super) fn push(&mut self, key: &LaneKey, goes_first: bool) {
        if goes_first {
            self.others.remove(key);
            self.first.push(key);
        } else if !self.first.members.contains(key) {
            self.others.push(key);
        }
    }

    /// Puts a popped lane back at the front of the first queue.
    pub(super) fn push_front(&mut self, key: LaneKey) {
        self.others.remove(&key);
        self.first.push_front(key);
    }

    pub(super) fn len(&self) -> usize {
        self.first.members.len() + self.others.members.len()
    }

    pub(super) fn pop(&mut self) -> Option<LaneKey> {
        let LaneQueues { first, others, was_first } = self;
        let (one, other) = if *was_first { (others, first) } else { (first, others) };
        let key = one.pop();
        *was_first = if key.is_some() { !*was_first } else { *was_first };
        key.or_else(|| other.pop())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_lane_is_queued_once_and_the_first_comes_first() {
        let mut queue = LaneQueue::default();
        for key in ["a", "b", "a"] {
            queue.push(&Some(key.to_owned()));
        }
        let first = queue.pop().unwrap();
        queue.push(&Some("a".to_owned()));
        queue.push_front(Some("c".to_owned()));
        let rest: Vec<_> = std::iter::from_fn(|| queue.pop()).flatten().collect();
        assert_eq!((first.as_deref(), rest), (Some("a"), vec!["c".into(), "b".into(), "a".into()]));
    }

    #[test]
    fn removed_lanes_are_not_returned_and_do_not_pile_up() {
        let mut queue = LaneQueue::default();
        queue.push(&Some("stays".to_owned()));
        for number in 0..10_000 {
            let key = Some(number.to_string());
            queue.push(&key);
            queue.remove(&key);
            queue.remove(&key);
            assert!(queue.order.len() <= REMOVED_MAX + 3, "{}", queue.order.len());
        }
        assert_eq!((queue.pop(), queue.pop()), (Some(Some("stays".to_owned())), None));
        for _ in 0..1_000 {
            queue.push(&None);
            queue.remove(&None);
        }
        queue.push(&None);
        assert_eq!((queue.pop(), queue.pop()), (Some(None), None));
    }
}
