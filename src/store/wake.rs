//! Wake-ups: hints over pub/sub that there is work. Reseq also polls for the same work once a
//! second, so any wake-up may be lost.

use std::{collections::HashMap, sync::Arc};

use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

use super::Store;
use crate::{
    domain::DestinationName,
    redis_client::{Channels, Heard},
    telemetry,
};

/// Wake-ups that a slow listener may leave unread. Beyond that, it must poll everything.
const BACKLOG_MAX: usize = 4096;

/// A kind of wake-up: what there may be to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wake {
    /// A destination without waiting messages got some.
    Waiting(DestinationName),
    /// A head of this destination may be releasable.
    Releasable(DestinationName),
    /// A partition has lost its owner.
    OwnerGone(u16),
    /// A definition has changed.
    Definitions,
    /// Anything: wake-ups may have been missed.
    Everything,
}

/// Distributes wake-ups to the listeners in this pod.
#[derive(Clone)]
pub struct Wakes {
    sender: broadcast::Sender<Wake>,
}

impl Default for Wakes {
    fn default() -> Self {
        Wakes { sender: broadcast::channel(BACKLOG_MAX).0 }
    }
}

impl Wakes {
    /// Listens from now on. Listen first and poll then, so that nothing is missed in between.
    pub fn listen(&self) -> broadcast::Receiver<Wake> {
        self.sender.subscribe()
    }

    /// Listens to Redis until `stop`, over connections of its own.
    pub async fn run(self, store: Store, stop: CancellationToken) {
        let meanings = Meanings::of(&store);
        let channels = Channels {
            sharded: meanings.sharded.clone(),
            everywhere: store.keys().wake_definitions(),
        };
        let send = Arc::new(move |heard: Heard| match heard {
            Heard::Gap => self.send(Wake::Everything),
            Heard::Message { channel, text } => {
                if let Some(wake) = meanings.wake(&channel, text.as_deref()) {
                    telemetry::wake_heard();
                    self.send(wake);
                }
            }
        });
        store.client().subscribe(channels, send, stop).await;
    }

    fn send(&self, wake: Wake) {
        // An error only means that there is no listener: not every role needs every wake-up.
        let _ = self.sender.send(wake);
    }
}

/// Parses messages on the channels of wake-ups.
struct Meanings {
    sharded: Vec<String>,
    partition_of: HashMap<String, u16>,
}

impl Meanings {
    fn of(store: &Store) -> Meanings {
        let (mut sharded, mut partition_of) = (Vec::new(), HashMap::new());
        for number in 0..store.keys().partitions() {
            let keys = store.keys().partition(number);
            partition_of.insert(keys.wake_owner(), number);
            sharded.extend([keys.wake_waiting(), keys.wake_releasable(), keys.wake_owner()]);
        }
        Meanings { sharded, partition_of }
    }

    fn wake(&self, channel: &str, text: Option<&str>) -> Option<Wake> {
        let destination = || text?.parse::<DestinationName>().ok();
        match channel.rsplit(':').next() {
            Some("waiting") => destination().map(Wake::Waiting),
            Some("releasable") => destination().map(Wake::Releasable),
            Some("owner") => self.partition_of.get(channel).copied().map(Wake::OwnerGone),
            _ => Some(Wake::Definitions),
        }
    }
}
