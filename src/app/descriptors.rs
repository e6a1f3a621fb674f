//! Divides the file descriptors of the process: limits incoming connections, so that some are
//! always left for deliveries, Redis and health checks.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::serve_http::{CLOSING_MAX, RESERVE};
use crate::config::{self, Config, ConfigError};

/// The most descriptors to ask for: the system keeps a table of them.
const LIMIT_MAX: u64 = 1 << 20;
/// The minimum to keep for everything except incoming connections: deliveries, Redis, logs,
/// transforms, listeners, and health checks beyond the limit.
const KEPT_MIN: usize = 64 + RESERVE + CLOSING_MAX;
/// The default limits, if there are enough descriptors.
const HTTP_MAX: usize = 4096;
const TCP_MAX: usize = 1024;
/// Connections of operators, if they have a listener of their own.
const ADMIN_MAX: usize = 64;

/// The limits of incoming connections.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Descriptors {
    pub(super) http: usize,
    pub(super) admin: usize,
    pub(super) tcp: usize,
}

impl Descriptors {
    /// Raises the limit of this process as far as allowed, and divides it.
    pub(super) fn share(config: &Config) -> Result<Descriptors, ConfigError> {
        Descriptors::of(raise_limit(), config)
    }

    /// Divides this many descriptors. Unless configured otherwise, at least half are kept for
    /// deliveries and the like.
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
        let shares = Descriptors { http: or_share(http, HTTP_MAX), admin, tcp };
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
            "limits of incoming connections",
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
    fn at_least_half_is_kept_for_others_and_a_maximum_is_taken_as_it_is() {
        assert_eq!(shares(1 << 20, ""), Ok((4096, 1024)));
        assert_eq!(shares(1024, ""), Ok((228, 228)));
        assert_eq!(shares(1024, "[http]\nconnections_max = 600\n"), Ok((600, 228)));
        assert_eq!(shares(1024, "[ingest]\nconnections_max = 600\n"), Ok((228, 600)));
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
