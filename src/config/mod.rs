//! Configuration: one struct a section, defaults, checked at start.
//!
//! A TOML file, over it the environment: each plain field has a variable, `RESEQ_` and its path
//! in capitals with `_` between (`redis.url` is `RESEQ_REDIS_URL`). What is unknown or out of
//! range is refused with the field's name.

mod file;
mod overlay;
mod topology;
mod validate;

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use serde::{Deserialize, Serialize};

pub use topology::{Access, Host, Topology};

use crate::domain::{Destination, DestinationName, Envelope, Framing, Topic};

/// The whole configuration.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The HTTP listener.
    pub http: Http,
    /// The Redis that holds everything.
    pub redis: Redis,
    /// The ingest role.
    pub ingest: Ingest,
    /// The processor role.
    pub processor: Processor,
    /// The sender role.
    pub sender: Sender,
    /// After SIGTERM the process exits within so many milliseconds.
    pub shutdown_ms: u64,
    /// Destinations that belong to this file.
    #[serde(rename = "destination")]
    pub destinations: Vec<Destination>,
    /// Topics that belong to this file.
    #[serde(rename = "topic")]
    pub topics: Vec<Topic>,
    /// TCP listeners.
    pub tcp: Vec<TcpListener>,
}

/// The HTTP listener.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Http {
    /// The address to listen on. Port 0 takes a free one.
    pub listen: SocketAddr,
    /// The largest body of one message, in bytes.
    pub body_bytes_max: usize,
    /// The largest batch (NDJSON, completions), in bytes.
    pub batch_bytes_max: usize,
    /// The most levels that the JSON of a message's body, and of any answer, may nest.
    pub json_depth_max: usize,
    /// The most connections at once; 0: a quarter of the file descriptors, at most 4,096.
    pub connections_max: usize,
    /// The head of a request that has begun comes to its end within so many milliseconds.
    pub header_timeout_ms: u64,
    /// A connection without a request, or whose answer is not read, is closed after so many
    /// milliseconds.
    pub idle_timeout_ms: u64,
    /// What is sent to a client and not acknowledged by its system for so many milliseconds is lost, and
    /// the connection with it.
    pub acknowledge_timeout_ms: u64,
    /// The least speed of a body that has begun, and of a TCP frame, in bytes a second; 0: none.
    pub body_bytes_per_second_min: u64,
    /// That speed is the mean over so many milliseconds.
    pub body_window_ms: u64,
}

/// The Redis that holds everything.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Redis {
    /// `redis://…`, `unix://…`, `redis+sentinel://…` or `redis+cluster://…`. Empty: embedded, a
    /// private redis-server in `data_dir`.
    pub url: String,
    /// The name of an ACL user, for the sentinels themselves. Empty: none.
    pub sentinel_user: String,
    /// The password for the sentinels themselves. Empty: none.
    pub sentinel_password: String,
    /// Where the embedded redis-server keeps its files.
    pub data_dir: PathBuf,
    /// What every key starts with.
    pub prefix: String,
    /// Partitions of the deployment: set when it is first started, and never changed.
    pub partitions: u16,
    /// Connections of one pod, each shared by many calls.
    pub connections: usize,
    /// An unanswered command counts as failed after so many milliseconds.
    pub timeout_ms: u64,
    /// Replicas that each primary has. Destinations with `durability = "replicated"` wait for all of
    /// them, those with `"quorum"` and ownership of partitions for half of them.
    pub replicas: u8,
}

/// The ingest role.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Ingest {
    /// The most messages stamped in one call.
    pub batch_max: usize,
    /// The most bytes of arrivals on their way into Redis at once; producers wait beyond it.
    pub bytes_in_flight_max: usize,
    /// While Redis does not answer, calls are made again for so long, in milliseconds, before a producer
    /// gets its 503; one that is under way then is waited for.
    pub retry_ms: u64,
    /// The most TCP connections at once, over all listeners; 0: a quarter of the file descriptors, at
    /// most 1,024.
    pub connections_max: usize,
    /// Frames of one TCP connection on their way into Redis at once.
    pub frames_in_flight_max: usize,
    /// While Redis uses this much of its `maxmemory`, in percent, nothing is taken in; 0: never.
    pub memory_high_percent: u8,
}

/// The processor role.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Processor {
    /// Messages in processing at once in this pod.
    pub concurrency: usize,
    /// A lease lasts so long unless extended, in milliseconds.
    pub lease_ms: u64,
}

/// The sender role.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Sender {
    /// Ownership of a partition lasts so long unless renewed, in milliseconds.
    pub lease_ms: u64,
    /// The most messages of one lane released in one call.
    pub release_batch_max: usize,
}

