//! Kafka: each partition of a topic as a source, and a topic as a sink.
//!
//! `krafka` is used in this module only. It needs Rust 1.95, the rest of the program does not.

mod cluster;
mod content;
mod delivery;
mod group;
mod partition;
mod sink;
mod writer;

use anyhow::ensure;
use serde::Deserialize;

use crate::settings::yes;

pub use cluster::Cluster;
pub use group::Topic;
pub use sink::{Settings as SinkSettings, Sink, check_sink};

/// The section `[source.kafka]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    pub topic: String,
    /// The consumer group. Without it: `reseq-` and the name of the source.
    group: Option<String>,
    /// The content type of records that have no header `content-type`.
    #[serde(default = "json")]
    content_type: String,
    /// The names of headers that travel, in lower case, or their beginnings followed by `*`.
    #[serde(default = "headers")]
    headers: Vec<String>,
    /// Send records without a value.
    #[serde(default = "yes")]
    tombstones: bool,
    /// After this time without a sign of life, another process gets the partitions.
    #[serde(default = "session_timeout_ms")]
    session_timeout_ms: u64,
}

fn json() -> String {
    "application/json".to_owned()
}

/// Those that travel by default in Reseq.
fn headers() -> Vec<String> {
    ["x-*", "ce-*", "traceparent", "tracestate", "webhook-*"].map(str::to_owned).into()
}

fn session_timeout_ms() -> u64 {
    10_000
}

/// Whether Kafka allows it as the name of a topic.
fn check_topic(topic: &str) -> anyhow::Result<()> {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let is_good = (1..=249).contains(&topic.len()) && topic.bytes().all(is_name);
    ensure!(is_good, "topic: {topic:?}; must be 1 to 249 letters, digits, . _ -");
    Ok(())
}

impl Settings {
    /// The error names the field.
    pub fn check(&self, destinations: usize) -> anyhow::Result<()> {
        check_topic(&self.topic)?;
        ensure!(destinations == 1, "destinations: {destinations}; a topic has one");
        ensure!(self.group.as_deref() != Some(""), "group: is empty");
        for name in &self.headers {
            let is_lower = !name.is_empty() && !name.contains(|c: char| c.is_ascii_uppercase());
            ensure!(
                is_lower,
                "headers: {name:?}; must be a name in lower case, or its beginning and *"
            );
        }
        ensure!(
            (1_000..=1_800_000).contains(&self.session_timeout_ms),
            "session_timeout_ms: {}; must be 1000 to 1800000",
            self.session_timeout_ms
        );
        Ok(())
    }

    /// Whether a header of this name travels.
    fn takes(&self, name: &str) -> bool {
        self.headers.iter().any(|listed| match listed.strip_suffix('*') {
            Some(beginning) => name.starts_with(beginning),
            None => name == listed,
        })
    }
}
