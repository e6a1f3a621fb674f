//! The configuration: one struct for each section, with defaults. Reseq checks it at the start.
//!
//! The environment overrides the TOML file: each plain field has a variable, `RESEQ_` and its
//! path in upper case, joined with `_` (`redis.url` is `RESEQ_REDIS_URL`). An error names the
//! field that is unknown or out of range.

mod admin;
mod audit;
mod auth;
mod definitions;
mod file;
mod kubernetes;
mod listen;
mod log;
mod outgoing;
mod overlay;
mod reload;
mod secrets;
mod tls;
mod topology;
mod tracing;
mod validate;

use std::{
    collections::HashMap,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use serde::{Deserialize, Serialize};

pub use admin::Admin;
pub use audit::Audit;
pub use auth::{Auth, AuthMode, CertificateGrant};
pub use definitions::{Definitions, FileRule};
pub use listen::{InvalidListen, Listen};
pub use log::{Log, LogFormat};
pub use outgoing::Outgoing;
pub use reload::Changes;
pub use secrets::{Secrets, read_secret, with_references};
pub use tls::{ClientTls, ListenerTls};
pub use topology::{Access, Host, Topology};
pub use tracing::Tracing;

use domain::{Destination, DestinationName, Envelope, Framing, Topic, secret};

/// The value of `redis.url` that makes Reseq start its own redis-server.
pub const EMBEDDED: &str = "embedded";

/// The whole configuration.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Controls which callers this process accepts.
    pub auth: Auth,
    /// The HTTP listener.
    pub http: Http,
    /// The HTTP listener for operators.
    pub admin: Admin,
    /// The audit log: the actions of operators.
    pub audit: Audit,
    /// Rules for the definitions in this file.
    pub definitions: Definitions,
    /// The Redis that holds all state.
    pub redis: Redis,
    /// The ingest role.
    pub ingest: Ingest,
    /// The processor role.
    pub processor: Processor,
    /// The sender role.
    pub sender: Sender,
    /// The addresses to which deliveries and transforms may connect.
    pub outgoing: Outgoing,
    /// The log.
    pub log: Log,
    /// Traces.
    pub tracing: Tracing,
    /// Encryption of the secrets of destinations in Redis.
    pub secrets: Secrets,
    /// The process exits within this many milliseconds after SIGTERM.
    pub shutdown_ms: u64,
    /// Threads that run the work of `reseq serve`; 0: one for each CPU in a sender, one for two CPUs in other processes.
    pub threads: usize,
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
    /// The address or name to listen on. Port 0 takes a free port.
    pub listen: Listen,
    /// The largest body of one message, in bytes.
    pub body_bytes_max: usize,
    /// The largest batch (NDJSON messages, results of workers), in bytes.
    pub batch_bytes_max: usize,
    /// The most levels of nesting in the JSON of a message's body, and of any answer.
    pub json_depth_max: usize,
    /// The most connections at once; 0: a quarter of the file descriptors, at most 4,096.
    pub connections_max: usize,
    /// The most connections at once from one address (with IPv6, from one /64 network); 0: no limit.
    pub connections_per_address_max: usize,
    /// Time limit for the head of a request, in milliseconds.
    pub header_timeout_ms: u64,
    /// Reseq closes a connection after this many milliseconds without a request, or if the client
    /// does not read the answer.
    pub idle_timeout_ms: u64,
    /// Reseq closes a connection if the client's system does not acknowledge sent data within
    /// this many milliseconds.
    pub acknowledge_timeout_ms: u64,
    /// The lowest allowed speed of a body or TCP frame once it has begun, in bytes per second; 0: no limit.
    pub body_bytes_per_second_min: u64,
    /// The speed is averaged over this many milliseconds.
    pub body_window_ms: u64,
    /// Certificates of this listener.
    pub tls: ListenerTls,
}

/// The Redis that holds all state.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Redis {
    /// `redis://…`, `unix://…`, `redis+sentinel://…` or `redis+cluster://…`, or over TLS with
    /// `rediss`; or `embedded`: a private redis-server in `data_dir`. Has no default: a lost
    /// variable must not lead to an empty database.
    #[serde(deserialize_with = "secret::text")]
    pub url: String,
    /// The ACL user on the sentinels themselves. Empty: none.
    pub sentinel_user: String,
    /// The password for the sentinels themselves. Empty: none.
    #[serde(deserialize_with = "secret::text")]
    pub sentinel_password: String,
    /// The directory of the embedded redis-server's files.
    pub data_dir: PathBuf,
    /// The prefix of every key.
    pub prefix: String,
    /// Number of partitions. Set when the deployment first starts, and never changed.
    pub partitions: u16,
    /// Connections of one pod, each shared by many calls.
    pub connections: usize,
    /// A command without an answer fails after this many milliseconds.
    pub timeout_ms: u64,
    /// Replicas of each primary. Destinations with `durability = "replicated"` wait for all replicas. Destinations with
    /// `"quorum"`, and the ownership of partitions, wait for half of the replicas.
    pub replicas: u8,
    /// Certificates of `rediss` URLs.
    pub tls: ClientTls,
}

/// The ingest role.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Ingest {
    /// The most messages stamped in one call.
    pub batch_max: usize,
    /// The most bytes of arrivals in flight to Redis. Beyond that, producers wait.
    pub bytes_in_flight_max: usize,
    /// While Redis does not answer, Reseq retries calls for this many milliseconds. Then the producer gets a 503. Reseq
    /// still waits for the answer to a call in flight.
    pub retry_ms: u64,
    /// The most TCP connections at once, over all listeners; 0: a quarter of the file descriptors, at
    /// most 1,024.
    pub connections_max: usize,
    /// The most TCP connections at once from one address, at each listener; 0: no limit.
    pub connections_per_address_max: usize,
    /// The most unanswered frames of one TCP connection.
    pub frames_in_flight_max: usize,
    /// Ingest stops while Redis uses at least this percentage of its `maxmemory`; 0: never.
    pub memory_high_percent: u8,
}

