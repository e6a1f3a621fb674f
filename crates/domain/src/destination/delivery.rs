//! The delivery settings of a destination.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Backoff;

/// How messages are delivered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Delivery {
    /// Who gets the messages: a receiver, consumers, or nobody.
    pub kind: DeliveryKind,
    /// Time limit of one attempt, in milliseconds. With `pull`: how long the lease of a consumer lasts, unless the
    /// consumer extends it.
    pub timeout_ms: u64,
    /// The most lanes that have a delivery in flight at once.
    pub lanes_max: u32,
    /// The most deliveries started per second; 0: no limit.
    pub rate_per_second_max: u32,
    /// After this many failed attempts, Reseq gives the message up (`on_exhausted`); 0: never.
    pub attempts_max: u32,
    /// The upper limit of the first wait between attempts, in milliseconds.
    pub backoff_ms: u64,
    /// The longest wait between attempts, in milliseconds.
    pub backoff_max_ms: u64,
    /// The longest `Retry-After` that is honoured, in milliseconds.
    pub retry_after_max_ms: u64,
    /// After this many failed deliveries in a row, of several messages, Reseq sends only one delivery at a time, as a
    /// probe, until the receiver accepts one; 0: never.
    pub breaker_failures: u32,
    /// HTTP: the most messages per request; 1: no batches.
    pub batch_max: u32,
    /// The most bytes of bodies in one batch or window. One message is always sent, even if it is larger.
    pub batch_bytes_max: u64,
    /// HTTP: how long a batch that is not full waits for more messages, in milliseconds.
    pub batch_linger_ms: u64,
    /// HTTP: the format of a batch.
    pub batch_format: BatchFormat,
    /// TCP: the most unanswered frames of one lane.
    pub window_max: u32,
    /// TCP: how frames are separated.
    pub framing: Framing,
    /// TCP: the content of a frame.
    pub envelope: Envelope,
    /// TCP: whether the receiver answers each frame.
    pub ack: Ack,
}

/// Who gets the messages of a destination.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DeliveryKind {
    /// A receiver: Reseq sends the messages to its `url`.
    #[default]
    Push,
    /// Consumers, which fetch the messages from Reseq.
    Pull,
    /// Nobody: a message ends when it has been processed.
    None,
}

/// The format of a batch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum BatchFormat {
    /// One JSON array of envelopes.
    #[default]
    Json,
    /// One envelope per line.
    Ndjson,
}

/// How frames on a TCP connection are separated.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Framing {
    /// A message is a line; it cannot contain `\n`.
    #[default]
    Lines,
    /// 4 bytes of length (big-endian), then that many bytes.
    Length,
}

/// The content of a frame on a TCP connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Envelope {
    /// Only the body.
    #[default]
    None,
    /// A JSON object with the body and the other fields of the message.
    Json,
}

/// Whether a TCP receiver answers each frame.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Ack {
    /// The receiver answers each frame with `OK`, `RETRY [ms]` or `REJECT <reason>`, one frame each, in order.
    #[default]
    Line,
    /// The receiver sends no answers: data written to the socket counts as delivered, and may be lost.
    None,
}

impl Default for Delivery {
    fn default() -> Self {
        Delivery {
            kind: DeliveryKind::Push,
            timeout_ms: 15_000,
            lanes_max: 64,
            rate_per_second_max: 0,
            attempts_max: 0,
            backoff_ms: 200,
            backoff_max_ms: 30_000,
            retry_after_max_ms: 3_600_000,
            breaker_failures: 10,
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

    /// The longest time for which a lane may have to wait, in ms: between attempts, or for a consumer with a lease on
    /// its head.
    pub fn wait_max_ms(&self) -> u64 {
        let lease_ms = if self.kind == DeliveryKind::Pull { self.timeout_ms } else { 0 };
        self.backoff_max_ms.max(self.retry_after_max_ms).max(lease_ms)
    }

    /// The first field that differs from its default, but has no effect with this kind of delivery.
    pub(super) fn unused(&self) -> Option<&'static str> {
        let Delivery { timeout_ms, lanes_max, rate_per_second_max, attempts_max, .. } = *self;
        let Delivery { backoff_ms, backoff_max_ms, retry_after_max_ms, breaker_failures, .. } =
            *self;
        let Delivery { batch_max, batch_bytes_max, batch_linger_ms, batch_format, .. } = *self;
        let Delivery { window_max, framing, envelope, ack, .. } = *self;
        let usual = Delivery::default();
        // Consumers have leases, attempts and backoffs.
        let of_consumers = ["timeout_ms", "lanes_max", "attempts_max", "backoff_ms"];
        let of_consumers = [&of_consumers[..], &["backoff_max_ms", "retry_after_max_ms"]].concat();
        let is_used = |field: &str| {
            let name = field.trim_start_matches("delivery.");
            self.kind == DeliveryKind::Pull && of_consumers.contains(&name)
        };
        let differ = [
            ("delivery.timeout_ms", timeout_ms != usual.timeout_ms),
            ("delivery.lanes_max", lanes_max != usual.lanes_max),
            ("delivery.rate_per_second_max", rate_per_second_max != usual.rate_per_second_max),
            ("delivery.attempts_max", attempts_max != usual.attempts_max),
            ("delivery.backoff_ms", backoff_ms != usual.backoff_ms),
            ("delivery.backoff_max_ms", backoff_max_ms != usual.backoff_max_ms),
            ("delivery.retry_after_max_ms", retry_after_max_ms != usual.retry_after_max_ms),
            ("delivery.breaker_failures", breaker_failures != usual.breaker_failures),
            ("delivery.batch_max", batch_max != usual.batch_max),
            ("delivery.batch_bytes_max", batch_bytes_max != usual.batch_bytes_max),
            ("delivery.batch_linger_ms", batch_linger_ms != usual.batch_linger_ms),
            ("delivery.batch_format", batch_format != usual.batch_format),
            ("delivery.window_max", window_max != usual.window_max),
            ("delivery.framing", framing != usual.framing),
            ("delivery.envelope", envelope != usual.envelope),
            ("delivery.ack", ack != usual.ack),
        ];
        let unused = differ.into_iter().find(|(field, differs)| *differs && !is_used(field));
        unused.map(|(field, _)| field)
    }
}
