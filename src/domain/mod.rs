//! The nouns of Reseq: pure types and rules, without I/O and without async.
//!
//! Everything above (store, the three stages, the API) speaks in these words; nothing here knows
//! Redis, HTTP or a clock.

pub mod attempts;
pub mod backoff;
pub mod destination;
pub mod lease;
pub mod message;
pub mod name;
pub mod state;
pub mod topic;

pub use attempts::{AttemptError, Attempts, ErrorKind, Stage};
pub use backoff::Backoff;
pub use destination::{
    Ack, BatchFormat, Delivery, Destination, Durability, Envelope, Framing, OnExhausted, Ordering,
    Processing, Transform, TransformKind, expression::Expression,
};
pub use lease::LeaseToken;
pub use message::{
    Apart, Arrival, Body, Due, Message, Origin, Position, Processed, Redrive, Stamped, Tombstone,
};
pub use name::{DestinationName, InvalidName};
pub use state::{Event, InvalidTransition, State};
pub use topic::{Topic, TopicName};

/// The number that ingest stamps, per destination: 1, 2, 3 … without gaps. Kept below 2^53.
pub type Sequence = u64;

/// Changes whenever Redis may have forgotten something; `(epoch, sequence)` never repeats.
pub type Epoch = u64;
