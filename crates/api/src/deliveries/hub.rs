//! Subscribes once to deliveries for all clients that watch through this pod, and only while a client watches.

use std::{collections::HashMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::sync::{Notify, broadcast};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use domain::DestinationName;
use formats::code::Code;
use http_server::{
    principal::Principal,
    problem::Problem,
    shares::{Share, Shares},
};
use store::{Store, TailHeard};

/// The most clients that watch at the same time.
const LISTENERS_MAX: usize = 64;
/// Deliveries that a slow client may leave unread.
const BACKLOG_MAX: usize = 4_096;
/// How often senders are asked again. After each request, they publish deliveries for ten seconds.
const ASK_EVERY: Duration = Duration::from_secs(3);

/// The deliveries that clients of this pod watch. Cheap to clone.
#[derive(Clone)]
pub struct Tails {
    inner: Arc<Inner>,
}

struct Inner {
    store: Store,
    stop: CancellationToken,
    tasks: TaskTracker,
    heard: broadcast::Sender<TailHeard>,
    state: Mutex<State>,
    shares: Shares,
    /// Notified when a client begins to watch, or when the subscription has begun.
    changed: Notify,
}

#[derive(Default)]
struct State {
    /// How many clients watch each destination; `None`: all destinations.
    wanted: HashMap<Option<DestinationName>, usize>,
    is_running: bool,
    /// True once the subscription has begun.
    has_begun: bool,
}

/// A client that watches.
pub struct Listener {
    tails: Tails,
    of: Option<DestinationName>,
    _share: Share,
    heard: broadcast::Receiver<TailHeard>,
    /// True if the client does not know yet that the subscription has begun.
    is_first: bool,
}

impl Tails {
    /// No client watches yet. `stop` ends the tasks that later run for clients.
    pub fn new(store: Store, stop: CancellationToken, tasks: TaskTracker) -> Tails {
        let heard = broadcast::channel(BACKLOG_MAX).0;
        let (state, changed) = Default::default();
        let shares = Shares::of(LISTENERS_MAX);
        Tails { inner: Arc::new(Inner { store, stop, tasks, heard, state, shares, changed }) }
    }

    /// Watches a destination, or all, for this caller. Refuses if too many clients watch.
    pub(super) fn listen(
        &self,
        of: Option<DestinationName>,
        caller: &Principal,
    ) -> Result<Listener, Problem> {
        let share = self.inner.shares.take(caller, "streams of deliveries")?;
        let mut state = self.inner.state.lock();
        if state.wanted.values().sum::<usize>() >= LISTENERS_MAX {
            let detail =
                "as many clients as possible watch deliveries through this pod; try another";
            return Err(Problem::new(Code::ConnectionsFull, detail));
        }
        *state.wanted.entry(of.clone()).or_default() += 1;
        // Subscribes before the lock is released: the client either hears that the subscription begins, or `is_first`
        // says so.
        let heard = self.inner.heard.subscribe();
        let is_first = state.has_begun;
        if !std::mem::replace(&mut state.is_running, true) {
            self.inner.tasks.spawn(self.clone().hear());
        }
        drop(state);
        self.inner.changed.notify_one();
        Ok(Listener { tails: self.clone(), of, _share: share, heard, is_first })
    }

    /// Receives deliveries, and asks senders at each interval, until no client watches.
    async fn hear(self) {
        let ended = CancellationToken::new();
        let tails = self.clone();
        let on_heard = move |heard: TailHeard| {
            if heard == TailHeard::Begun {
                tails.inner.state.lock().has_begun = true;
                tails.inner.changed.notify_one();
            }
            // An error only means that no client watches any more.
            let _ = tails.inner.heard.send(heard);
        };
        let hearing = self.inner.store.hear_deliveries(on_heard, ended.clone());
        tokio::select! {
            () = self.inner.stop.cancelled() => {}
            () = hearing => {}
            () = self.ask() => {}
        }
    }

    /// Asks senders for the deliveries that clients watch. Returns when no client watches.
    async fn ask(&self) {
        loop {
            let wanted = {
                let mut state = self.inner.state.lock();
                if state.wanted.is_empty() {
                    (state.is_running, state.has_begun) = (false, false);
                    return;
                }
                let has_begun = state.has_begun;
                let all = state.wanted.keys().filter(|_| has_begun);
                all.cloned().collect::<Vec<_>>()
            };
            for of in wanted {
                if let Err(error) = self.inner.store.ask_for_deliveries(of.as_ref()).await {
                    tracing::debug!(%error, "senders cannot be asked for deliveries");
                }
            }
            tokio::select! {
                () = self.inner.changed.notified() => {}
                () = tokio::time::sleep(ASK_EVERY) => {}
            }
        }
    }
}

impl Listener {
    /// The next delivery, or news of the subscription.
    pub(super) async fn next(&mut self) -> Result<TailHeard, broadcast::error::RecvError> {
        if std::mem::take(&mut self.is_first) {
            return Ok(TailHeard::Begun);
        }
        self.heard.recv().await
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let mut state = self.tails.inner.state.lock();
        if let Some(count) = state.wanted.get_mut(&self.of) {
            *count -= 1;
            if *count == 0 {
                state.wanted.remove(&self.of);
            }
        }
        drop(state);
        self.tails.inner.changed.notify_one();
    }
}
