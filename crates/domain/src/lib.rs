//! The core types and rules of Reseq, without I/O and without async.
//!
//! All other modules (store, stages, API) use these types. Nothing in this module uses Redis, HTTP
//! or a clock.

pub mod attempts;
pub mod backoff;
pub mod destination;
pub mod duration;
pub mod excerpt;
pub mod hex;
pub mod lease;
pub mod merge_patch;
pub mod message;
pub mod name;
pub mod nearest;
pub mod network;
mod partitions;
mod processing_options;
mod retry;
pub mod secret;
pub mod shell;
pub mod state;
pub mod token;
pub mod topic;
pub mod trace;

pub use attempts::{AttemptError, Attempts, ErrorKind, Stage};
pub use backoff::{Backoff, wait_in_units};
pub use destination::{
    Ack, BatchFormat, Delivery, DeliveryKind, Destination, Durability, Envelope, Framing,
    IdempotencyCompare, OnExhausted, Ordering, Processing, Transform, TransformKind,
    expression::Expression,
};
pub use lease::{LeaseToken, WorkerName};
pub use message::{
    Arrival, Body, ConsumerRefusal, Due, Message, MessageIds, Origin, OutOfLine, Position,
    Processed, Redrive, Source, Stamped, Tombstone,
};
pub use name::{DestinationName, InvalidName};
pub use network::AllowedNetwork;
pub use partitions::Partitions;
pub use processing_options::ProcessingOptions;
pub use retry::{Disposition, Finality, RetryPolicy};
pub use state::State;
pub use token::{Grant, Scope, Token, TokenText};
pub use topic::{Topic, TopicName};
pub use trace::TraceContext;

/// The number that ingest stamps, per destination: 1, 2, 3 … without gaps. Always below 2^53.
pub type Sequence = u64;

/// The most messages of a lane that one call releases.
pub const RELEASE_BATCH_MAX: usize = 1024;

/// A number that goes up whenever Redis may have lost data, so that `(epoch, sequence)` never repeats.
pub type Epoch = u64;
