//! How a destination's messages are delivered, as its definition says.

use serde::{Deserialize, Serialize};

use crate::domain::Backoff;

/// How messages are delivered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Delivery {
    /// One attempt may take so long, in milliseconds.
    pub timeout_ms: u64,
    /// Lanes in flight at once.
    pub lanes_max: u32,
    /// Deliveries begun in one second, at most; 0: no limit.
    pub rate_per_second_max: u32,
    /// After so many failed attempts the message is given up (`on_exhausted`); 0: never.
    pub attempts_max: u32,
    /// The upper end of the first wait between attempts, in milliseconds.
    pub backoff_ms: u64,
    /// The longest wait between attempts, in milliseconds.
    pub backoff_max_ms: u64,
    /// The longest wait that the other side may ask for (`Retry-After`), in milliseconds.
    pub retry_after_max_ms: u64,
    /// HTTP: the most messages of one request; 1: each by itself, as it is.
    pub batch_max: u32,
    /// The most bytes of bodies in one batch, or in one window (one message is always sent).
    pub batch_bytes_max: u64,
    /// HTTP: how long a batch that is not full waits for more, in milliseconds.
    pub batch_linger_ms: u64,
    /// HTTP: how a batch is written.
    pub batch_format: BatchFormat,
    /// TCP: the most frames of one lane that are sent before the first of them is answered.
    pub window_max: u32,
    /// TCP: how messages are told apart on the connection.
    pub framing: Framing,
    /// TCP: what a frame holds.
    pub envelope: Envelope,
    /// TCP: whether the receiver answers each frame.
    pub ack: Ack,
}

/// How a batch of messages is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BatchFormat {
    /// One JSON array of envelopes.
    #[default]
    Json,
    /// One envelope a line.
    Ndjson,
}

/// How messages are told apart on a TCP connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Framing {
    /// A message is a line; it cannot contain `\n`.
    #[default]
    Lines,
    /// 4 bytes of length, big-endian, then so many bytes.
    Length,
}

/// What a frame on a TCP connection holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Envelope {
    /// The body, and nothing else.
    #[default]
    None,
    /// A JSON object that holds the body and what belongs to it.
    Json,
}

/// Whether a TCP receiver answers each frame.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ack {
    /// `OK`, `RETRY [ms]` or `REJECT <reason>`, a frame each, in order.
    #[default]
    Line,
    /// It does not: what was written to the socket counts as delivered, and may be lost.
    None,
}

impl Default for Delivery {
    fn default() -> Self {
        Delivery {
            timeout_ms: 15_000,
            lanes_max: 64,
            rate_per_second_max: 0,
            attempts_max: 0,
            backoff_ms: 200,
            backoff_max_ms: 30_000,
            retry_after_max_ms: 3_600_000,
            batch_max: 1,
            batch_bytes_max: 1 << 20,
            batch_linger_ms: 0,
            batch_format: BatchFormat::Json,
            window_max: 1,
            framing: Framing::Lines,
            envelope: Envelope::None,
            ack: Ack::Line,
        }
    }
}

impl Delivery {
    /// The wait between attempts.
    pub fn backoff(&self) -> Backoff {
        Backoff { base_ms: self.backoff_ms, max_ms: self.backoff_max_ms }
    }
}
