//! Checks that serde cannot make: ranges, and contradictions between fields.

use super::{Config, ConfigError, TcpAuth, invalid};
use domain::RELEASE_BATCH_MAX;

impl Config {
    pub fn validate(&self) -> Result<(), ConfigError> {
        // Reseq may repeat a call for at most 50 s, because Redis keeps the answer to a call for 60 s (`call.lua`).
        let ranges: &[(&str, u64, u64, u64)] = &[
            ("http.body_bytes_max", self.http.body_bytes_max as u64, 1, 256 << 20),
            ("http.batch_bytes_max", self.http.batch_bytes_max as u64, 1, 1 << 30),
            ("http.json_depth_max", self.http.json_depth_max as u64, 8, 10_000),
            ("http.connections_max", self.http.connections_max as u64, 0, 1 << 20),
            ("http.header_timeout_ms", self.http.header_timeout_ms, 10, 600_000),
            ("http.acknowledge_timeout_ms", self.http.acknowledge_timeout_ms, 100, 600_000),
            ("http.idle_timeout_ms", self.http.idle_timeout_ms, 10, 3_600_000),
            ("http.body_bytes_per_second_min", self.http.body_bytes_per_second_min, 0, 1 << 30),
            ("http.body_window_ms", self.http.body_window_ms, 10, 600_000),
            ("auth.requests_per_token_max", self.auth.requests_per_token_max as u64, 0, 1 << 20),
            (
                "http.connections_per_address_max",
                self.http.connections_per_address_max as u64,
                0,
                1 << 20,
            ),
            (
                "ingest.connections_per_address_max",
                self.ingest.connections_per_address_max as u64,
                0,
                1 << 20,
            ),
            ("audit.entries_max", self.audit.entries_max as u64, 1, 100_000),
            ("redis.partitions", self.redis.partitions.into(), 1, 4096),
            ("redis.connections", self.redis.connections as u64, 1, 1024),
            ("redis.timeout_ms", self.redis.timeout_ms, 10, 20_000),
            ("redis.replicas", self.redis.replicas.into(), 0, 16),
            ("ingest.batch_max", self.ingest.batch_max as u64, 1, 1024),
            (
                "ingest.bytes_in_flight_max",
                self.ingest.bytes_in_flight_max as u64,
                1 << 20,
                1 << 40,
            ),
            ("ingest.retry_ms", self.ingest.retry_ms, 0, 30_000),
            ("ingest.connections_max", self.ingest.connections_max as u64, 0, 1 << 20),
            ("ingest.frames_in_flight_max", self.ingest.frames_in_flight_max as u64, 1, 1 << 16),
            ("ingest.memory_high_percent", self.ingest.memory_high_percent.into(), 0, 100),
            ("processor.concurrency", self.processor.concurrency as u64, 1, 100_000),
            ("processor.lease_ms", self.processor.lease_ms, 100, 24 * 3_600_000),
            ("sender.lease_ms", self.sender.lease_ms, 500, 600_000),
            (
                "sender.release_batch_max",
                self.sender.release_batch_max as u64,
                1,
                RELEASE_BATCH_MAX as u64,
            ),
            (
                "outgoing.connection_age_max_ms",
                self.outgoing.connection_age_max_ms,
                100,
                24 * 3_600_000,
            ),
            ("shutdown_ms", self.shutdown_ms, 100, 3_600_000),
            ("threads", self.threads as u64, 0, 1024),
        ];
        for &(field, value, min, max) in ranges {
            if !(min..=max).contains(&value) {
                return Err(invalid(field, format!("{value} is outside {min} to {max}")));
            }
        }
        self.auth.validate()?;
        self.validate_redis()?;
        self.secrets.validate()?;
        self.outgoing.validate()?;
        self.tracing.validate()?;
        self.validate_destinations()?;
        self.validate_topics()?;
        self.validate_listeners()
    }

    fn validate_redis(&self) -> Result<(), ConfigError> {
        let prefix = &self.redis.prefix;
        if prefix.is_empty()
            || !prefix.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
        {
            return Err(invalid("redis.prefix", "use letters, digits, '.', '_' and '-'".into()));
        }
        if self.redis.url.is_empty() {
            let problem = "says which Redis holds the messages: redis://host:port, or another of the URLs \
                           in the reference, or embedded for a redis-server of Reseq's own in redis.data_dir";
            return Err(invalid("redis.url", problem.into()));
        }
        let mut is_tls = false;
        if !self.redis.is_embedded() {
            let topology = self.redis.topology();
            is_tls = topology.map_err(|problem| invalid("redis.url", problem))?.is_tls();
        }
        if self.redis.tls.is_set() && !is_tls {
            let problem = "redis.url is not over TLS: begin it with rediss";
            return Err(invalid("redis.tls", problem.into()));
        }
        self.redis.tls.validate("redis.tls")
    }

    fn validate_destinations(&self) -> Result<(), ConfigError> {
        let granted =
            self.auth.certificates.iter().flat_map(|grant| grant.destinations.iter().flatten());
        let granted = granted.map(|name| ("auth.certificate: destinations", name));
        let listening = self.tcp.iter().map(|listener| ("tcp: destination", &listener.destination));
        if let Some((field, name)) = listening.chain(granted).find(|(_, name)| name.shard() > 0) {
            let problem = format!("{name} is a shard; name {}", name.base());
            return Err(invalid(field, problem));
        }
        let mut names = std::collections::HashSet::new();
        for destination in &self.destinations {
            let name = &destination.name;
            if !names.insert(name) {
                return Err(invalid(&format!("destination {name:?}"), "is defined twice".into()));
            }
            destination.validate().map_err(|error| {
                invalid(&format!("destination {name:?}: {}", error.field), error.problem)
            })?;
        }
        Ok(())
    }

    /// A topic may name destinations that are created over HTTP, so their existence is not checked.
    fn validate_topics(&self) -> Result<(), ConfigError> {
        let mut names = std::collections::HashSet::new();
        for topic in &self.topics {
            let name = &topic.name;
            if !names.insert(name) {
                return Err(invalid(&format!("topic {name:?}"), "is defined twice".into()));
            }
            topic.validate().map_err(|error| {
                invalid(&format!("topic {name:?}: {}", error.field), error.problem)
            })?;
        }
        Ok(())
    }

    fn validate_listeners(&self) -> Result<(), ConfigError> {
        self.http.tls.validate("http.tls")?;
        self.admin.tls.validate("admin.tls")?;
        let admin = self.admin.place()?;
        if admin.as_ref().is_some_and(|admin| *admin == self.http.listen && admin.port() != 0) {
            let problem = format!("{} is used by http.listen", self.http.listen);
            return Err(invalid("admin.listen", problem));
        }
        let mut addresses = std::collections::HashSet::new();
        for listener in &self.tcp {
            listener.tls.validate("tcp.tls")?;
            if listener.auth == TcpAuth::Certificate && !listener.tls.wants_certificates() {
                let problem = "\"certificate\" needs tls.client_ca_file".into();
                return Err(invalid("tcp.auth", problem));
            }
            let taken = !addresses.insert(&listener.listen)
                || listener.listen == self.http.listen
                || Some(&listener.listen) == admin.as_ref();
            if taken && listener.listen.port() != 0 {
                let problem = format!("{} is used by another listener", listener.listen);
                return Err(invalid("tcp.listen", problem));
            }
        }
        Ok(())
    }
}
