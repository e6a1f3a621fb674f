//! Looks up host names: each name at most once at a time, a limited number of names at a time,
//! for at most five seconds.
//!
//! A new name without an answer within a second is *silent* until a look-up finds it. Look-ups of silent
//! names leave places free for other names, so that a new name does not wait behind silent ones.

use std::{collections::HashMap, io, net::IpAddr, num::NonZeroUsize, sync::Arc, time::Duration};

use async_trait::async_trait;
use futures::{
    FutureExt,
    future::{BoxFuture, Shared},
};
use lru::LruCache;
use parking_lot::Mutex;
use tokio::time::timeout;

use domain::DestinationName;
use shares::{FairShare, Place, Shares};

/// A look-up takes at most this long.
const LOOKUP_MAX: Duration = Duration::from_secs(5);
/// The limit for a name without a known result. After this time, the name is looked up again, as a silent name.
const FIRST_MAX: Duration = Duration::from_secs(1);
/// The most look-ups at once.
pub const LOOKUPS_MAX: usize = 64;
/// The most names whose last result is remembered.
const KNOWN_MAX: NonZeroUsize = NonZeroUsize::new(1024).unwrap();
/// The most look-ups of one destination at once.
const EACH_MAX: usize = 16;

/// Finds the addresses of a name.
#[async_trait]
pub trait Lookup: Send + Sync {
    /// All addresses of this name.
    async fn lookup(&self, name: &str) -> io::Result<Vec<IpAddr>>;
}

/// The destination that needs the name; `None`: the check of a definition.
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
    /// Callers that ask for the same name share one look-up.
    in_flight: HashMap<String, Answer>,
    /// For each name: true if the last look-up found addresses; false if it failed, or had no answer.
    known: LruCache<String, bool>,
}

impl Lookups {
    /// Uses `lookup`, for at most `all` names at once.
    pub(super) fn new(lookup: Arc<dyn Lookup>, all: usize) -> Lookups {
        let share = FairShare::new("lookups", Shares::new(all, EACH_MAX));
        let names = Names { in_flight: HashMap::new(), known: LruCache::new(KNOWN_MAX) };
        let names = Arc::new(Mutex::new(names));
        Lookups { lookup, share, names, first_max: FIRST_MAX, longest: LOOKUP_MAX }
    }

    /// True if the last look-up of this name found something.
    pub(super) fn is_known(&self, name: &str) -> bool {
        self.last(name) == Some(true)
    }

    fn last(&self, name: &str) -> Option<bool> {
        self.names.lock().known.get(name).copied()
    }

    /// The addresses of this name.
    pub(super) async fn find(&self, who: &Who, name: &str) -> io::Result<Vec<IpAddr>> {
        loop {
            let last = self.last(name);
            let begun = self.names.lock().in_flight.get(name).cloned();
            let answer = match begun {
                Some(answer) => answer,
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
        let mut names = self.names.lock();
        if let Some(begun) = names.in_flight.get(name) {
            return begun.clone();
        }
        let (this, owned) = (self.clone(), name.to_owned());
        // In a task, the look-up ends and gives its place back even if its callers have left.
        let task = tokio::spawn(async move {
            let found = timeout(within, this.lookup.lookup(&owned)).await;
            let mut names = this.names.lock();
            names.in_flight.remove(&owned);
            match &found {
                // The server answered that the name does not exist: the name is not silent.
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
