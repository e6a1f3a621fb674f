//! Damaged data in Redis: keys of the wrong type, unreadable answers, messages whose record or body is missing or
//! damaged. The pod logs each case once, shows it as long as it lasts, and continues with all other destinations.

mod look;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::time::Instant;

use super::{Store, StoreError, entry::CatalogEntry, key_types};
use domain::Sequence;

/// The most calls to remember, the most destinations with damaged messages, and the most messages of each such
/// destination. With more, new damage is recorded only after some of it has ended.
const KEPT_MAX: usize = 100;
/// The most damaged messages of a destination that are listed by sequence.
const NAMED_MAX: usize = 5;
/// If a call has more keys than this, the types of its keys are not checked.
const KEYS_MAX: usize = 64;
/// A success clears an earlier failure only if the failure is this old. Calls of one kind serve several lanes, so
/// calls for one lane may fail while others succeed.
const OVER_AFTER: Duration = Duration::from_secs(5);
/// A failure is forgotten if no call repeats it, and no check confirms it, for this long.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(300);

/// The damage of one destination or key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damaged {
    /// The name of the destination, or a key that belongs to no destination.
    pub location: String,
    /// The name of the script or command, or `messages`.
    pub call: String,
    /// The error from Redis, or a list of the damaged messages.
    pub problem: String,
}

/// All known damage, by location.
#[derive(Default)]
pub(super) struct Damage {
    kept: Mutex<Kept>,
    /// The number of entries: a successful call skips the lock when it is 0.
    count: AtomicUsize,
    /// The task that checks whether damage still exists holds this lock.
    looking: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Kept {
    /// By location and call.
    calls: BTreeMap<(String, String), Failure>,
    /// By destination.
    messages: BTreeMap<String, BTreeSet<Sequence>>,
}

impl Kept {
    fn places(&self) -> BTreeSet<String> {
        self.calls
            .keys()
            .map(|(location, _)| location)
            .chain(self.messages.keys())
            .cloned()
            .collect()
    }

    fn len(&self) -> usize {
        self.calls.len() + self.messages.len()
    }
}

struct Failure {
    problem: String,
    last: Instant,
    /// Keys that may have the wrong type. Empty if a wrong type is not the cause, or if the cause is unknown.
    suspects: Vec<String>,
}

/// Describes the damaged messages of a destination as text.
fn told(messages: &BTreeSet<Sequence>) -> String {
    let named = messages.iter().take(NAMED_MAX).map(u64::to_string).collect::<Vec<_>>().join(", ");
    let more = if messages.len() > NAMED_MAX { " …" } else { "" };
    let at_least = if messages.len() >= KEPT_MAX { " or more" } else { "" };
    format!("{}{at_least} cannot be read: {named}{more}", messages.len())
}

impl Damage {
    fn note(&self, location: &str, call: &str, problem: &str, suspects: Vec<String>) {
        let now = Instant::now();
        let at = (location.to_owned(), call.to_owned());
        let is_news = self.change(|kept| {
            if let Some(entry) = kept.calls.get_mut(&at) {
                entry.last = now;
                if entry.suspects.len() < KEYS_MAX {
                    let others: Vec<_> =
                        suspects.into_iter().filter(|key| !entry.suspects.contains(key)).collect();
                    entry.suspects.extend(others);
                }
                return false;
            }
            kept.calls.retain(|_, failure| failure.last.elapsed() < FORGOTTEN_AFTER);
            if kept.calls.len() == KEPT_MAX {
                return false;
            }
            kept.calls.insert(at, Failure { problem: problem.to_owned(), last: now, suspects });
            true
        });
        if is_news {
            tracing::error!(
                location,
                call,
                problem,
                "data in Redis is damaged: these calls fail until it is repaired"
            );
        }
    }

    /// Records unreadable messages of a destination. The caller has logged them.
    fn note_messages(&self, location: &str, sequences: impl IntoIterator<Item = Sequence>) {
        self.change(|kept| {
            if kept.messages.len() == KEPT_MAX && !kept.messages.contains_key(location) {
                return;
            }
            for sequence in sequences {
                let all = kept.messages.entry(location.to_owned()).or_default();
                if all.len() < KEPT_MAX {
                    all.insert(sequence);
                }
            }
        });
    }

