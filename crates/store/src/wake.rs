//! Wake-ups: hints over pub/sub that there is work. Reseq also polls for the same work once a
//! second, so any wake-up may be lost.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::{
    sync::{
        Notify,
        broadcast::{
            self,
            error::{RecvError, TryRecvError},
        },
    },
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use super::{
    Store,
    hand_over::{self, HandOver},
    tail,
};
use domain::{DestinationName, Sequence};
use redis_client::{Channels, Heard};

/// The most wake-ups that a slow listener may leave unread. With more, it must poll everything.
const BACKLOG_MAX: usize = 4096;
/// How long a pod stays subscribed after the last listener was seen.
const KEPT: Duration = Duration::from_secs(60);

/// A wake-up: names work that may be there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wake {
    /// A destination that had no waiting messages has got some.
    Waiting(DestinationName),
    /// A head of this destination may be releasable. The hand-over, if there is one, contains the head.
    Releasable(DestinationName, Option<HandOver>),
    /// The owner of a partition has given it back.
    OwnerGone(u16),
    /// Redis keeps the result of this message now, or cannot keep it.
    Result(DestinationName, Sequence),
    /// A definition has changed.
    Definitions,
    /// Somebody watches the deliveries of this destination, or of all destinations.
    Tail(Option<DestinationName>),
    /// Any work may be there: wake-ups may have been missed.
    Everything,
}

/// The wake-ups that one listener needs. A pod subscribes only to the kinds for which it has a listener: Redis sends
/// each wake-up to every subscriber, and each subscriber has to read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WakeKind {
    /// For processors, and for requests of workers that wait: [`Wake::Waiting`].
    Waiting,
    /// For senders, and for requests of consumers that wait: [`Wake::Releasable`], [`Wake::OwnerGone`] and
    /// [`Wake::Tail`].
    Releasable,
    /// For producers that wait for results: [`Wake::Result`].
    Results,
    /// For the catalog: [`Wake::Definitions`].
    Definitions,
}

/// Distributes wake-ups to the listeners in this pod. All listeners get [`Wake::Everything`].
#[derive(Default, Clone)]
pub struct Wakes {
    waiting: Listeners,
    releasable: Listeners,
    results: Listeners,
    definitions: Listeners,
    /// Notified when a listener needs a kind to which the pod does not subscribe yet.
    wanted: Arc<Notify>,
}

/// The listeners of one kind of wake-up.
#[derive(Clone)]
struct Listeners {
    sender: broadcast::Sender<Wake>,
    is_subscribed: Arc<AtomicBool>,
    /// When a listener was last seen.
    used: Arc<Mutex<Option<Instant>>>,
}

impl Default for Listeners {
    fn default() -> Self {
        let sender = broadcast::channel(BACKLOG_MAX).0;
        Listeners { sender, is_subscribed: Arc::default(), used: Arc::default() }
    }
}

impl Listeners {
    /// True while there is a listener, and for some time afterwards, because a worker asks again and again.
    fn is_used(&self) -> bool {
        let mut used = self.used.lock();
        if self.sender.receiver_count() > 0 {
            *used = Some(Instant::now());
        }
        let is_used = used.is_some_and(|used| used.elapsed() < KEPT);
        self.is_subscribed.store(is_used, Ordering::Relaxed);
        is_used
    }

    fn send(&self, wake: Wake) {
        // Sending fails only if there is no listener at the moment.
        let _ = self.sender.send(wake);
    }
}

impl Wakes {
    /// Listens from now on. Poll after this call, so that no work is missed in between.
    pub fn listen(&self, kind: WakeKind) -> broadcast::Receiver<Wake> {
        let listeners = match kind {
            WakeKind::Waiting => &self.waiting,
            WakeKind::Releasable => &self.releasable,
            WakeKind::Results => &self.results,
            WakeKind::Definitions => &self.definitions,
        };
        let receiver = listeners.sender.subscribe();
        if !listeners.is_subscribed.load(Ordering::Relaxed) {
            self.wanted.notify_one();
        }
        receiver
    }

