//! Subscriptions that follow slots to other servers: one connection to each server that serves some of the channels.
//! Once a second, a subscription checks which server serves each channel, and whether each connection still answers.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use redis::{PushInfo, PushKind};
use tokio::sync::{Notify, mpsc};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::{
    client::{NodeKeys, RedisClient},
    error::ClientError,
    node::Node,
};

/// The most received messages that wait for the subscriber. Further messages are dropped and reported as
/// [`Heard::Gap`].
const BACKLOG_MAX: usize = 4096;
/// The time between two checks of the connections, and of the servers of the channels.
const CHECK_EVERY: Duration = Duration::from_secs(1);
/// The pause before a listener that has ended is replaced.
const PAUSE: Duration = Duration::from_millis(50);

/// An event of a subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard {
    /// A published message.
    Message {
        /// The channel.
        channel: String,
        /// The message.
        message: Bytes,
    },
    /// Messages may have been missed.
    Gap,
}

/// The channels of one subscription.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Channels {
    /// Sharded channels (`SSUBSCRIBE`). The server that serves a channel is the one that would hold a key with the
    /// channel's name.
    pub sharded: Vec<String>,
    /// A channel that every node of a cluster serves (`SUBSCRIBE`), if one is wanted.
    pub everywhere: Option<String>,
}

/// Receives the events of a subscription.
pub type OnHeard = Arc<dyn Fn(Heard) + Send + Sync>;

impl RedisClient {
    /// Listens until `stop`, over separate connections. Calls `wanted_channels` once a second, and when `changed` is
    /// notified. While the channels change, messages may be missed ([`Heard::Gap`]).
    pub async fn subscribe(
        &self,
        wanted_channels: impl Fn() -> Channels,
        changed: Arc<Notify>,
        on_heard: OnHeard,
        stop: CancellationToken,
    ) {
        let mut channels = Arc::new(wanted_channels());
        let ended = Arc::new(Notify::new());
        let mut listeners: Vec<Listener> = Vec::new();
        let mut tick = tokio::time::interval(CHECK_EVERY);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        while !stop.is_cancelled() {
            tokio::select! {
                () = stop.cancelled() => return,
                looked = self.survey() => if let Err(error) = looked {
                    tracing::debug!(%error, "cannot find out which server serves which channel");
                }
            }
            let now = wanted_channels();
            if now != *channels {
                channels = Arc::new(now);
            }
            let (mut wanted, _) = self.spread(&channels.sharded);
            if wanted.is_empty() && channels.everywhere.is_some() {
                // Every node serves the channel `everywhere`, so any node will do.
                wanted.extend(self.primaries().into_iter().next().map(|node| (node, Vec::new())));
            }
            listeners.retain(|listener| {
                Arc::ptr_eq(&listener.channels, &channels) && listener.is_wanted(&mut wanted)
            });
            for (node, members) in wanted {
                let subscriber = Subscriber {
                    on_heard: on_heard.clone(),
                    channels: channels.clone(),
                    ended: ended.clone(),
                };
                let task = tokio::spawn(subscriber.listen(node.clone(), members.clone()));
                let task = AbortOnDropHandle::new(task);
                listeners.push(Listener { node, members, channels: channels.clone(), task });
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = ended.notified() => tokio::time::sleep(PAUSE).await,
                () = changed.notified() => {}
                _ = tick.tick() => {}
            }
        }
    }
}

/// One subscribed connection.
struct Listener {
    node: Arc<Node>,
    members: Vec<usize>,
    channels: Arc<Channels>,
    task: AbortOnDropHandle<()>,
}

impl Listener {
    /// True if the listener runs and has exactly the channels of one entry of `wanted`. Removes that entry. It is
    /// false, for example, after a slot has moved to another node.
    fn is_wanted(&self, wanted: &mut Vec<NodeKeys>) -> bool {
        let position = wanted
            .iter()
            .position(|(node, members)| Arc::ptr_eq(node, &self.node) && *members == self.members);
        match position {
            Some(position) if !self.task.is_finished() => {
                wanted.swap_remove(position);
                true
            }
            _ => false,
        }
    }
}

/// The shared parts of a subscription.
struct Subscriber {
    on_heard: OnHeard,
    channels: Arc<Channels>,
    ended: Arc<Notify>,
}

impl Subscriber {
    async fn listen(self, node: Arc<Node>, members: Vec<usize>) {
        let Err(error) = self.hear(&node, &members).await;
        tracing::debug!(%error, "cannot subscribe to channels of Redis");
        if matches!(error, ClientError::NoRights(_)) {
            // Only an operator can grant the rights, so do not retry at once.
            tokio::time::sleep(CHECK_EVERY).await;
        }
        self.ended.notify_one();
    }

    async fn hear(&self, node: &Node, members: &[usize]) -> Result<Never, ClientError> {
        let (sender, mut pushes) = mpsc::channel::<PushInfo>(BACKLOG_MAX);
        let missed = Arc::new(Notify::new());
        let full = missed.clone();
        let mut connection = node
            .listen(move |push: PushInfo| sender.try_send(push).inspect_err(|_| full.notify_one()))
            .await?;
        let mut subscribe = redis::pipe();
        if let Some(channel) = &self.channels.everywhere {
            subscribe.cmd("SUBSCRIBE").arg(channel).ignore();
        }
        for &member in members {
            subscribe.cmd("SSUBSCRIBE").arg(&self.channels.sharded[member]).ignore();
        }
        subscribe.exec_async(&mut connection).await?;
        // Messages between the last connection and this one were missed.
        (self.on_heard)(Heard::Gap);
        let mut tick = tokio::time::interval(CHECK_EVERY);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                // A half-open connection delivers no messages. Only a missing answer reveals it.
                _ = tick.tick() => {
                    let answered = redis::cmd("PING").exec_async(&mut connection).await;
                    match answered.map_err(ClientError::from) {
                        // With a full disk, a server refuses even `PING`, but it answers.
                        Ok(()) | Err(ClientError::RefusesWrites(_)) => {}
                        Err(error) => {
                            node.suspect();
                            return Err(error);
                        }
                    }
                }
                () = missed.notified() => (self.on_heard)(Heard::Gap),
                push = pushes.recv() => self.take(push)?,
            }
        }
    }

    fn take(&self, push: Option<PushInfo>) -> Result<(), ClientError> {
        match push {
            Some(PushInfo { kind: PushKind::Message | PushKind::SMessage, data }) => {
                if let [channel, message] = &data[..]
                    && let Ok(channel) = redis::from_redis_value_ref(channel)
                    && let Ok(message) = redis::from_redis_value_ref(message)
                {
                    (self.on_heard)(Heard::Message { channel, message });
                }
                Ok(())
            }
            // Another node serves the slot now.
            Some(PushInfo { kind: PushKind::SUnsubscribe, .. }) => {
                Err(ClientError::Unavailable("a channel has moved to another node".into()))
            }
            None | Some(PushInfo { kind: PushKind::Disconnection, .. }) => {
                Err(ClientError::Unavailable("the connection has ended".into()))
            }
            Some(_) => Ok(()),
        }
    }
}

/// A type without values: a subscription ends only with an error.
enum Never {}
