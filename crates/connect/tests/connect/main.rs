//! Tests `reseq-connect` between a real Postgres or Kafka and a real Reseq.

mod connector;
#[cfg(feature = "kafka")]
mod kafka;
mod outbox;
mod outbox_gone;
mod postgres;
mod reseq;
mod storms;
mod world;
