//! Divides the file descriptors of the process. Limits incoming and outgoing connections, so that some descriptors are
//! always left for Redis, logs and health checks.

use std::{sync::Arc, time::Duration};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::AppError;
use super::serve_http::{CLOSING_MAX, RESERVE};
use config::{Config, ConfigError};
use outbound::{
    http_client::{Clients, Limits},
    outgoing::{LOOKUPS_MAX, Lookup, Outgoing, SystemLookup},
};
use tls::Connector;

/// The most descriptors to request. The system keeps a table of all of them.
const LIMIT_MAX: u64 = 1 << 20;
/// The descriptors for Redis, logs, listeners, and HTTP connections beyond the limit (`RESERVE`, `CLOSING_MAX`).
const KEPT: usize = 100 + RESERVE + CLOSING_MAX;
/// The fewest descriptors for deliveries and transforms.
const OUTGOING_MIN: usize = 16;
/// The fewest descriptors for everything except incoming connections.
const KEPT_MIN: usize = KEPT + OUTGOING_MIN;
/// With `n` descriptors for deliveries and transforms, `n / PART` processes run expressions in ingest, as many in
/// processors, and `n / PART` look-ups of host names run at once.
const PART: usize = 16;
/// The sockets of a look-up without an answer. It sends two questions three times each, each time from a new socket.
const LOOKUP_SOCKETS: usize = 6;
/// The default limits, if there are enough descriptors.
const HTTP_MAX: usize = 4096;
const TCP_MAX: usize = 1024;
/// The most connections at the listener for operators.
const ADMIN_MAX: usize = 64;

/// The limits of connections and of other uses of descriptors.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Descriptors {
    pub(super) http: usize,
    pub(super) admin: usize,
    pub(super) tcp: usize,
    /// The most outgoing connections.
    pub(super) outgoing: usize,
    /// The most look-ups of host names at once.
    pub(super) lookups: usize,
    /// The most processes that evaluate expressions, in ingest and in processors each. Each process needs two pipes.
    pub(super) processes: usize,
}

impl Descriptors {
    /// Raises the descriptor limit of this process as far as allowed, and divides the descriptors.
    pub(super) fn share(config: &Config) -> Result<Descriptors, ConfigError> {
        Descriptors::of(raise_limit(), config)
    }

    /// The clients for deliveries and transforms. They resolve names with `lookup`, or as the system does.
    pub(super) fn clients(
        &self,
        config: &config::Outgoing,
        lookup: Option<Arc<dyn Lookup>>,
    ) -> Result<Clients, AppError> {
        let of_system = || Arc::new(SystemLookup::of_servers(config.dns_servers.clone())) as _;
        let outgoing = Outgoing::new(config.allow.clone())
            .with_lookups(lookup.unwrap_or_else(of_system), self.lookups);
        let age_max = Duration::from_millis(config.connection_age_max_ms);
        let limits = Limits { connections: self.outgoing, age_max };
        Ok(Clients::limited(outgoing, Connector::open("outgoing.tls", &config.tls)?, limits)?)
    }

