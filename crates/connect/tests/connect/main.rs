//! Tests `reseq-connect` between a real Postgres and a real Reseq.

mod connector;
mod outbox;
mod postgres;
mod storms;
mod world;
