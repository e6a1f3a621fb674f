//! Kafka: each partition of a topic is a source, and a topic can be a sink.
//!
//! Only this module uses `krafka`, which needs Rust 1.95. The rest of the program does not.

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
pub use partition::check_begin;
pub use sink::{Settings as SinkSettings, Sink, check_sink};

/// The section `[source.kafka]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    pub topic: String,
    /// The consumer group. Default: `reseq-` and the name of the source.
    group: Option<String>,
    /// The content type of records without a header `content-type`.
    #[serde(default = "json")]
    content_type: String,
    /// Headers to send with the message: names in lower case, or prefixes that end with `*`.
    #[serde(default = "headers")]
    headers: Vec<String>,
    /// Whether to send records without a value.
    #[serde(default = "yes")]
    tombstones: bool,
    /// If a process gives no sign of life for this time, another process gets its partitions.
    #[serde(default = "session_timeout_ms")]
    session_timeout_ms: u64,
}

fn json() -> String {
    "application/json".to_owned()
}

/// The headers that travel by default in Reseq.
fn headers() -> Vec<String> {
    ["x-*", "ce-*", "traceparent", "tracestate", "webhook-*"].map(str::to_owned).into()
}

fn session_timeout_ms() -> u64 {
    10_000
}

/// Refuses a name of a topic that Kafka does not allow.
fn check_topic(topic: &str) -> anyhow::Result<()> {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let is_good = (1..=249).contains(&topic.len()) && topic.bytes().all(is_name);
    ensure!(is_good, "topic: {topic:?}; must be 1 to 249 letters, digits, . _ -");
    Ok(())
}

impl Settings {
    /// Checks the section. An error names the field.
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

    /// True if a header with this name is sent with the message.
    fn takes(&self, name: &str) -> bool {
        self.headers.iter().any(|listed| match listed.strip_suffix('*') {
            Some(beginning) => name.starts_with(beginning),
            None => name == listed,
        })
    }
}