    /// Divides this many descriptors. Unless configured otherwise, keeps at least half for
    /// deliveries, transforms and Redis.
    fn of(limit: u64, config: &Config) -> Result<Descriptors, ConfigError> {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let (http, tcp) = (config.http.connections_max, config.ingest.connections_max);
        let quarter = limit.saturating_sub(KEPT_MIN) / 4;
        let or_share = |configured: usize, most: usize| match configured {
            0 => quarter.clamp(1, most),
            configured => configured,
        };
        let tcp = if config.tcp.is_empty() { 0 } else { or_share(tcp, TCP_MAX) };
        let admin = if config.admin.listen.is_empty() { 0 } else { ADMIN_MAX };
        let of_admin = if admin == 0 { 0 } else { admin + RESERVE + CLOSING_MAX };
        let http_max = or_share(http, HTTP_MAX);
        let left = limit.saturating_sub(http_max + of_admin + tcp + KEPT);
        let (processes, lookups) = ((left / PART).max(1), (left / PART).clamp(1, LOOKUPS_MAX));
        let outgoing = left.saturating_sub(4 * processes + LOOKUP_SOCKETS * lookups);
        let shares = Descriptors { http: http_max, admin, tcp, outgoing, lookups, processes };
        let (wanted, given) = (shares.http + of_admin + shares.tcp + KEPT_MIN, limit);
        if wanted > given {
            let field = match (http, config.ingest.connections_max) {
                (0, 1..) => "ingest.connections_max",
                _ => "http.connections_max",
            };
            let problem = format!(
                "{} HTTP and {} TCP connections, and {KEPT_MIN} descriptors for deliveries, Redis and \
                 health checks, are more than the {given} file descriptors of this process; raise its \
                 limit (ulimit -n, LimitNOFILE) to {wanted}, or set a lower maximum",
                shares.http, shares.tcp,
            );
            return Err(config::invalid(field, problem));
        }
        tracing::info!(
            descriptors = limit,
            http = shares.http,
            tcp = shares.tcp,
            outgoing = shares.outgoing,
            "limits of connections",
        );
        Ok(shares)
    }
}

/// The limit of file descriptors, after raising it as far as allowed.
fn raise_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let may_have = limit.maximum.unwrap_or(LIMIT_MAX).min(LIMIT_MAX);
    let has = limit.current.unwrap_or(LIMIT_MAX);
    if has >= may_have {
        return has;
    }
    match setrlimit(Resource::Nofile, Rlimit { current: Some(may_have), ..limit }) {
        Ok(()) => may_have,
        Err(error) => {
            tracing::warn!(%error, "cannot raise the limit of file descriptors above {has}");
            has
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(limit: u64, text: &str) -> Result<(usize, usize), String> {
        let tcp = "[[tcp]]\nlisten = \"127.0.0.1:0\"\ndestination = \"erp\"\n";
        let config: Config = toml::from_str(&(text.to_owned() + tcp)).unwrap();
        let shares = Descriptors::of(limit, &config).map_err(|error| error.to_string())?;
        Ok((shares.http, shares.tcp))
    }

    #[test]
    fn at_least_half_is_kept_for_others_unless_configured() {
        assert_eq!(shares(1 << 20, ""), Ok((4096, 1024)));
        assert_eq!(shares(1024, ""), Ok((215, 215)));
        assert_eq!(shares(1024, "[http]\nconnections_max = 600\n"), Ok((600, 215)));
        assert_eq!(shares(1024, "[ingest]\nconnections_max = 600\n"), Ok((215, 600)));
    }

    #[test]
    fn outgoing_connections_fit_beside_incoming_ones() {
        let of = |limit, text| Descriptors::of(limit, &toml::from_str(text).unwrap()).unwrap();
        for limit in [256, 1024, 20_000, 1 << 20] {
            for text in ["", "[http]\nconnections_max = 90\n"] {
                let of = of(limit, text);
                let lookups = LOOKUP_SOCKETS * of.lookups;
                let taken = of.http + of.outgoing + lookups + 4 * of.processes + KEPT;
                assert!(taken as u64 <= limit && of.outgoing > 0, "{limit}: {of:?}");
            }
        }
        let small = of(256, "");
        assert_eq!((small.outgoing, small.lookups, small.processes), (35, 5, 5));
        let large = of(20_000, "");
        assert_eq!((large.lookups, large.outgoing > 10_000), (64, true), "{large:?}");
    }

    #[test]
    fn a_maximum_that_leaves_nothing_for_others_is_refused_by_name() {
        for field in ["http", "ingest"] {
            let error = shares(1024, &format!("[{field}]\nconnections_max = 900\n")).unwrap_err();
            assert!(error.contains(&format!("{field}.connections_max")), "{error}");
            assert!(error.contains("1024 file descriptors"), "{error}");
        }
        assert!(shares(64, "").unwrap_err().contains("ulimit -n"));
    }
}
