//! Deliveries as they happen, for `reseq tail`. Redis stores none of them. A pod with a watcher announces over
//! publish/subscribe every few seconds that it listens, and only then do senders publish their deliveries. Without a
//! watcher, senders publish nothing.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::{Store, StoreError};
use domain::{AttemptError, DestinationName, Sequence};
use redis_client::{Channels, Heard};

/// How a delivery ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The receiver accepted the message.
    Accepted,
    /// The receiver did not accept the message, or did not answer.
    Refused,
}

/// A delivery that has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivery {
    /// The destination of the message.
    pub destination: DestinationName,
    /// The ordering key of the message.
    pub key: Option<String>,
    /// The epoch of the message.
    pub epoch: u64,
    /// The sequence of the message.
    pub sequence: Sequence,
    /// The id of the message.
    pub id: String,
    /// How the delivery ended.
    pub outcome: Outcome,
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// How many messages the request contained.
    pub batch: usize,
    /// How long the request took, in ms.
    pub took_ms: u64,
    /// The time since the message arrived, in ms.
    pub age_ms: u64,
    /// When the delivery ended, in ms since 1970.
    pub at_ms: u64,
    /// Why the receiver refused the message. The detail is cut, and control characters are escaped.
    pub error: Option<AttemptError>,
    /// The pod that delivered the message.
    pub pod: String,
}

/// The messages that senders publish, one per line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Told {
    /// A delivery.
    Delivery(Box<Delivery>),
    /// How many deliveries were not published, because there were too many.
    Missed(u64),
}

/// The events that a watcher receives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TailHeard {
    /// A message from a sender.
    Told(Told),
    /// The subscription has begun. If this comes after an interruption, the watcher missed the deliveries meanwhile.
    Begun,
}

/// The request for the deliveries of all destinations.
const ALL: &str = "*";

/// The destination in a request; `None` for all destinations; an error if the message is not a request.
pub(super) fn requested(message: &[u8]) -> Result<Option<DestinationName>, ()> {
    match std::str::from_utf8(message) {
        Ok(ALL) => Ok(None),
        Ok(name) => name.parse().map(Some).map_err(|_| ()),
        Err(_) => Err(()),
    }
}

impl Store {
    /// Asks all senders to publish the deliveries of a destination, or of all destinations, for the next seconds.
    pub async fn ask_for_deliveries(&self, of: Option<&DestinationName>) -> Result<(), StoreError> {
        let text = of.map_or(ALL, DestinationName::as_str);
        self.publish(&self.keys().wake_tail(), text).await
    }

    /// Publishes deliveries.
    pub async fn publish_deliveries(&self, told: &[Told]) -> Result<(), StoreError> {
        let lines = told.iter().filter_map(|one| serde_json::to_string(one).ok());
        let text = lines.collect::<Vec<_>>().join("\n");
        self.publish(&self.keys().tail(), &text).await
    }

    async fn publish(&self, channel: &str, text: &str) -> Result<(), StoreError> {
        let mut pipe = redis::pipe();
        pipe.cmd("SPUBLISH").arg(channel).arg(text).ignore();
        self.query_at::<()>(channel.as_bytes(), &pipe).await
    }

    /// Passes the messages of senders to `on_heard` until `stop`, over a separate connection.
    pub async fn hear_deliveries(
        &self,
        on_heard: impl Fn(TailHeard) + Send + Sync + 'static,
        stop: CancellationToken,
    ) {
        let channels = Channels { sharded: vec![self.keys().tail()], everywhere: None };
        let pass_on = move |heard: Heard| match heard {
            Heard::Gap => on_heard(TailHeard::Begun),
            Heard::Message { message, .. } => {
                for line in std::str::from_utf8(&message).into_iter().flat_map(str::lines) {
                    // A newer version may publish other kinds of messages.
                    if let Ok(told) = serde_json::from_str(line) {
                        on_heard(TailHeard::Told(told));
                    }
                }
            }
        };
        let always = move || channels.clone();
        self.client().subscribe(always, Arc::default(), Arc::new(pass_on), stop).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_names_a_destination_or_all() {
        assert_eq!(requested(b"*"), Ok(None));
        assert_eq!(requested(b"erp"), Ok(Some("erp".parse().unwrap())));
        assert_eq!((requested(b"\xff"), requested(b"a b")), (Err(()), Err(())));
    }
}
