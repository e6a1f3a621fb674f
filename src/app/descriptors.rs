//! How the file descriptors of the process are shared: so many connections may come in that there are
//! always some for deliveries, Redis and health checks.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::serve_http::{CLOSING_MAX, RESERVE};
use crate::config::{self, Config, ConfigError};

/// More than this is never asked for: the system keeps a table of them.
const LIMIT_MAX: u64 = 1 << 20;
/// The fewest that are kept for everything but connections that come in: deliveries, Redis, logs,
/// transforms, listeners, and health checks beyond the maximum.
const KEPT_MIN: usize = 64 + RESERVE + CLOSING_MAX;
/// What the maxima are where the configuration has none, if there are descriptors enough.
const HTTP_MAX: usize = 4096;
const TCP_MAX: usize = 1024;

/// The most connections that may come in at once.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Descriptors {
    pub(super) http: usize,
    pub(super) tcp: usize,
}

impl Descriptors {
    /// Raises the limit of this process as far as it may, and shares it out.
    pub(super) fn share(config: &Config) -> Result<Descriptors, ConfigError> {
        Descriptors::of(raise_limit(), config)
    }

    /// So many descriptors, shared out. Of what the configuration leaves open at least half is kept
    /// for deliveries and the like.
    fn of(limit: u64, config: &Config) -> Result<Descriptors, ConfigError> {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let (http, tcp) = (config.http.connections_max, config.ingest.connections_max);
        let quarter = limit.saturating_sub(KEPT_MIN) / 4;
        let or_share = |configured: usize, most: usize| match configured {
            0 => quarter.clamp(1, most),
            configured => configured,
        };
        let tcp = if config.tcp.is_empty() { 0 } else { or_share(tcp, TCP_MAX) };
        let shares = Descriptors { http: or_share(http, HTTP_MAX), tcp };
        let (wanted, given) = (shares.http + shares.tcp + KEPT_MIN, limit);
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
            "connections that may come in at once",
        );
        Ok(shares)
    }
}

/// The descriptors that this process may have, after asking for as many as it may ask for.
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
            tracing::warn!(%error, "the limit of file descriptors stays {has}");
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