    fn succeeded(&self, location: &str, call: &str) {
        self.change(|kept| {
            kept.calls.retain(|(of, kind), failure| {
                of != location || kind != call || failure.last.elapsed() < OVER_AFTER
            });
        });
    }

    /// Changes the entries, then logs and counts the locations that were added or removed.
    fn change<T>(&self, change: impl FnOnce(&mut Kept) -> T) -> T {
        let mut kept = self.kept.lock();
        let before = kept.places();
        let changed = change(&mut kept);
        let after = kept.places();
        self.count.store(kept.len(), Ordering::Relaxed);
        // Report under the lock, so that the last report matches the final state.
        for location in after.difference(&before) {
            telemetry::damaged(location, true);
        }
        for location in before.difference(&after) {
            telemetry::damaged(location, false);
            tracing::info!(location, "no damage is known there any more");
        }
        changed
    }
}

/// A call and its keys.
pub(super) struct Called<'a> {
    pub(super) name: &'a str,
    pub(super) keys: &'a [Vec<u8>],
}

impl Called<'_> {
    /// The location and the name of the call, for display.
    fn shown(&self, store: &Store) -> (String, String) {
        let found = self.keys.iter().find_map(|key| store.keys().destination_of(key));
        let first = || String::from_utf8_lossy(self.keys.first().map_or(&[], Vec::as_slice));
        let location = found.map_or_else(|| first().into_owned(), str::to_owned);
        (location, self.name.to_owned())
    }

    /// The keys whose right type is known. Empty if there are too many keys.
    fn suspects(&self, store: &Store) -> Vec<String> {
        if self.keys.len() > KEYS_MAX {
            return Vec::new();
        }
        let keys = self.keys.iter().filter_map(|key| String::from_utf8(key.clone()).ok());
        keys.filter(|key| key_types::expected(store.keys(), key).is_some()).collect()
    }
}

impl Store {
    /// Records the outcome of a call if it shows damage, the end of damage, or a refusal by Redis.
    pub(super) fn observe<T>(&self, called: Called<'_>, answer: &Result<T, StoreError>) {
        match answer {
            Ok(_) if !self.has_damage() => {}
            Ok(_) => {
                let (location, call) = called.shown(self);
                self.inner.damage.succeeded(&location, &call);
            }
            Err(
                StoreError::NoRights(_) | StoreError::LostRights(_) | StoreError::RefusesWrites(_),
            ) => self.inner.rights.was_refused(),
            Err(StoreError::WrongType(wrong)) => {
                let (location, call) = called.shown(self);
                let problem = wrong.to_string();
                self.inner.damage.note(&location, &call, &problem, vec![wrong.key.clone()]);
            }
            Err(StoreError::Failed(problem) | StoreError::Unreadable(problem)) => {
                let (location, call) = called.shown(self);
                let is_type = problem.contains("WRONGTYPE");
                let suspects = if is_type { called.suspects(self) } else { Vec::new() };
                self.inner.damage.note(&location, &call, problem, suspects);
            }
            Err(_) => {}
        }
    }

    /// Records damage if the answer could not be read.
    pub(super) fn noted<T>(
        &self,
        entry: &CatalogEntry,
        call: &str,
        answer: Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        if let Err(StoreError::Unreadable(problem)) = &answer {
            let location = entry.destination.name.as_str();
            self.inner.damage.note(location, call, problem, Vec::new());
        }
        answer
    }

    /// Records messages that cannot be read.
    pub fn note_damaged_messages(&self, entry: &CatalogEntry, sequences: &[Sequence]) {
        let location = entry.destination.name.as_str();
        self.inner.damage.note_messages(location, sequences.iter().copied());
    }

    /// True if any damage is known.
    pub(super) fn has_damage(&self) -> bool {
        self.inner.damage.count.load(Ordering::Relaxed) > 0
    }

    /// All known damage, by location.
    pub fn damaged(&self) -> Vec<Damaged> {
        self.inner.damage.change(|kept| {
            kept.calls.retain(|_, failure| failure.last.elapsed() < FORGOTTEN_AFTER);
            let calls = kept.calls.iter().map(|((location, call), failure)| Damaged {
                location: location.clone(),
                call: call.clone(),
                problem: failure.problem.clone(),
            });
            let messages = kept.messages.iter().map(|(location, messages)| Damaged {
                location: location.clone(),
                call: "messages".to_owned(),
                problem: told(messages),
            });
            calls.chain(messages).collect()
        })
    }
}
