//! Wake-ups: hints that something is there to do, over pub/sub. Everything that they hasten is
//! also looked for once a second, so each may be lost.

use std::{collections::HashMap, sync::Arc, time::Duration};

use redis::{PushInfo, PushKind, Value};
use tokio::sync::{Notify, broadcast, mpsc};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::{Store, StoreError, connect::Node};
use crate::{domain::DestinationName, telemetry};

/// Wake-ups that a slow listener has not yet taken; beyond it, it is told to look everywhere.
const BACKLOG_MAX: usize = 4096;

/// How often it is looked whether the listeners listen where they should, and whether each is told
/// anything at all.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Before a listener that has ended is made anew.
const PAUSE: Duration = Duration::from_millis(50);

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

    /// Listens to Redis until `stop`, over connections of its own: one to each server that tells of
    /// some of the channels. Once a second it looks whether that is still so.
    pub async fn run(self, store: Store, stop: CancellationToken) {
        let channels = Arc::new(Channels::of(&store));
        let ended = Arc::new(Notify::new());
        let mut listeners: Vec<Listener> = Vec::new();
        let mut tick = tokio::time::interval(LOOK_EVERY);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        while !stop.is_cancelled() {
            tokio::select! {
                () = stop.cancelled() => return,
                looked = store.inner.links.survey() => if let Err(error) = looked {
                    tracing::debug!(%error, "cannot look where Redis is");
                }
            }
            let (mut wanted, _) = store.inner.links.spread(&channels.names);
            // Those that listen to what they should go on; a slot that has moved is heard elsewhere.
            listeners.retain(|listener| {
                let position = wanted.iter().position(|(node, members)| {
                    Arc::ptr_eq(node, &listener.node) && *members == listener.members
                });
                match position {
                    Some(position) if !listener.task.is_finished() => {
                        wanted.swap_remove(position);
                        true
                    }
                    _ => false,
                }
            });
            for (node, members) in wanted {
                let subscriber = Subscriber {
                    wakes: self.clone(),
                    channels: channels.clone(),
                    ended: ended.clone(),
                };
                let task = tokio::spawn(subscriber.listen(node.clone(), members.clone()));
                listeners.push(Listener { node, members, task: AbortOnDropHandle::new(task) });
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = ended.notified() => tokio::time::sleep(PAUSE).await,
                _ = tick.tick() => {}
            }
        }
    }

    fn tell(&self, wake: Wake) {
        // No listener is no error: a pod may have no role that needs this one.
        let _ = self.sender.send(wake);
    }
}

/// All channels, and what is meant by those that carry no destination.
struct Channels {
    names: Vec<String>,
    partition_of: HashMap<String, u16>,
    /// Told to all nodes of a cluster, so heard on each.
    definitions: String,
}

impl Channels {
    fn of(store: &Store) -> Channels {
        let (mut names, mut partition_of) = (Vec::new(), HashMap::new());
        for number in 0..store.keys().partitions() {
            let keys = store.keys().partition(number);
            partition_of.insert(keys.wake_owner(), number);
            names.extend([keys.wake_waiting(), keys.wake_releasable(), keys.wake_owner()]);
        }
        Channels { names, partition_of, definitions: store.keys().wake_definitions() }
    }

    fn wake(&self, message: &[Value]) -> Option<Wake> {
        let text = |at: usize| {
            message.get(at).and_then(|value| redis::from_redis_value_ref::<String>(value).ok())
        };
        let channel = text(0)?;
        let destination = || text(1)?.parse::<DestinationName>().ok();
        match channel.rsplit(':').next() {
            Some("waiting") => destination().map(Wake::Waiting),
            Some("releasable") => destination().map(Wake::Releasable),
            Some("owner") => self.partition_of.get(&channel).copied().map(Wake::OwnerGone),
            _ => Some(Wake::Definitions),
        }
    }
}

/// One connection that listens.
struct Listener {
    node: Arc<Node>,
    members: Vec<usize>,
    task: AbortOnDropHandle<()>,
}

/// What a listener needs.
struct Subscriber {
    wakes: Wakes,
    channels: Arc<Channels>,
    ended: Arc<Notify>,
}

impl Subscriber {
    async fn listen(self, node: Arc<Node>, members: Vec<usize>) {
        let Err(error) = self.hear(&node, &members).await;
        tracing::debug!(%error, "cannot listen for wake-ups; polling meanwhile");
        if matches!(error, StoreError::NoRights(_)) {
            // Which are missing is asked for elsewhere, and logged.
            tokio::time::sleep(LOOK_EVERY).await;
        }
        self.ended.notify_one();
    }

    async fn hear(&self, node: &Node, members: &[usize]) -> Result<Never, StoreError> {
        let (sender, mut told) = mpsc::channel::<PushInfo>(BACKLOG_MAX);
        let missed = Arc::new(Notify::new());
        let full = missed.clone();
        let mut connection = node
            .listen(move |push: PushInfo| sender.try_send(push).inspect_err(|_| full.notify_one()))
            .await?;
        let mut subscribe = redis::pipe();
        subscribe.cmd("SUBSCRIBE").arg(&self.channels.definitions).ignore();
        for &member in members {
            subscribe.cmd("SSUBSCRIBE").arg(&self.channels.names[member]).ignore();
        }
        subscribe.exec_async(&mut connection).await?;
        // What came between the last connection and this one was not heard.
        self.wakes.tell(Wake::Everything);
        let mut tick = tokio::time::interval(LOOK_EVERY);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                // A connection that is half open tells nothing, and answers nothing.
                _ = tick.tick() => {
                    let answered = redis::cmd("PING").exec_async(&mut connection).await;
                    answered.inspect_err(|_| node.suspect())?;
                }
                () = missed.notified() => self.wakes.tell(Wake::Everything),
                push = told.recv() => self.take(push)?,
            }
        }
    }

    fn take(&self, push: Option<PushInfo>) -> Result<(), StoreError> {
        match push {
            Some(PushInfo { kind: PushKind::Message | PushKind::SMessage, data }) => {
                if let Some(wake) = self.channels.wake(&data) {
                    telemetry::wake_heard();
                    self.wakes.tell(wake);
                }
                Ok(())
            }
            // The slot is served elsewhere now.
            Some(PushInfo { kind: PushKind::SUnsubscribe, .. }) => {
                Err(StoreError::Unavailable("a channel has moved to another node".into()))
            }
            None | Some(PushInfo { kind: PushKind::Disconnection, .. }) => {
                Err(StoreError::Unavailable("the connection has ended".into()))
            }
            Some(_) => Ok(()),
        }
    }
}

/// Nothing: listening ends only by an error.
enum Never {}
