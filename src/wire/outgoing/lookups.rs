//! Look-ups of host names: one of a name at a time, a limited number, and none longer than five seconds.

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

use crate::{
    domain::DestinationName,
    faults::planted,
    shares::{FairShare, Place, Shares},
};

/// A look-up takes at most this long.
const LOOKUP_MAX: Duration = Duration::from_secs(5);
/// The most look-ups at once.
pub(crate) const LOOKUPS_MAX: usize = 64;
/// How many names are known to have been found.
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
}

struct Names {
    /// Whoever asks for the same name gets the same answer.
    in_flight: HashMap<String, Answer>,
    /// Names whose last look-up found something.
    known: LruCache<String, ()>,
}

impl Lookups {
    /// Looks up in this way, at most this many names at once.
    pub(super) fn new(lookup: Arc<dyn Lookup>, all: usize) -> Lookups {
        let share = FairShare::new("lookups", Shares::new(all, EACH_MAX));
        let names = Names { in_flight: HashMap::new(), known: LruCache::new(KNOWN_MAX) };
        Lookups { lookup, share, names: Arc::new(Mutex::new(names)) }
    }

    fn names(&self) -> MutexGuard<'_, Names> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if the last look-up of this name found something.
    pub(super) fn is_known(&self, name: &str) -> bool {
        self.names().known.get(name).is_some()
    }

    /// The addresses of this name.
    pub(super) async fn find(&self, who: &Who, name: &str) -> io::Result<Vec<IpAddr>> {
        let begun = self.names().in_flight.get(name).cloned();
        let answer = match begun {
            Some(answer) if !planted::is("lookups_not_shared") => answer,
            // A name that was not found the last time may have a silent server.
            _ => self.begin(name, self.share.take_as(who, !self.is_known(name)).await),
        };
        answer.await.map_err(|(kind, problem)| io::Error::new(kind, problem))
    }

    fn begin(&self, name: &str, place: Place<Who>) -> Answer {
        let mut names = self.names();
        if let Some(begun) = names.in_flight.get(name)
            && !planted::is("lookups_not_shared")
        {
            return begun.clone();
        }
        let (this, owned) = (self.clone(), name.to_owned());
        // In a task: it ends, and gives its place back, also when nobody waits for it any more.
        let task = tokio::spawn(async move {
            let found = timeout(LOOKUP_MAX, this.lookup.lookup(&owned)).await;
            let mut names = this.names();
            names.in_flight.remove(&owned);
            match &found {
                Ok(Ok(_)) => drop(names.known.put(owned, ())),
                _ => drop(names.known.pop(&owned)),
            }
            drop((names, place));
            match found {
                Ok(found) => found.map_err(|error| (error.kind(), error.to_string())),
                Err(_) => {
                    let problem = format!("no DNS server has answered within {LOOKUP_MAX:?}");
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
