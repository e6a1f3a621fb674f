//! What Redis holds and cannot be used: keys of another type, answers that cannot be read, messages
//! without a whole record and body. It is logged once, and shown while it is so. The pod goes on with
//! all other places.

mod look;
mod types;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::time::Instant;

use super::{Store, StoreError, entry::CatalogEntry};
use crate::{domain::Sequence, faults::planted, telemetry};

/// The most calls, the most destinations with damaged messages, and the most of these messages of one
/// destination that are kept. What comes beyond is not shown until some of it is over.
const KEPT_MAX: usize = 100;
/// The most damaged messages of a destination that are named.
const NAMED_MAX: usize = 5;
/// The most keys of a call that are looked at for their type.
const KEYS_MAX: usize = 64;
/// A call that succeeds ends a failure only this long after it was last seen: where calls of one kind
/// are of several lanes, those of one may fail while the others succeed.
const OVER_AFTER: Duration = Duration::from_secs(5);
/// What nobody has called again for so long is forgotten, unless a look finds that it is still so.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(300);

/// What is damaged at one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damaged {
    /// The name of the destination, or a key that belongs to none.
    pub location: String,
    /// The script, or the command; or `messages`.
    pub call: String,
    /// What Redis answered, or which messages.
    pub problem: String,
}

/// What is damaged, by place.
#[derive(Default)]
pub(super) struct Damage {
    kept: Mutex<Kept>,
    /// How much there is, so that a call that succeeds has nothing to look for.
    count: AtomicUsize,
    /// Held by whoever looks whether it is still so.
    looking: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Kept {
    /// By place and call.
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
    /// Keys one of which has another type than it should; none where that is not why, or not known.
    suspects: Vec<String>,
}

/// Which messages of a destination are damaged, in words.
fn told(messages: &BTreeSet<Sequence>) -> String {
    let named = messages.iter().take(NAMED_MAX).map(u64::to_string).collect::<Vec<_>>().join(", ");
    let more = if messages.len() > NAMED_MAX { " …" } else { "" };
    let at_least = if messages.len() >= KEPT_MAX { " or more" } else { "" };
    format!("{}{at_least} cannot be read: {named}{more}", messages.len())
}

impl Damage {
    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, location: &str, call: &str, problem: &str, keys: Vec<String>) {
        if planted::is("damage_unnamed") {
            return;
        }
        let now = Instant::now();
        let suspects = if problem.contains("WRONGTYPE") { keys } else { Vec::new() };
        let at = (location.to_owned(), call.to_owned());
        let is_news = self.change(|kept| {
            if let Some(known) = kept.calls.get_mut(&at) {
                known.last = now;
                if known.suspects.len() < KEYS_MAX {
                    let others: Vec<_> =
                        suspects.into_iter().filter(|key| !known.suspects.contains(key)).collect();
                    known.suspects.extend(others);
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
                "what Redis holds there is damaged: calls fail for good"
            );
        }
    }

    /// Messages of this destination were met that cannot be read. Whoever met them has logged it.
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

    /// Changes what is kept, and tells what is new of it, or over.
    fn change<T>(&self, change: impl FnOnce(&mut Kept) -> T) -> T {
        let mut kept = self.lock();
        let before = kept.places();
        let changed = change(&mut kept);
        let after = kept.places();
        self.count.store(kept.len(), Ordering::Relaxed);
        // Under the lock: what is said last is then what is so.
        for location in after.difference(&before) {
            telemetry::damaged(location, true);
        }
        for location in before.difference(&after) {
            telemetry::damaged(location, false);
            tracing::info!(location, "nothing is known to be damaged there any more");
        }
        changed
    }
}

/// What a call was, and where.
pub(super) struct Called<'a> {
    pub(super) name: &'a str,
    pub(super) keys: &'a [Vec<u8>],
}

impl Called<'_> {
    /// The place and the call, as they are shown.
    fn shown(&self, store: &Store) -> (String, String) {
        let found = self.keys.iter().find_map(|key| store.keys().destination_of(key));
        let first = || String::from_utf8_lossy(self.keys.first().map_or(&[], Vec::as_slice));
        let location = found.map_or_else(|| first().into_owned(), str::to_owned);
        (location, self.name.to_owned())
    }

    /// The keys of which it is known what they should be, if they are not too many.
    fn suspects(&self, store: &Store) -> Vec<String> {
        if self.keys.len() > KEYS_MAX {
            return Vec::new();
        }
        let keys = self.keys.iter().filter_map(|key| String::from_utf8(key.clone()).ok());
        keys.filter(|key| types::expected(store.keys(), key).is_some()).collect()
    }
}

impl Store {
    /// Notes what a call came to, if it says that something is damaged or no longer is, or that the
    /// user lacks a right.
    pub(super) fn observe<T>(&self, called: Called<'_>, answer: &Result<T, StoreError>) {
        match answer {
            Ok(_) if !self.has_damage() => {}
            Ok(_) => {
                let (location, call) = called.shown(self);
                self.inner.damage.succeeded(&location, &call);
            }
            Err(StoreError::NoRights(_)) => self.inner.rights.was_refused(),
            Err(StoreError::Failed(problem) | StoreError::Unreadable(problem)) => {
                let (location, call) = called.shown(self);
                self.inner.damage.note(&location, &call, problem, called.suspects(self));
            }
            Err(_) => {}
        }
    }

    /// Notes of an answer that was read here whether it could be.
    pub(super) fn noted<T>(
        &self,
        known: &CatalogEntry,
        call: &str,
        answer: Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        if let Err(StoreError::Unreadable(problem)) = &answer {
            let location = known.destination.name.as_str();
            self.inner.damage.note(location, call, problem, Vec::new());
        }
        answer
    }

    /// A call served others, but not what needed these keys: one of them has another type.
    pub(super) fn note_damaged_keys(&self, known: &CatalogEntry, call: &str, keys: Vec<String>) {
        let problem = format!("WRONGTYPE one of {}", keys.join(", "));
        self.inner.damage.note(known.destination.name.as_str(), call, &problem, keys);
    }

    /// Messages were met that cannot be read.
    pub fn note_damaged_messages(&self, known: &CatalogEntry, sequences: &[Sequence]) {
        let location = known.destination.name.as_str();
        self.inner.damage.note_messages(location, sequences.iter().copied());
    }

    /// True if anything is known to be damaged.
    pub(super) fn has_damage(&self) -> bool {
        self.inner.damage.count.load(Ordering::Relaxed) > 0
    }

    /// What is known to be damaged just now, by place.
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
