//! The queues of requests that wait for messages in this process: first come, first served. And how much each
//! destination was served, so that each gets its share by weight.

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

/// The place of a request in the queues of some destinations. Dropping it lets the next request move up.
pub(super) struct WaiterTicket {
    queues: Arc<WaiterQueues>,
    names: Vec<DestinationName>,
    pub(super) waiter: Arc<Waiter>,
}

impl WaiterQueues {
    /// Joins these queues at their ends. The names must be distinct.
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

    /// Reserves the first request in this queue that takes this many arrivals at once. Returns the request, and the
    /// number of the reservation.
    pub(super) fn reserve(
        &self,
        name: &DestinationName,
        count: usize,
    ) -> Option<(Arc<Waiter>, u64)> {
        let waiting = self.waiting.lock();
        let mut all = waiting.get(name)?.iter();
        all.find_map(|waiter| Some((waiter.clone(), waiter.reserve(count)?)))
    }
}

impl WaiterTicket {
    /// True if this request is first in the queue.
    pub(super) fn is_first(&self, name: &DestinationName) -> bool {
        let waiting = self.queues.waiting.lock();
        let first = waiting.get(name).and_then(|queue| queue.front());
        first.is_some_and(|first| Arc::ptr_eq(first, &self.waiter))
    }

    /// Resolves when this request is first in a queue; at once if it became first before.
    pub(super) async fn moved(&self) {
        self.waiter.moved.notified().await;
    }
}

impl Drop for WaiterTicket {
    fn drop(&mut self) {
        // Requeues messages that the request received meanwhile.
        drop(self.waiter.end());
        let mut waiting = self.queues.waiting.lock();
        for name in &self.names {
            let Some(queue) = waiting.get_mut(name) else { continue };
            let was_first = queue.front().is_some_and(|first| Arc::ptr_eq(first, &self.waiter));
            queue.retain(|one| !Arc::ptr_eq(one, &self.waiter));
            match queue.front() {
                // More messages may be waiting than this request took.
                Some(next) if was_first => next.moved.notify_one(),
                Some(_) => {}
                None => {
                    waiting.remove(name);
                }
            }
        }
    }
}

/// The most destinations whose service is remembered.
const REMEMBERED_MAX: usize = 1024;

/// The cost of one message of a destination of weight 1.
const MESSAGE: u64 = 1 << 20;

/// How much each destination was served, relative to its weight. A new or returning destination starts at the level of
/// the destination served last, as in the processor: no destination saves up service.
#[derive(Default)]
pub(super) struct Served {
    counts: Mutex<Counts>,
}

#[derive(Default)]
struct Counts {
    /// For each destination: its cost so far, and the number of the last time that it was served.
    had: HashMap<DestinationName, (u64, u64)>,
    /// The cost of the destination served last, before that service.
    level: u64,
    number: u64,
}

impl Counts {
    fn of(&self, name: &DestinationName) -> (u64, u64) {
        let (had, number) = self.had.get(name).copied().unwrap_or_default();
        (had.max(self.level), number)
    }
}

impl Served {
    /// Sorts the destinations: the least served, relative to weight, comes first; among equals, the longest unserved.
    pub(super) fn sort(&self, names: &mut [DestinationName]) {
        let counts = self.counts.lock();
        names.sort_by_cached_key(|name| counts.of(name));
    }

    /// Notes that this many messages of the destination are served now.
    pub(super) fn note(&self, name: &DestinationName, weight: u32, messages: usize) {
        let mut counts = self.counts.lock();
        counts.number += 1;
        let (now, (before, _)) = (counts.number, counts.of(name));
        let cost = (messages as u64 * MESSAGE).div_ceil(u64::from(weight.max(1)));
        counts.level = before;
        counts.had.insert(name.clone(), (before + cost, now));
        if counts.had.len() > REMEMBERED_MAX {
            // Destinations served before this number count as never served.
            let oldest = now - REMEMBERED_MAX as u64 / 2;
            counts.had.retain(|_, (_, number)| *number > oldest);
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
            served.note(&name(number), 1, 1);
        }
        assert!(served.counts.lock().had.len() <= REMEMBERED_MAX);
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
            served.note(&all[0], 1, 1);
        }
        assert_eq!(order, "abcabca");
    }

    #[test]
    fn workers_that_take_one_at_a_time_serve_by_weight() {
        let served = Served::default();
        let mut all = names(&["a", "b", "c"]);
        let mut order = String::new();
        for _ in 0..100 {
            served.sort(&mut all);
            order += all[0].as_str();
            served.note(&all[0], if all[0].as_str() == "c" { 8 } else { 1 }, 1);
        }
        assert_eq!(["a", "b", "c"].map(|name| order.matches(name).count()), [10, 10, 80]);
        // A new destination does not catch up on what it missed.
        let mut with_new = names(&["c", "new"]);
        let mut order = String::new();
        for _ in 0..20 {
            served.sort(&mut with_new);
            order += with_new[0].as_str();
            served.note(&with_new[0], 1, 1);
        }
        assert_eq!(order.matches("new").count(), 10, "{order}");
    }
}
