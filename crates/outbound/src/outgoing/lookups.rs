//! Look-ups of host names: one of a name at a time, a limited number, and none longer than five seconds.
//!
//! A new name that is not answered within a second is *silent* until it is found: its look-ups leave places to those of
//! all other names, so that a new name does not wait behind silent ones.

use std::{
    collections::HashMap,
    io,
    net::IpAddr,
    num::NonZeroUsize,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use futures::{
    FutureExt,
    future::{BoxFuture, Shared},
};
use lru::LruCache;
use tokio::time::timeout;

use domain::DestinationName;
use faults::planted;
use shares::{FairShare, Place, Shares};

/// A look-up takes at most this long.
const LOOKUP_MAX: Duration = Duration::from_secs(5);
/// The same for a name without a known result: then it is looked up again, as a silent one.
const FIRST_MAX: Duration = Duration::from_secs(1);
/// The most look-ups at once.
pub const LOOKUPS_MAX: usize = 64;
/// How many names have a known result.
const KNOWN_MAX: NonZeroUsize = NonZeroUsize::new(1024).unwrap();
/// The most look-ups of one destination at once.
const EACH_MAX: usize = 16;

/// Finds the addresses of a name.
#[async_trait]
pub trait Lookup: Send + Sync {
    /// All addresses of this name.
    async fn lookup(&self, name: &str) -> io::Result<Vec<IpAddr>>;
}

/// Who looks a name up; `None`: a definition is checked.
pub(super) type Who = Option<DestinationName>;

type Answer = Shared<BoxFuture<'static, Result<Vec<IpAddr>, (io::ErrorKind, String)>>>;

/// The look-ups of a process. Cheap to clone.
#[derive(Clone)]
pub(super) struct Lookups {
    lookup: Arc<dyn Lookup>,
    pub(super) share: FairShare<Who>,
    names: Arc<Mutex<Names>>,
    pub(super) first_max: Duration,
    pub(super) longest: Duration,
}

struct Names {
    /// Whoever asks for the same name gets the same answer.
    in_flight: HashMap<String, Answer>,
    /// By name: whether its last look-up found something, or was not answered.
    known: LruCache<String, bool>,
}

impl Lookups {
    /// Looks up in this way, at most this many names at once.
    pub(super) fn new(lookup: Arc<dyn Lookup>, all: usize) -> Lookups {
        let share = FairShare::new("lookups", Shares::new(all, EACH_MAX));
        let names = Names { in_flight: HashMap::new(), known: LruCache::new(KNOWN_MAX) };
        let names = Arc::new(Mutex::new(names));
        Lookups { lookup, share, names, first_max: FIRST_MAX, longest: LOOKUP_MAX }
    }

    fn names(&self) -> MutexGuard<'_, Names> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if the last look-up of this name found something.
    pub(super) fn is_known(&self, name: &str) -> bool {
        self.last(name) == Some(true)
    }

    fn last(&self, name: &str) -> Option<bool> {
        self.names().known.get(name).copied()
    }

    /// The addresses of this name.
    pub(super) async fn find(&self, who: &Who, name: &str) -> io::Result<Vec<IpAddr>> {
        loop {
            let last = self.last(name);
            let begun = self.names().in_flight.get(name).cloned();
            let answer = match begun {
                Some(answer) if !planted::is("lookups_not_shared") => answer,
                _ => {
                    let place = self.share.take_as(who, last == Some(false)).await;
                    if self.last(name) != last {
                        continue;
                    }
                    let within = if last.is_none() { self.first_max } else { self.longest };
                    self.begin(name, place, within)
                }
            };
            match answer.await {
                Err((io::ErrorKind::TimedOut, _)) if last.is_none() => {}
                found => return found.map_err(|(kind, problem)| io::Error::new(kind, problem)),
            }
        }
    }

    fn begin(&self, name: &str, place: Place<Who>, within: Duration) -> Answer {
        let mut names = self.names();
        if let Some(begun) = names.in_flight.get(name)
            && !planted::is("lookups_not_shared")
        {
            return begun.clone();
        }
        let (this, owned) = (self.clone(), name.to_owned());
        // In a task: it ends, and gives its place back, also when nobody waits for it any more.
        let task = tokio::spawn(async move {
            let found = timeout(within, this.lookup.lookup(&owned)).await;
            let mut names = this.names();
            names.in_flight.remove(&owned);
            match &found {
                // The server has answered.
                Ok(Err(error)) if error.kind() == io::ErrorKind::NotFound => {
                    names.known.pop(&owned);
                }
                found => drop(names.known.put(owned, matches!(found, Ok(Ok(_))))),
            }
            drop((names, place));
            match found {
                Ok(found) => found.map_err(|error| (error.kind(), error.to_string())),
                Err(_) => {
                    let problem = format!("no DNS server has answered within {within:?}");
                    Err((io::ErrorKind::TimedOut, problem))
                }
            }
        });
        let ended = |_| Err((io::ErrorKind::Interrupted, "the look-up broke off".to_owned()));
        let answer = task.map(move |result| result.unwrap_or_else(ended)).boxed().shared();
        names.in_flight.insert(name.to_owned(), answer.clone());
        answer
    }
}
