//! Wake-ups: hints over pub/sub that there is work. Reseq also polls for the same work once a
//! second, so any wake-up may be lost.

use std::{collections::HashMap, sync::Arc, time::Duration};

use redis::{PushInfo, PushKind, Value};
use tokio::sync::{Notify, broadcast, mpsc};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::{Store, StoreError, connect::Node};
use crate::{domain::DestinationName, telemetry};

/// Wake-ups that a slow listener may leave unread. Beyond that, it must poll everything.
const BACKLOG_MAX: usize = 4096;

/// How often to check that the subscriptions match the cluster's slots, and that each connection
/// still answers.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The wait before a subscription that ended is replaced.
const PAUSE: Duration = Duration::from_millis(50);

/// What there may be to do.
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

    /// Subscribes to Redis until `stop`, with one connection to each server that has some of the
    /// channels. Checks once a second that the servers are still the right ones.
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
                    tracing::debug!(%error, "cannot find out which servers to subscribe to");
                }
            }
            let (mut wanted, _) = store.inner.links.spread(&channels.names);
            // Keep the subscriptions that are still right; the channels of a moved slot get a new
            // one.
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
        // An error only means that there is no listener: not every role needs every wake-up.
        let _ = self.sender.send(wake);
    }
}

/// All channels, and the meaning of those whose messages name no destination.
struct Channels {
    names: Vec<String>,
    partition_of: HashMap<String, u16>,
    /// Published to all nodes of a cluster, so received on each.
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

/// One subscribed connection.
struct Listener {
    node: Arc<Node>,
    members: Vec<usize>,
    task: AbortOnDropHandle<()>,
}

/// What a subscription needs.
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
            // Another task checks and logs which rights are missing.
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
        // Wake-ups between the last connection and this one were missed.
        self.wakes.tell(Wake::Everything);
        let mut tick = tokio::time::interval(LOOK_EVERY);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                // A half-open connection delivers nothing; only a missing answer reveals it.
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
            // Another node serves the slot now.
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

/// No value: a subscription ends only with an error.
enum Never {}
