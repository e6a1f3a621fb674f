//! Calls that fail for good: what Redis holds at one place is damaged. It is logged once, and shown
//! until calls of that kind succeed there again. The pod goes on with all other places.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::time::Instant;

use super::{Store, StoreError};
use crate::telemetry;

/// The most that is kept. What comes beyond is neither logged nor shown until some of it is over.
const KEPT_MAX: usize = 100;
/// A call that succeeds ends a failure only this long after it was last seen: where calls of one kind
/// are of several lanes, those of one may fail while the others succeed.
const OVER_AFTER: Duration = Duration::from_secs(5);
/// What nobody has called again for so long is forgotten.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(300);

/// What fails at one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damaged {
    /// The name of the destination, or a key that belongs to none.
    pub place: String,
    /// The script, or the command.
    pub call: String,
    /// What Redis answered.
    pub problem: String,
}

/// What fails, by place and call.
#[derive(Default)]
pub(super) struct Damage {
    all: Mutex<BTreeMap<(String, String), Failure>>,
    /// How many there are, so that a call that succeeds has nothing to look for.
    count: AtomicUsize,
}

struct Failure {
    problem: String,
    last: Instant,
}

impl Damage {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<(String, String), Failure>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, place: &str, call: &str, problem: &str) {
        let now = Instant::now();
        let mut all = self.lock();
        let at = (place.to_owned(), call.to_owned());
        if let Some(known) = all.get_mut(&at) {
            known.last = now;
            return;
        }
        self.forget(&mut all, |_, failure| failure.last.elapsed() < FORGOTTEN_AFTER);
        if all.len() == KEPT_MAX {
            return;
        }
        all.insert(at, Failure { problem: problem.to_owned(), last: now });
        self.count.store(all.len(), Ordering::Relaxed);
        drop(all);
        telemetry::damaged(place, true);
        tracing::error!(
            place,
            call,
            problem,
            "what Redis holds there is damaged: calls fail for good"
        );
    }

    fn succeeded(&self, place: &str, call: &str) {
        let mut all = self.lock();
        self.forget(&mut all, |(of, kind), failure| {
            of != place || kind != call || failure.last.elapsed() < OVER_AFTER
        });
    }

    fn forget(
        &self,
        all: &mut BTreeMap<(String, String), Failure>,
        stays: impl Fn(&(String, String), &Failure) -> bool,
    ) {
        let before: BTreeSet<String> = all.keys().map(|(place, _)| place.clone()).collect();
        all.retain(|at, failure| stays(at, failure));
        self.count.store(all.len(), Ordering::Relaxed);
        for place in before {
            if !all.keys().any(|(other, _)| *other == place) {
                telemetry::damaged(&place, false);
                tracing::info!(place, "calls succeed there again, or nobody makes any");
            }
        }
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
        let place = found.map_or_else(|| first().into_owned(), str::to_owned);
        (place, self.name.to_owned())
    }
}

impl Store {
    /// Notes what a call came to, if it says that something is damaged or no longer is, or that the
    /// user lacks a right.
    pub(super) fn observe<T>(&self, called: Called<'_>, answer: &Result<T, StoreError>) {
        match answer {
            Ok(_) if !self.has_damage() => {}
            Ok(_) => {
                let (place, call) = called.shown(self);
                self.inner.damage.succeeded(&place, &call);
            }
            Err(StoreError::NoRights(_)) => self.inner.rights.was_refused(),
            Err(StoreError::Failed(problem)) => {
                let (place, call) = called.shown(self);
                self.inner.damage.note(&place, &call, problem);
            }
            Err(_) => {}
        }
    }

    /// True if anything fails for good.
    pub(super) fn has_damage(&self) -> bool {
        self.inner.damage.count.load(Ordering::Relaxed) > 0
    }

    /// What fails for good just now, by place.
    pub fn damaged(&self) -> Vec<Damaged> {
        let mut all = self.inner.damage.lock();
        self.inner.damage.forget(&mut all, |_, failure| failure.last.elapsed() < FORGOTTEN_AFTER);
        let shown = |((place, call), failure): (&(String, String), &Failure)| Damaged {
            place: place.clone(),
            call: call.clone(),
            problem: failure.problem.clone(),
        };
        all.iter().map(shown).collect()
    }
}