    /// Receives wake-ups from Redis until `stop`, over separate connections.
    pub async fn run(self, store: Store, stop: CancellationToken) {
        let meanings = Meanings::of(&store);
        let wanted = self.wanted.clone();
        let everywhere = Some(store.keys().wake_definitions());
        let kinds = [
            (self.waiting.clone(), meanings.waiting.clone()),
            (self.releasable.clone(), meanings.releasable.clone()),
            (self.results.clone(), meanings.results.clone()),
        ];
        let channels = move || {
            let mut sharded = Vec::new();
            for (listeners, names) in &kinds {
                if listeners.is_used() {
                    sharded.extend_from_slice(names);
                }
            }
            Channels { sharded, everywhere: everywhere.clone() }
        };
        let send = Arc::new(move |heard: Heard| match heard {
            Heard::Gap => self.send_to_all(),
            Heard::Message { channel, message } => {
                for wake in meanings.wakes(&channel, &message) {
                    telemetry::wake_heard();
                    self.send(wake);
                }
            }
        });
        store.client().subscribe(channels, wanted, send, stop).await;
    }

    fn send_to_all(&self) {
        for listeners in [&self.waiting, &self.releasable, &self.results, &self.definitions] {
            listeners.send(Wake::Everything);
        }
    }

    fn send(&self, wake: Wake) {
        match wake {
            Wake::Waiting(_) => self.waiting.send(wake),
            Wake::Releasable(..) | Wake::OwnerGone(_) | Wake::Tail(_) => {
                self.releasable.send(wake);
            }
            Wake::Result(..) => self.results.send(wake),
            Wake::Definitions => self.definitions.send(wake),
            Wake::Everything => self.send_to_all(),
        }
    }
}

/// Resolves at a wake-up for which `is_meant` is true, or when one may have been missed. Without a sender of
/// wake-ups, never resolves.
pub async fn woken(wakes: &mut broadcast::Receiver<Wake>, is_meant: impl Fn(&Wake) -> bool) {
    loop {
        match wakes.recv().await {
            Ok(Wake::Everything) | Err(RecvError::Lagged(_)) => return,
            Ok(wake) if is_meant(&wake) => return,
            Ok(_) => {}
            Err(RecvError::Closed) => std::future::pending().await,
        }
    }
}

/// The next wake-up, if one has already arrived. Like `recv`, it reports missed wake-ups.
pub fn already_here(wakes: &mut broadcast::Receiver<Wake>) -> Option<Result<Wake, RecvError>> {
    match wakes.try_recv() {
        Ok(wake) => Some(Ok(wake)),
        Err(TryRecvError::Lagged(missed)) => Some(Err(RecvError::Lagged(missed))),
        Err(TryRecvError::Empty | TryRecvError::Closed) => None,
    }
}

/// Parses messages on the channels of wake-ups.
struct Meanings {
    waiting: Vec<String>,
    releasable: Vec<String>,
    results: Vec<String>,
    partition_of: HashMap<String, u16>,
}

impl Meanings {
    fn of(store: &Store) -> Meanings {
        let (mut waiting, mut releasable, mut results) = (Vec::new(), Vec::new(), Vec::new());
        let mut partition_of = HashMap::new();
        for number in 0..store.keys().partitions() {
            let keys = store.keys().partition(number);
            partition_of.insert(keys.wake_owner(), number);
            waiting.push(keys.wake_waiting());
            results.push(keys.wake_results());
            releasable.extend([keys.wake_releasable(), keys.wake_owner()]);
        }
        // Senders publish the deliveries that are watched.
        releasable.push(store.keys().wake_tail());
        Meanings { waiting, releasable, results, partition_of }
    }

    /// Converts a message on a channel into wake-ups: one for each destination that it names.
    fn wakes(&self, channel: &str, message: &Bytes) -> Vec<Wake> {
        let all = || hand_over::read_all(message).into_iter();
        match channel.rsplit(':').next() {
            Some("waiting") => all().map(|(name, _)| Wake::Waiting(name)).collect(),
            Some("releasable") => all().map(|(name, it)| Wake::Releasable(name, it)).collect(),
            Some("results") => results_in(message),
            Some("tail") => tail::requested(message).ok().map(Wake::Tail).into_iter().collect(),
            Some("owner") => {
                self.partition_of.get(channel).copied().map(Wake::OwnerGone).into_iter().collect()
            }
            _ => vec![Wake::Definitions],
        }
    }
}

/// The messages that a wake-up names: `<destination>/<sequence>`, separated by spaces.
fn results_in(message: &Bytes) -> Vec<Wake> {
    let text = std::str::from_utf8(message).unwrap_or_default();
    let named = text.split(' ').filter_map(|one| one.split_once('/'));
    named
        .filter_map(|(name, sequence)| {
            Some(Wake::Result(name.parse().ok()?, sequence.parse().ok()?))
        })
        .collect()
}
