//! The destinations that a pod knows, by name and by partition, and the listeners for changes.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    ops::Bound,
    sync::Arc,
};

use parking_lot::Mutex;
use tokio::sync::{Notify, broadcast, watch};

use crate::entry::CatalogEntry;
use domain::DestinationName;

/// The most changed names that a slow listener may leave unread. With more, it must check all names.
const BACKLOG_MAX: usize = 4096;

/// All destinations that this pod knows. The cost of a change does not depend on their number.
#[derive(Default)]
pub(super) struct Names {
    pub(super) by_name: HashMap<DestinationName, Arc<CatalogEntry>>,
    by_partition: HashMap<u16, BTreeSet<DestinationName>>,
}

impl Names {
    /// Adds or replaces a destination. False if the same entry is already there.
    pub(super) fn insert(&mut self, entry: &Arc<CatalogEntry>) -> bool {
        let name = &entry.destination.name;
        if self.by_name.get(name).is_some_and(|held| held == entry) {
            return false;
        }
        self.by_partition.entry(entry.partition).or_default().insert(name.clone());
        self.by_name.insert(name.clone(), entry.clone());
        true
    }

    /// Removes a destination. False if it is not there.
    pub(super) fn remove(&mut self, name: &DestinationName) -> bool {
        let Some(held) = self.by_name.remove(name) else { return false };
        if let Some(names) = self.by_partition.get_mut(&held.partition) {
            names.remove(name);
        }
        true
    }

    /// The next destinations of these partitions after `after`, sorted by partition and name. At the end, fewer than
    /// `max`.
    fn some(
        &self,
        partitions: &BTreeSet<u16>,
        after: Option<&(u16, DestinationName)>,
        max: usize,
    ) -> Vec<Arc<CatalogEntry>> {
        let begin = after.map_or(0, |(partition, _)| *partition);
        let names = partitions.range(begin..).filter_map(|number| {
            let from = after.filter(|(partition, _)| partition == number);
            let from = from.map_or(Bound::Unbounded, |(_, name)| Bound::Excluded(name));
            Some(
                self.by_partition
                    .get(number)?
                    .range::<DestinationName, _>((from, Bound::Unbounded)),
            )
        });
        let entries = names.flatten().filter_map(|name| self.by_name.get(name).cloned());
        entries.take(max).collect()
    }
}

/// Iterates over the destinations of some partitions, a few per step. If there are very many, a query of all of them
/// at once would keep Redis busy.
#[derive(Debug, Default)]
pub struct Round {
    after: Option<(u16, DestinationName)>,
}

impl Round {
    /// Returns the next destinations, and whether the round is complete. After a complete round, the next call begins
    /// a new one.
    pub(super) fn next(
        &mut self,
        names: &Names,
        partitions: &[u16],
        max: usize,
    ) -> (Vec<Arc<CatalogEntry>>, bool) {
        let partitions = partitions.iter().copied().collect();
        let some = names.some(&partitions, self.after.as_ref(), max);
        let is_over = some.len() < max;
        let last = some.last().filter(|_| !is_over);
        self.after = last.map(|entry| (entry.partition, entry.destination.name.clone()));
        (some, is_over)
    }
}

/// The listeners for changes.
pub(super) struct Listeners {
    watched: Mutex<HashMap<DestinationName, Vec<Arc<Notify>>>>,
    changed: broadcast::Sender<DestinationName>,
    any: watch::Sender<Counts>,
}

/// The number of changes so far. May be too high, never too low.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Changes of destinations.
    pub destinations: u64,
    /// Changes of topics.
    pub topics: u64,
}

impl Default for Listeners {
    fn default() -> Self {
        Listeners {
            watched: Mutex::default(),
            changed: broadcast::channel(BACKLOG_MAX).0,
            any: watch::channel(Counts::default()).0,
        }
    }
}

impl Listeners {
    pub(super) fn notify(&self, name: &DestinationName) {
        let watched = self.watched.lock();
        watched.get(name).into_iter().flatten().for_each(|notify| notify.notify_one());
        drop(watched);
        // Sending fails only if there is no subscriber.
        let _ = self.changed.send(name.clone());
        self.any.send_modify(|counts| counts.destinations += 1);
    }

    pub(super) fn notify_topics(&self) {
        self.any.send_modify(|counts| counts.topics += 1);
    }

    pub(super) fn changes(&self) -> watch::Receiver<Counts> {
        self.any.subscribe()
    }

    pub(super) fn changed(&self) -> Changed {
        Changed { receiver: self.changed.subscribe() }
    }

