//! The requests that wait for messages in this process, first come, first served; and when each
//! destination was last served, so that each has its turn.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use super::on_arrival::Waiter;
use domain::DestinationName;
use parking_lot::Mutex;

/// A queue of waiting requests for each destination.
#[derive(Default)]
pub(super) struct WaiterQueues {
    waiting: Mutex<HashMap<DestinationName, VecDeque<Arc<Waiter>>>>,
}

/// A request's place in the queues of some destinations. Dropping it lets the next move up.
pub(super) struct WaiterTicket {
    queues: Arc<WaiterQueues>,
    names: Vec<DestinationName>,
    pub(super) waiter: Arc<Waiter>,
}

impl WaiterQueues {
    /// Joins these queues at their ends. Each name must occur once.
    pub(super) fn join(
        self: &Arc<Self>,
        names: &[DestinationName],
        waiter: Waiter,
    ) -> WaiterTicket {
        let waiter = Arc::new(waiter);
        let mut waiting = self.waiting.lock();
        for name in names {
            waiting.entry(name.clone()).or_default().push_back(waiter.clone());
        }
        WaiterTicket { queues: self.clone(), names: names.to_vec(), waiter }
    }

    /// The first request in this queue that takes arrivals, so many at once.
    pub(super) fn reserve(&self, name: &DestinationName, count: usize) -> Option<Arc<Waiter>> {
        let waiting = self.waiting.lock();
        waiting.get(name)?.iter().find(|waiter| waiter.reserve(count)).cloned()
    }
}

impl WaiterTicket {
    /// True if this request is first in the queue.
    pub(super) fn is_first(&self, name: &DestinationName) -> bool {
        let waiting = self.queues.waiting.lock();
        let first = waiting.get(name).and_then(|queue| queue.front());
        first.is_some_and(|first| Arc::ptr_eq(first, &self.waiter))
    }

    /// Resolves once this is first in a queue; at once if it already became first.
    pub(super) async fn moved(&self) {
        self.waiter.moved.notified().await;
    }
}

impl Drop for WaiterTicket {
    fn drop(&mut self) {
        // What it was given meanwhile is requeued.
        drop(self.waiter.end());
        let mut waiting = self.queues.waiting.lock();
        for name in &self.names {
            let Some(queue) = waiting.get_mut(name) else { continue };
            let was_first = queue.front().is_some_and(|first| Arc::ptr_eq(first, &self.waiter));
            queue.retain(|one| !Arc::ptr_eq(one, &self.waiter));
            match queue.front() {
                // More messages may be waiting than this one took.
                Some(next) if was_first => next.moved.notify_one(),
                Some(_) => {}
                None => {
                    waiting.remove(name);
                }
            }
        }
    }
}

/// How many served destinations are remembered.
const REMEMBERED_MAX: usize = 1024;

/// When each destination was last served.
#[derive(Default)]
pub(super) struct Served {
    last: Mutex<(u64, HashMap<DestinationName, u64>)>,
}

impl Served {
    /// Sorts the longest unserved first; those never served keep their order.
    pub(super) fn sort(&self, names: &mut [DestinationName]) {
        let last = self.last.lock();
        names.sort_by_key(|name| last.1.get(name).copied().unwrap_or_default());
    }

    /// Notes that the destination is served now.
    pub(super) fn note(&self, name: &DestinationName) {
        let mut last = self.last.lock();
        last.0 += 1;
        let now = last.0;
        last.1.insert(name.clone(), now);
        if last.1.len() > REMEMBERED_MAX {
            // Older ones count as never served, which also sorts them first.
            let oldest = now - REMEMBERED_MAX as u64 / 2;
            last.1.retain(|_, number| *number > oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn join(lines: &Arc<WaiterQueues>, names: &[DestinationName]) -> WaiterTicket {
        lines.join(names, Waiter::default())
    }

    fn names(all: &[&str]) -> Vec<DestinationName> {
        all.iter().map(|name| name.parse().unwrap()).collect()
    }

    #[test]
    fn who_leaves_passes_the_turn_on_and_who_comes_back_is_last() {
        let lines = Arc::new(WaiterQueues::default());
        let [a, b, both] = [&["a"][..], &["b"], &["a", "b"]].map(names);
        let [first, second, third] = [&a, &both, &b].map(|names| join(&lines, names));
        let is_first = |place: &WaiterTicket| [place.is_first(&a[0]), place.is_first(&b[0])];
        assert_eq!(is_first(&first), [true, false]);
        assert_eq!(is_first(&second), [false, true]);
        assert_eq!(is_first(&third), [false, false]);
        assert!(second.moved().now_or_never().is_none());
        drop(first);
        assert!(second.moved().now_or_never().is_some());
        let again = join(&lines, &a);
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
        let [first, second, third] = [0; 3].map(|_| join(&lines, &a));
        drop(second);
        assert!(third.moved().now_or_never().is_none());
        drop(first);
        assert!(third.moved().now_or_never().is_some());
        drop(third);
        assert!(lines.waiting.lock().is_empty());
    }

    #[test]
    fn only_the_last_that_were_served_are_remembered() {
        let served = Served::default();
        let name = |number: usize| format!("d{number}").parse::<DestinationName>().unwrap();
        for number in 0..3 * REMEMBERED_MAX {
            served.note(&name(number));
        }
        assert!(served.last.lock().1.len() <= REMEMBERED_MAX);
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
