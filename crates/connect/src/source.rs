//! The interface of a source. The rest of the program does not depend on the kind of source.

use std::{collections::BTreeMap, time::Duration};

use async_trait::async_trait;
use base64::{Engine, prelude::BASE64_STANDARD};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::sync::OwnedSemaphorePermit;

/// The reason why a source or a sink does not continue.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Another process, or an earlier connection of this one, reads the source. This process takes over when the other
    /// ends.
    #[error("{0}")]
    Standby(String),
    /// The source may work later, without an operator.
    #[error("{0}")]
    Later(String),
    /// The source waits for an operator.
    #[error("{0}")]
    Halted(String),
    /// The mark of a destination is not the expected one, or the partitions of a topic have changed. The source must
    /// begin again.
    #[error("{0}")]
    Rewind(String),
}

impl Fault {
    /// The wait before the next try.
    pub fn wait(&self) -> Duration {
        match self {
            Fault::Rewind(_) => Duration::from_millis(100),
            Fault::Standby(_) | Fault::Later(_) => Duration::from_secs(1),
            Fault::Halted(_) => Duration::from_secs(5),
        }
    }
}

/// A message of a source, with its fields for the service.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Content {
    /// The destination of the message. `None`: the only destination of the source.
    #[serde(skip_serializing)]
    pub destination: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// The body, if it is JSON on one line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<Box<RawValue>>,
    /// The body, if it is anything else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body_base64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
}

impl Content {
    /// Sets these bytes as the body.
    pub fn set_bytes(&mut self, content_type: &str, bytes: &[u8]) {
        self.body_base64 = Some(BASE64_STANDARD.encode(bytes));
        self.content_type = Some(content_type.to_owned());
    }

    /// The approximate number of bytes of the message.
    pub fn bytes(&self) -> usize {
        let body = self.body.as_ref().map_or(0, |body| body.get().len());
        let headers = self.headers.iter().map(|(name, value)| name.len() + value.len());
        body + self.body_base64.as_ref().map_or(0, String::len) + headers.sum::<usize>()
    }
}

/// Why a position has no message that can be sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// This message is wrong.
    #[error("{0}")]
    Message(String),
    /// The configuration does not fit the source, so the messages that follow are likely to have the same problem.
    #[error("{0}")]
    Settings(String),
}

impl From<String> for Unfit {
    fn from(why: String) -> Unfit {
        Unfit::Message(why)
    }
}

/// The next event of a source. All messages up to this position have been read.
#[derive(Debug)]
pub struct Event {
    pub position: String,
    /// The message at the position, or the reason why it cannot be sent. `None`: there is nothing to send.
    pub content: Option<Result<Content, Unfit>>,
    /// The memory that the event reserves until it is sent.
    pub held: Option<OwnedSemaphorePermit>,
}

/// The state of a source.
#[derive(Debug, Default)]
pub struct Health {
    /// The number of bytes or messages in the source that were not read yet.
    pub lag: u64,
    pub unit: &'static str,
    /// The position as a growing number, for the metric.
    pub at: f64,
    /// A problem that needs attention although the source continues.
    pub problem: Option<String>,
    /// The reason why the source must wait for an operator: otherwise messages would be lost.
    pub halted: Option<String>,
}

/// A result of `check`: what was checked, and the problem if there is one.
pub type Finding = (String, Option<Fault>);

/// An ordered source of messages, which can be read again from a position. Positions are texts that sort byte by byte.
#[async_trait]
pub trait Source: Send {
    /// The name under which destinations keep the marks of the source. It changes when positions lose their meaning.
    /// Ends the reading that [`Source::open`] began.
    async fn name(&mut self) -> Result<String, Fault>;

    /// The position before the first message to send, if destinations have no mark. `at`: the position that the user
    /// gave. Without it, fails if any process has read the source before.
    async fn begin(&mut self, at: Option<&str>) -> Result<String, Fault>;

    /// Begins to read after the position `after`. Fails with [`Fault::Halted`] if the source has lost messages behind
    /// it.
    async fn open(&mut self, after: &str) -> Result<(), Fault>;

    /// The next event. Cancel-safe.
    async fn next(&mut self) -> Result<Event, Fault>;

    /// Called when all destinations have all messages up to this position.
    fn confirm(&mut self, position: &str);

    /// The state of the source, once a second, if everything up to this position was read.
    async fn health(&mut self, read: &str) -> Result<Health, Fault>;

    /// Checks that the source has everything that it needs to go on after this mark, or without one to begin. Changes
    /// nothing.
    async fn check(&mut self, mark: Option<&str>) -> Vec<Finding>;
}
