//! Divides a limited number of places among names, so that no name takes all of them. A name is a destination or a
//! host. A place is an outgoing connection, a slot of a processor, a process of `jq`, or a look-up of a host name.
//!
//! ```text
//! nobody else waits  a name may have all; the last tenth only while it holds at most half of all
//! another waits      at most half of what the others leave, and at least 1; enforced as places are given back. With a
//!                    weight w: w of w + 1 parts
//! halves             as if another waited all the time: for places that a name may keep for hours
//! heavy              once a quarter is taken, one place each; never one of the last quarter
//! ```

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    hash::Hash,
    sync::Arc,
};

use metrics::{Gauge, gauge};
use parking_lot::Mutex;
use tokio::sync::oneshot;

/// The number of places that each name holds. No I/O.
#[derive(Debug)]
pub struct Shares<K> {
    all: usize,
    each_max: usize,
    always_halves: bool,
    /// May exceed `all`, because [`Shares::take`] takes places even if there is no room.
    taken: usize,
    held: HashMap<K, usize>,
}

impl<K: Hash + Eq + Clone> Shares<K> {
    /// Divides this many places. Each name may hold at most `each_max` of them.
    pub fn new(all: usize, each_max: usize) -> Shares<K> {
        Shares { all, each_max, always_halves: false, taken: 0, held: HashMap::new() }
    }

    /// The same shares, but a name never holds more than half of the places that the others leave.
    pub fn halves(self) -> Shares<K> {
        Shares { always_halves: true, ..self }
    }

    /// The number of places.
    pub fn all(&self) -> usize {
        self.all
    }

    /// The number of free places.
    pub fn free(&self) -> usize {
        self.all.saturating_sub(self.taken)
    }

    /// The number of taken places.
    pub fn taken(&self) -> usize {
        self.taken
    }

    /// The number of places that this name holds.
    pub fn taken_by(&self, name: &K) -> usize {
        self.held.get(name).copied().unwrap_or_default()
    }

    /// The number of further places that this name may take now. `is_heavy`: the name may keep them for long.
    pub fn room(&self, name: &K, others_wait: bool, is_heavy: bool) -> usize {
        self.weighted_room(name, 1, others_wait, is_heavy)
    }

    /// The same for a name with a weight. If all names take as many places as they may, they hold places by weight.
    pub fn weighted_room(&self, name: &K, weight: u32, others_wait: bool, is_heavy: bool) -> usize {
        let held = self.taken_by(name);
        let left = self.all.saturating_sub(self.taken - held);
        let mut most = if self.always_halves || others_wait {
            (left * weight as usize / (weight as usize + 1)).max(1)
        } else {
            left.saturating_sub(self.all.div_ceil(10)).max(left.min(self.all / 2 + 1))
        };
        if is_heavy {
            most = if self.taken < self.all.div_ceil(4) { most } else { 1 };
            most = most.min(left.saturating_sub(self.all / 4));
        }
        most.min(self.each_max).saturating_sub(held).min(self.free())
    }

    /// Takes places, even if there is no room.
    pub fn take(&mut self, name: &K, places: usize) {
        self.taken += places;
        *self.held.entry(name.clone()).or_default() += places;
    }

    /// Gives places back.
    pub fn give_back(&mut self, name: &K, places: usize) {
        if let Some(held) = self.held.get_mut(name) {
            self.taken -= places.min(*held);
            *held = held.saturating_sub(places);
            if *held == 0 {
                self.held.remove(name);
            }
        }
    }
}

/// [`Shares`] with a queue for each name: names take places in turn. Cheap to clone.
pub struct FairShare<K: Hash + Eq + Clone>(Arc<Mutex<Queues<K>>>);

impl<K: Hash + Eq + Clone> Clone for FairShare<K> {
    fn clone(&self) -> Self {
        FairShare(self.0.clone())
    }
}

/// A waiting task: true if it may keep its place for long, and the channel for its place.
type Waiter<K> = (bool, oneshot::Sender<Place<K>>);

struct Queues<K: Hash + Eq + Clone> {
    shares: Shares<K>,
    /// For each name: the waiting tasks, in order of arrival.
    waiting: HashMap<K, BTreeMap<u64, Waiter<K>>>,
    /// The waiting names, in the order of their turns.
    turns: VecDeque<K>,
    number: u64,
    /// The metrics: taken places, and waiting tasks.
    gauges: [Gauge; 2],
}

/// A place. Dropping this gives the place back.
pub struct Place<K: Hash + Eq + Clone> {
    of: FairShare<K>,
    name: K,
}

