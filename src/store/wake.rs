//! Wake-ups: hints that something is there to do, over pub/sub. Everything that they hasten is
//! also looked for once a second, so each may be lost.

use std::time::Duration;

use futures::StreamExt;
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

use super::{Store, StoreError};
use crate::domain::DestinationName;

/// Wake-ups that a slow listener has not yet taken; beyond it, it is told to look everywhere.
const BACKLOG_MAX: usize = 4096;

/// What there may be to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wake {
    /// A destination that had no waiting messages has some.
    Waiting(DestinationName),
    /// A head of this destination may leave.
    Releasable(DestinationName),
    /// A partition has no owner any more.
    OwnerGone(u16),
    /// A definition has changed.
    Definitions,
    /// Anything: notifications may have been missed.
    Everything,
}

/// Hands wake-ups to those who listen in this pod.
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
    /// Listens from now on. Listen first, then look: what happens in between is heard.
    pub fn listen(&self) -> broadcast::Receiver<Wake> {
        self.sender.subscribe()
    }

    /// Listens to Redis until `stop`, over a connection of its own that is made anew as needed.
    pub async fn run(self, store: Store, stop: CancellationToken) {
        let mut pause = Duration::from_millis(50);
        while !stop.is_cancelled() {
            let ended = tokio::select! {
                () = stop.cancelled() => return,
                ended = self.listen_to(&store, &mut pause) => ended,
            };
            if let Err(error) = ended {
                tracing::debug!(%error, "cannot listen for wake-ups; polling meanwhile");
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
            }
            pause = (pause * 2).min(Duration::from_secs(1));
        }
    }

    async fn listen_to(&self, store: &Store, pause: &mut Duration) -> Result<(), StoreError> {
        let mut notifications = store.inner.links.notifications().await?;
        let mut partition_of = std::collections::HashMap::new();
        let mut channels = vec![store.keys().wake_definitions()];
        for number in 0..store.keys().partitions() {
            let keys = store.keys().partition(number);
            partition_of.insert(keys.wake_owner(), number);
            channels.extend([keys.wake_waiting(), keys.wake_releasable(), keys.wake_owner()]);
        }
        notifications.subscribe(&channels).await?;
        // What came between the last connection and this one was not heard.
        self.tell(Wake::Everything);
        *pause = Duration::from_millis(50);
        let mut messages = notifications.into_on_message();
        while let Some(message) = messages.next().await {
            let channel = message.get_channel_name();
            let payload = || message.get_payload::<String>().ok()?.parse::<DestinationName>().ok();
            let wake = match channel.rsplit(':').next() {
                Some("waiting") => payload().map(Wake::Waiting),
                Some("releasable") => payload().map(Wake::Releasable),
                Some("owner") => partition_of.get(channel).copied().map(Wake::OwnerGone),
                _ => Some(Wake::Definitions),
            };
            wake.into_iter().for_each(|wake| self.tell(wake));
        }
        Ok(())
    }

    fn tell(&self, wake: Wake) {
        // No listener is no error: a pod may have no role that needs this one.
        let _ = self.sender.send(wake);
    }
}
