//! What a kind of source must do. The rest of the program knows no more of it.

use std::{collections::BTreeMap, fmt};

use async_trait::async_trait;
use bytes::Bytes;
use serde_json::value::RawValue;
use tokio::sync::OwnedSemaphorePermit;

/// Why a source does not go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// Another process reads it, or a connection that this one had before. This one takes over when that one ends.
    Standby(String),
    /// It may work later, by itself.
    Later(String),
    /// Somebody has to do something.
    Halted(String),
    /// A destination has another mark than expected: go on after it.
    Rewind(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Fault::Standby(text) | Fault::Later(text) | Fault::Halted(text) | Fault::Rewind(text)) =
            self;
        f.write_str(text)
    }
}

/// The body of a message.
#[derive(Debug)]
pub enum Payload {
    /// JSON on one line.
    Json(Box<RawValue>),
    /// Anything else.
    Bytes { content_type: String, bytes: Bytes },
}

/// A message as the source has it.
#[derive(Debug)]
pub struct Content {
    /// Its destination. `None`: the only one of the source.
    pub destination: Option<String>,
    pub key: Option<String>,
    pub id: Option<String>,
    pub headers: BTreeMap<String, String>,
    pub payload: Payload,
}

impl Content {
    /// About how many bytes it has.
    pub fn bytes(&self) -> usize {
        let body = match &self.payload {
            Payload::Json(json) => json.get().len(),
            Payload::Bytes { bytes, .. } => bytes.len() / 3 * 4,
        };
        body + self.headers.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>()
    }
}

/// What follows in the source.
#[derive(Debug)]
pub enum Event {
    /// A message, or why it is none.
    Message {
        position: String,
        content: Result<Content, String>,
        /// What it holds until it is sent.
        held: Option<OwnedSemaphorePermit>,
    },
    /// All messages before this position have been read.
    Reached(String),
}

/// How a source is.
#[derive(Debug, Default)]
pub struct Health {
    /// Bytes, or messages, that it has and that were not read yet.
    pub lag: u64,
    /// Why it needs attention, though it goes on.
    pub problem: Option<String>,
    /// Why it must not go on before somebody has done something: it would miss messages.
    pub halted: Option<String>,
}

/// A result of `check`: what was checked, and the problem if there is one.
pub type Finding = (String, Option<String>);

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

    /// A position as a number that grows, for the metric.
    fn number(&self, position: &str) -> f64;

    /// What its lag counts.
    fn unit(&self) -> &'static str;
}