    pub(super) fn watch(self: &Arc<Self>, name: &DestinationName) -> Watch {
        let notify = Arc::new(Notify::new());
        let mut watched = self.watched.lock();
        watched.entry(name.clone()).or_default().push(notify.clone());
        Watch { listeners: self.clone(), name: name.clone(), notify }
    }
}

/// Wakes up whenever one destination has changed or was removed. Stops when dropped.
pub struct Watch {
    listeners: Arc<Listeners>,
    name: DestinationName,
    notify: Arc<Notify>,
}

impl Watch {
    /// Resolves after a change, even if the change was before this call.
    pub async fn changed(&self) {
        self.notify.notified().await;
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut watched = self.listeners.watched.lock();
        if let Some(of_it) = watched.get_mut(&self.name) {
            of_it.retain(|notify| !Arc::ptr_eq(notify, &self.notify));
            if of_it.is_empty() {
                watched.remove(&self.name);
            }
        }
    }
}

/// The names that changed since the last call, for code that keeps state per destination.
pub struct Changed {
    receiver: broadcast::Receiver<DestinationName>,
}

/// Which names have changed.
pub enum ChangedNames {
    /// Only these.
    These(HashSet<DestinationName>),
    /// Unknown: more names have changed than the buffer holds.
    Any,
}

impl Changed {
    /// The names that changed since the last call.
    pub fn take(&mut self) -> ChangedNames {
        let mut names = HashSet::new();
        loop {
            match self.receiver.try_recv() {
                Ok(name) => drop(names.insert(name)),
                Err(broadcast::error::TryRecvError::Lagged(_)) => {
                    self.receiver = self.receiver.resubscribe();
                    return ChangedNames::Any;
                }
                Err(_) => return ChangedNames::These(names),
            }
        }
    }
}

impl ChangedNames {
    /// These names and the others.
    pub(super) fn and(self, others: ChangedNames) -> ChangedNames {
        match (self, others) {
            (ChangedNames::These(mut names), ChangedNames::These(others)) => {
                names.extend(others);
                ChangedNames::These(names)
            }
            _ => ChangedNames::Any,
        }
    }

    /// Removes from a map each entry whose name has changed and fails the test `stays`.
    pub fn sweep<V>(
        &self,
        map: &mut HashMap<DestinationName, V>,
        stays: impl Fn(&DestinationName) -> bool,
    ) {
        match self {
            ChangedNames::Any => map.retain(|name, _| stays(name)),
            ChangedNames::These(names) => {
                for name in names.iter().filter(|name| !stays(name)) {
                    map.remove(name);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Paused;
    use domain::Destination;

    fn entry(name: &str, partition: u16) -> Arc<CatalogEntry> {
        let destination = Destination::new(name.parse().unwrap(), "http://h/");
        Arc::new(CatalogEntry {
            destination,
            of_all_shards: None,
            version: 1,
            born: 1,
            partition,
            paused: Paused::default(),
        })
    }

    #[test]
    fn round_meets_each_destination_once_and_then_begins_again() {
        let mut names = Names::default();
        let all = [("a", 3), ("b", 1), ("c", 3), ("d", 2), ("e", 3), ("f", 7)];
        for (name, partition) in all {
            assert!(names.insert(&entry(name, partition)));
        }
        let mut round = Round::default();
        let mut next = |names: &Names| {
            let (some, is_over) = round.next(names, &[7, 1, 3], 2);
            let some: Vec<_> =
                some.iter().map(|entry| entry.destination.name.to_string()).collect();
            (some.join(""), is_over)
        };
        assert_eq!(next(&names), ("ba".into(), false));
        // Destinations that come or go do not disturb it.
        assert!(names.remove(&"a".parse().unwrap()));
        assert_eq!(next(&names), ("ce".into(), false));
        assert_eq!(next(&names), ("f".into(), true));
        assert_eq!(next(&names), ("bc".into(), false));
    }

    #[test]
    fn changed_names_remove_what_belongs_to_them_and_nothing_else() {
        let listeners = Listeners::default();
        let mut changed = listeners.changed();
        let names: Vec<DestinationName> =
            (0..BACKLOG_MAX + 10).map(|number| format!("d{number}").parse().unwrap()).collect();
        let mut kept: HashMap<_, _> = names.iter().map(|name| (name.clone(), ())).collect();
        listeners.notify(&names[1]);
        listeners.notify(&names[2]);
        let stays = |name: &DestinationName| *name == names[2];
        changed.take().sweep(&mut kept, stays);
        assert_eq!(kept.len(), names.len() - 1);
        assert!(!kept.contains_key(&names[1]));
        names.iter().for_each(|name| listeners.notify(name));
        changed.take().sweep(&mut kept, stays);
        assert_eq!(kept.into_keys().collect::<Vec<_>>(), [names[2].clone()]);
    }
}
