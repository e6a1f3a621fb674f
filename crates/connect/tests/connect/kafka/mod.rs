//! Kafka as a source and as a sink.

mod broker;
mod faults;
mod sink;
mod source;
mod storms;