impl<K: Hash + Eq + Clone> Drop for Place<K> {
    fn drop(&mut self) {
        let mut queues = self.of.0.lock();
        queues.shares.give_back(&self.name, 1);
        queues.gauges[0].decrement(1);
        let unsent = queues.serve(&self.of);
        drop(queues);
        // Dropping a place locks the queues, so unlock first.
        drop(unsent);
    }
}

/// A task in the queue. Dropping this removes it from the queue.
struct Waiting<'a, K: Hash + Eq + Clone> {
    of: &'a FairShare<K>,
    name: &'a K,
    number: u64,
}

impl<K: Hash + Eq + Clone> Drop for Waiting<'_, K> {
    fn drop(&mut self) {
        let mut queues = self.of.0.lock();
        queues.leave(self.name, self.number);
        let unsent = queues.serve(self.of);
        drop(queues);
        drop(unsent);
    }
}

impl<K: Hash + Eq + Clone> FairShare<K> {
    /// Divides these places. `of` is their label in metrics.
    pub fn new(of: &'static str, shares: Shares<K>) -> FairShare<K> {
        gauge!("reseq_places_max", "of" => of).set(shares.all() as f64);
        let gauges =
            [gauge!("reseq_places_taken", "of" => of), gauge!("reseq_places_waiting", "of" => of)];
        let (waiting, turns) = (HashMap::new(), VecDeque::new());
        FairShare(Arc::new(Mutex::new(Queues { shares, waiting, turns, number: 0, gauges })))
    }

    /// Waits for a place.
    pub async fn take(&self, name: &K) -> Place<K> {
        self.take_as(name, false).await
    }

    /// Waits for a place. `is_heavy`: the caller may keep it for long.
    pub async fn take_as(&self, name: &K, is_heavy: bool) -> Place<K> {
        let (waiting, place) = {
            let mut queues = self.0.lock();
            let others_wait = queues.others_wait(name);
            if !queues.waiting.contains_key(name)
                && queues.shares.room(name, others_wait, is_heavy) > 0
            {
                queues.shares.take(name, 1);
                queues.gauges[0].increment(1);
                return Place { of: self.clone(), name: name.clone() };
            }
            let (sender, place) = oneshot::channel();
            queues.number += 1;
            queues.gauges[1].increment(1);
            let number = queues.number;
            if !queues.waiting.contains_key(name) {
                queues.turns.push_back(name.clone());
            }
            queues.waiting.entry(name.clone()).or_default().insert(number, (is_heavy, sender));
            (Waiting { of: self, name, number }, place)
        };
        let place = place.await;
        drop(waiting);
        match place {
            Ok(place) => place,
            // This cannot happen: the queue keeps every channel until it has sent a place.
            Err(_) => std::future::pending().await,
        }
    }

    /// The number of tasks that wait for a place, by name.
    pub fn waiting(&self) -> HashMap<K, usize> {
        let queues = self.0.lock();
        queues.waiting.iter().map(|(name, queue)| (name.clone(), queue.len())).collect()
    }

    /// The number of taken places.
    pub fn taken(&self) -> usize {
        self.0.lock().shares.taken()
    }
}

impl<K: Hash + Eq + Clone> Queues<K> {
    fn others_wait(&self, name: &K) -> bool {
        self.waiting.len() > usize::from(self.waiting.contains_key(name))
    }

    fn leave(&mut self, name: &K, number: u64) {
        let Some(queue) = self.waiting.get_mut(name) else { return };
        if queue.remove(&number).is_some() {
            self.gauges[1].decrement(1);
        }
        if queue.is_empty() {
            self.waiting.remove(name);
            self.turns.retain(|other| other != name);
        }
    }

    /// Gives free places to waiting tasks, one name after the other. Returns places whose tasks have ended.
    fn serve(&mut self, of: &FairShare<K>) -> Vec<Place<K>> {
        let (mut passed, mut unsent) = (0, Vec::new());
        while passed < self.turns.len() && self.shares.free() > 0 {
            let Some(name) = self.turns.pop_front() else { break };
            self.turns.push_back(name.clone());
            let others_wait = self.others_wait(&name);
            let queue = self.waiting.get_mut(&name);
            let first = queue.and_then(|queue| {
                let first = queue.first_entry()?;
                let has_room = self.shares.room(&name, others_wait, first.get().0) > 0;
                has_room.then(|| first.remove_entry())
            });
            let Some((number, (_, sender))) = first else {
                passed += 1;
                continue;
            };
            passed = 0;
            self.shares.take(&name, 1);
            self.gauges[0].increment(1);
            self.gauges[1].decrement(1);
            let place = Place { of: of.clone(), name: name.clone() };
            unsent.extend(sender.send(place).err());
            self.leave(&name, number);
        }
        unsent
    }
}

#[cfg(test)]
mod tests;
