//! Lanes in the order in which they get their turn.

use std::collections::{HashSet, VecDeque};

use super::LaneKey;

/// A queue that holds each lane at most once.
#[derive(Default)]
pub(super) struct LaneQueue {
    order: VecDeque<LaneKey>,
    members: HashSet<LaneKey>,
}

impl LaneQueue {
    pub(super) fn push(&mut self, key: &LaneKey) {
        if self.members.insert(key.clone()) {
            self.order.push_back(key.clone());
        }
    }

    /// Returns a lane that was popped to the front.
    pub(super) fn push_front(&mut self, key: LaneKey) {
        if self.members.insert(key.clone()) {
            self.order.push_front(key);
        }
    }

    pub(super) fn pop(&mut self) -> Option<LaneKey> {
        let key = self.order.pop_front()?;
        self.members.remove(&key);
        Some(key)
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
}
