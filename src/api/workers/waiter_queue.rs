//! Who waits for messages in this process: first come, first served. And which destination was
//! served when, so that of several each has its turn.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::Notify;

use crate::domain::DestinationName;

/// A line of those who wait, for each destination.
#[derive(Default)]
pub(super) struct WaiterQueues {
    waiting: Mutex<HashMap<DestinationName, VecDeque<Arc<Notify>>>>,
}

/// A place in the lines of some destinations; whoever is behind moves up when it is dropped.
pub(super) struct WaiterTicket {
    lines: Arc<WaiterQueues>,
    names: Vec<DestinationName>,
    moved: Arc<Notify>,
}

impl WaiterQueues {
    /// Joins these lines, at their ends. Each name once.
    pub(super) fn join(self: &Arc<Self>, names: &[DestinationName]) -> WaiterTicket {
        let moved = Arc::new(Notify::new());
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        for name in names {
            waiting.entry(name.clone()).or_default().push_back(moved.clone());
        }
        WaiterTicket { lines: self.clone(), names: names.to_vec(), moved }
    }
}

impl WaiterTicket {
    /// True if nobody came before.
    pub(super) fn is_first(&self, name: &DestinationName) -> bool {
        let waiting = self.lines.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let first = waiting.get(name).and_then(|line| line.front());
        first.is_some_and(|first| Arc::ptr_eq(first, &self.moved))
    }

    /// Resolves when this has become the first of a line, perhaps since the last time.
    pub(super) async fn moved(&self) {
        self.moved.notified().await;
    }
}

impl Drop for WaiterTicket {
    fn drop(&mut self) {
        let mut waiting = self.lines.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        for name in &self.names {
            let Some(line) = waiting.get_mut(name) else { continue };
            let was_first = line.front().is_some_and(|first| Arc::ptr_eq(first, &self.moved));
            line.retain(|one| !Arc::ptr_eq(one, &self.moved));
            match line.front() {
                // There may be more than this one has taken.
                Some(next) if was_first => next.notify_one(),
                Some(_) => {}
                None => {
                    waiting.remove(name);
                }
            }
        }
    }
}

/// How many destinations are remembered that were served.
const REMEMBERED_MAX: usize = 1024;

/// When each destination was served last.
#[derive(Default)]
pub(super) struct Served {
    last: Mutex<(u64, HashMap<DestinationName, u64>)>,
}

impl Served {
    /// Puts the longest unserved first; those who never were stay in their order.
    pub(super) fn sort(&self, names: &mut [DestinationName]) {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        names.sort_by_key(|name| last.1.get(name).copied().unwrap_or_default());
    }

    /// It is served now.
    pub(super) fn note(&self, name: &DestinationName) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.0 += 1;
        let now = last.0;
        last.1.insert(name.clone(), now);
        if last.1.len() > REMEMBERED_MAX {
            // Who was served before all of these counts as never served: it comes first anyway.
            let oldest = now - REMEMBERED_MAX as u64 / 2;
            last.1.retain(|_, number| *number > oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn names(all: &[&str]) -> Vec<DestinationName> {
        all.iter().map(|name| name.parse().unwrap()).collect()
    }

    #[test]
    fn who_leaves_passes_the_turn_on_and_who_comes_back_is_last() {
        let lines = Arc::new(WaiterQueues::default());
        let [a, b, both] = [&["a"][..], &["b"], &["a", "b"]].map(names);
        let [first, second, third] = [&a, &both, &b].map(|names| lines.join(names));
        let is_first = |place: &WaiterTicket| [place.is_first(&a[0]), place.is_first(&b[0])];
        assert_eq!(is_first(&first), [true, false]);
        assert_eq!(is_first(&second), [false, true]);
        assert_eq!(is_first(&third), [false, false]);
        assert!(second.moved().now_or_never().is_none());
        drop(first);
        assert!(second.moved().now_or_never().is_some());
        let again = lines.join(&a);
        assert_eq!((is_first(&second), is_first(&again)), ([true, true], [false, false]));
        drop(second);
        for place in [&third, &again] {
            assert!(place.moved().now_or_never().is_some());
        }
        assert_eq!((is_first(&third), is_first(&again)), ([false, true], [true, false]));
    }

    #[test]
    fn who_leaves_from_the_middle_wakes_nobody() {
        let lines = Arc::new(WaiterQueues::default());
        let a = names(&["a"]);
        let [first, second, third] = [0; 3].map(|_| lines.join(&a));
        drop(second);
        assert!(third.moved().now_or_never().is_none());
        drop(first);
        assert!(third.moved().now_or_never().is_some());
        drop(third);
        assert!(lines.waiting.lock().unwrap().is_empty());
    }

    #[test]
    fn only_the_last_that_were_served_are_remembered() {
        let served = Served::default();
        let name = |number: usize| format!("d{number}").parse::<DestinationName>().unwrap();
        for number in 0..3 * REMEMBERED_MAX {
            served.note(&name(number));
        }
        assert!(served.last.lock().unwrap().1.len() <= REMEMBERED_MAX);
        let (newest, older) = (name(3 * REMEMBERED_MAX - 1), name(3 * REMEMBERED_MAX - 2));
        let mut all = [newest.clone(), name(0), older.clone()];
        served.sort(&mut all);
        assert_eq!(all, [name(0), older, newest]);
    }

    #[test]
    fn the_longest_unserved_comes_first() {
        let served = Served::default();
        let mut all = names(&["a", "b", "c"]);
        let mut order = String::new();
        for _ in 0..7 {
            served.sort(&mut all);
            order += all[0].as_str();
            served.note(&all[0]);
        }
        assert_eq!(order, "abcabca");
    }
}