/// The processor role.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Processor {
    /// The most messages in processing at once in this pod.
    pub concurrency: usize,
    /// The length of a lease, in milliseconds, unless the processor extends it.
    pub lease_ms: u64,
}

/// The sender role.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Sender {
    /// The length of a partition lease, in milliseconds, unless the sender renews it.
    pub lease_ms: u64,
    /// The most messages of one lane that one call releases.
    pub release_batch_max: usize,
}

/// A TCP listener for one destination.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TcpListener {
    /// The address or name to listen on.
    pub listen: Listen,
    /// The destination of every frame.
    pub destination: DestinationName,
    /// How frames are separated.
    #[serde(default)]
    pub framing: Framing,
    /// The content of a frame.
    #[serde(default)]
    pub envelope: Envelope,
    /// How producers authenticate.
    #[serde(default)]
    pub auth: TcpAuth,
    /// Certificates of this listener.
    #[serde(default)]
    pub tls: ListenerTls,
}

/// How the producers of a TCP listener authenticate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TcpAuth {
    /// With a token, according to `[auth]`.
    #[default]
    Token,
    /// With a certificate signed by `tls.client_ca_file`. These producers need no token.
    Certificate,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            auth: Auth::default(),
            http: Http::default(),
            admin: Admin::default(),
            audit: Audit::default(),
            definitions: Definitions::default(),
            redis: Redis::default(),
            ingest: Ingest::default(),
            processor: Processor::default(),
            sender: Sender::default(),
            outgoing: Outgoing::default(),
            log: Log::default(),
            tracing: Tracing::default(),
            secrets: Secrets::default(),
            shutdown_ms: 20_000,
            threads: 0,
            destinations: Vec::new(),
            topics: Vec::new(),
            tcp: Vec::new(),
        }
    }
}

impl Default for Http {
    fn default() -> Self {
        Http {
            listen: SocketAddr::from(([127, 0, 0, 1], 8080)).into(),
            body_bytes_max: 1 << 20,
            batch_bytes_max: 16 << 20,
            json_depth_max: 128,
            connections_max: 0,
            connections_per_address_max: 0,
            header_timeout_ms: 15_000,
            acknowledge_timeout_ms: 15_000,
            idle_timeout_ms: 75_000,
            body_bytes_per_second_min: 1024,
            body_window_ms: 10_000,
            tls: ListenerTls::default(),
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
            tls: ClientTls::default(),
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
            connections_per_address_max: 0,
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
        self.url == EMBEDDED
    }

    /// The URL with its password masked, for display.
    pub fn url_masked(&self) -> String {
        match self.topology() {
            _ if self.is_embedded() => EMBEDDED.into(),
            Ok(topology) => topology.masked(),
            Err(_) => "(not a URL)".into(),
        }
    }

    /// The topology that the URL describes. Errors never contain its password.
    pub fn topology(&self) -> Result<Topology, String> {
        Topology::parse(&self.url)
    }

    /// `timeout_ms` as a duration.
    pub fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout_ms)
    }
}

/// The configuration cannot be used. The error names the field, and how to correct it.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file could not be read.
    #[error("the configuration file {path} cannot be read: {source}")]
    Unreadable {
        /// The path of the file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The file is not TOML, or not a configuration of Reseq.
    #[error("the configuration file {path} is not valid:\n{problem}")]
    InvalidFile {
        /// The path of the file.
        path: PathBuf,
        /// The line and the field, and the problem.
        problem: String,
    },
    /// An environment variable is unknown or its value cannot be read.
    #[error("the environment variable {name} is not valid: {problem}")]
    InvalidVariable {
        /// The name of the variable.
        name: String,
        /// The problem.
        problem: String,
    },
    /// A field's value is out of range or contradicts another.
    #[error("the configuration field {field} is not valid: {problem}")]
    InvalidField {
        /// The path of the field.
        field: String,
        /// The problem, and how to correct it.
        problem: String,
    },
}

impl Config {
    /// Reads the file, if any, applies the environment, and checks the result.
    pub fn load(
        file: Option<&Path>,
        environment: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Config, ConfigError> {
        let environment: HashMap<String, String> = environment.into_iter().collect();
        let mut config = match file {
            Some(path) => file::read(path, environment.clone())?,
            None => Config::default(),
        };
        config = overlay::environment(config, environment.into_iter().collect())?;
        config.auth.resolve()?;
        config.validate()?;
        Ok(config)
    }

    /// Like [`Config::load`], but takes the text of the file. Reads no files, not even files that the text names.
    #[cfg(feature = "fuzzing")]
    pub fn parse(
        text: &str,
        environment: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Config, ConfigError> {
        let resolver = |_: &secret::Reference| Ok("a secret of another file".to_owned());
        let config = file::parse("reseq.toml".as_ref(), text, resolver)?;
        let config = overlay::environment(config, environment.into_iter().collect())?;
        config.validate().map(|()| config)
    }
}

/// The error for a field that cannot be used.
pub fn invalid(field: &str, problem: String) -> ConfigError {
    ConfigError::InvalidField { field: field.into(), problem }
}

#[cfg(test)]
mod tests;