/// A TCP listener that feeds one destination.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TcpListener {
    /// The address to listen on.
    pub listen: SocketAddr,
    /// The destination of every frame.
    pub destination: DestinationName,
    /// How messages are told apart.
    #[serde(default)]
    pub framing: Framing,
    /// What a frame holds.
    #[serde(default)]
    pub envelope: Envelope,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            http: Http::default(),
            redis: Redis::default(),
            ingest: Ingest::default(),
            processor: Processor::default(),
            sender: Sender::default(),
            shutdown_ms: 20_000,
            destinations: Vec::new(),
            topics: Vec::new(),
            tcp: Vec::new(),
        }
    }
}

impl Default for Http {
    fn default() -> Self {
        Http {
            listen: SocketAddr::from(([127, 0, 0, 1], 8080)),
            body_bytes_max: 1 << 20,
            batch_bytes_max: 16 << 20,
            json_depth_max: 128,
            connections_max: 0,
            header_timeout_ms: 15_000,
            acknowledge_timeout_ms: 15_000,
            idle_timeout_ms: 75_000,
            body_bytes_per_second_min: 1024,
            body_window_ms: 10_000,
        }
    }
}

impl Default for Redis {
    fn default() -> Self {
        Redis {
            url: String::new(),
            sentinel_user: String::new(),
            sentinel_password: String::new(),
            data_dir: PathBuf::from("reseq-data"),
            prefix: "reseq".into(),
            partitions: 64,
            connections: 4,
            timeout_ms: 5_000,
            replicas: 0,
        }
    }
}

impl Default for Ingest {
    fn default() -> Self {
        Ingest {
            batch_max: 512,
            bytes_in_flight_max: 256 << 20,
            retry_ms: 5_000,
            connections_max: 0,
            frames_in_flight_max: 1_024,
            memory_high_percent: 90,
        }
    }
}

impl Default for Processor {
    fn default() -> Self {
        Processor { concurrency: 256, lease_ms: 10_000 }
    }
}

impl Default for Sender {
    fn default() -> Self {
        Sender { lease_ms: 5_000, release_batch_max: 128 }
    }
}

impl std::fmt::Debug for Redis {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Redis")
            .field("url", &self.url_masked())
            .field("data_dir", &self.data_dir)
            .field("partitions", &self.partitions)
            .finish_non_exhaustive()
    }
}

impl Redis {
    /// True when Reseq starts its own redis-server.
    pub fn is_embedded(&self) -> bool {
        self.url.is_empty()
    }

    /// The URL with its password hidden, for people to read.
    pub fn url_masked(&self) -> String {
        match self.topology() {
            _ if self.url.is_empty() => "embedded".into(),
            Ok(topology) => topology.masked(),
            Err(_) => "(not a URL)".into(),
        }
    }

    /// Where Redis is. What is wrong with the URL is told without its password.
    pub fn topology(&self) -> Result<Topology, String> {
        Topology::parse(&self.url)
    }

    /// How long an unanswered command is waited for.
    pub fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout_ms)
    }
}

/// A configuration that cannot be used: says which field, and what would be right.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file could not be read.
    #[error("the configuration file {path} cannot be read: {source}")]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file is not TOML, or not this configuration.
    #[error("the configuration file {path} is not valid:\n{problem}")]
    InvalidFile {
        /// Which file.
        path: PathBuf,
        /// Where in it, and what is wrong.
        problem: String,
    },
    /// An environment variable is unknown or its value cannot be read.
    #[error("the environment variable {name} is not valid: {problem}")]
    InvalidVariable {
        /// Which variable.
        name: String,
        /// What is wrong.
        problem: String,
    },
    /// A field's value is out of range or contradicts another.
    #[error("the configuration field {field} is not valid: {problem}")]
    InvalidField {
        /// The field's path.
        field: String,
        /// What is wrong, and what would be right.
        problem: String,
    },
}

impl Config {
    /// Reads the file, if any, and the environment over it, and checks the whole.
    pub fn load(
        file: Option<&Path>,
        environment: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Config, ConfigError> {
        let mut config = match file {
            Some(path) => file::read(path)?,
            None => Config::default(),
        };
        config = overlay::environment(config, environment)?;
        config.validate()?;
        Ok(config)
    }
}

/// A field that cannot be used.
pub fn invalid(field: &str, problem: String) -> ConfigError {
    ConfigError::InvalidField { field: field.into(), problem }
}

#[cfg(test)]
mod tests;
