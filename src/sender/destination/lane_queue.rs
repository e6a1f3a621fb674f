//! Lanes that need attention, in turn: so that what happens to one lane costs no look at all.

use std::collections::{HashSet, VecDeque};

use super::LaneKey;

/// Lanes in line, each once.
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

    /// Puts back what was taken and whose turn it still is.
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
    fn each_stands_in_line_once_and_the_first_comes_first() {
        let mut line = LaneQueue::default();
        for key in ["a", "b", "a"] {
            line.push(&Some(key.to_owned()));
        }
        let first = line.pop().unwrap();
        line.push(&Some("a".to_owned()));
        line.push_front(Some("c".to_owned()));
        let rest: Vec<_> = std::iter::from_fn(|| line.pop()).flatten().collect();
        assert_eq!((first.as_deref(), rest), (Some("a"), vec!["c".into(), "b".into(), "a".into()]));
    }
}
