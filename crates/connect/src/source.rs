//! What a kind of source must do. The rest of the program knows no more of it.

use std::{collections::BTreeMap, time::Duration};

use async_trait::async_trait;
use base64::{Engine, prelude::BASE64_STANDARD};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::sync::OwnedSemaphorePermit;

/// Why a source or a sink does not go on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Another process reads it, or a connection that this one had before. This one takes over when that one ends.
    #[error("{0}")]
    Standby(String),
    /// It may work later, by itself.
    #[error("{0}")]
    Later(String),
    /// Somebody has to do something.
    #[error("{0}")]
    Halted(String),
    /// A destination has another mark than expected, or a topic other partitions: begin again.
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

/// A message as the source has it, with the fields that it has for the service.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Content {
    /// Its destination. `None`: the only one of the source.
    #[serde(skip_serializing)]
    pub destination: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// Its body: JSON on one line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<Box<RawValue>>,
    /// Or anything else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body_base64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
}

impl Content {
    /// Gives it these bytes as its body.
    pub fn set_bytes(&mut self, content_type: &str, bytes: &[u8]) {
        self.body_base64 = Some(BASE64_STANDARD.encode(bytes));
        self.content_type = Some(content_type.to_owned());
    }

    /// About how many bytes it has.
    pub fn bytes(&self) -> usize {
        let body = self.body.as_ref().map_or(0, |body| body.get().len());
        let headers = self.headers.iter().map(|(name, value)| name.len() + value.len());
        body + self.body_base64.as_ref().map_or(0, String::len) + headers.sum::<usize>()
    }
}

/// What follows in the source: all before this position has been read.
#[derive(Debug)]
pub struct Event {
    pub position: String,
    /// The message there, or why it is none. `None`: nobody wants what is there.
    pub content: Option<Result<Content, String>>,
    /// What it holds until it is sent.
    pub held: Option<OwnedSemaphorePermit>,
}

/// How a source is.
#[derive(Debug, Default)]
pub struct Health {
    /// Bytes, or messages, that it has and that were not read yet.
    pub lag: u64,
    pub unit: &'static str,
    /// What was read, as a number that grows, for the metric.
    pub at: f64,
    /// Why it needs attention, though it goes on.
    pub problem: Option<String>,
    /// Why it must not go on before somebody has done something: it would miss messages.
    pub halted: Option<String>,
}

/// A result of `check`: what was checked, and the problem if there is one.
pub type Finding = (String, Option<Fault>);

/// Something with an order that can be read again from a position on. Positions are texts that sort byte by byte.
#[async_trait]
pub trait Source: Send {
    /// The name under which destinations keep its marks. It changes when positions lose their meaning. Ends what
    /// [`Source::open`] began.
    async fn name(&mut self) -> Result<String, Fault>;

    /// The position before the first message to send, where destinations have no mark. `at`: where somebody says to
    /// begin; without it, only a source that nobody has read may begin.
    async fn begin(&mut self, at: Option<&str>) -> Result<String, Fault>;

    /// Reads from `after` on. Fails with [`Fault::Halted`] if the source has no longer all that follows.
    async fn open(&mut self, after: &str) -> Result<(), Fault>;

    /// What follows. May be cancelled without losing anything.
    async fn next(&mut self) -> Result<Event, Fault>;

    /// All destinations have all messages up to this position.
    fn confirm(&mut self, position: &str);

    /// How it is, once a second, if all up to this position was read.
    async fn health(&mut self, read: &str) -> Result<Health, Fault>;

    /// Whether all that it needs is there. Changes nothing.
    async fn check(&mut self) -> Vec<Finding>;
}
