//! The addresses to which deliveries and transforms may connect.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use super::{ClientTls, ConfigError, invalid};
use domain::AllowedNetwork;

/// The most networks in `allow`: Reseq checks each new connection against all of them.
const ALLOW_MAX: usize = 1000;

/// The addresses to which deliveries and transforms may connect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Outgoing {
    /// Networks to which Reseq may connect although they are not public.
    pub allow: Vec<AllowedNetwork>,
    /// Reseq does not reuse a connection that is this many milliseconds old.
    pub connection_age_max_ms: u64,
    /// DNS servers to use instead of the servers in `/etc/resolv.conf`.
    pub dns_servers: Vec<SocketAddr>,
    /// Certificates of `https` and `tls` URLs.
    pub tls: ClientTls,
}

impl Default for Outgoing {
    fn default() -> Self {
        let (allow, dns_servers, tls) = Default::default();
        Outgoing { allow, connection_age_max_ms: 300_000, dns_servers, tls }
    }
}

impl Outgoing {
    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        if self.allow.len() > ALLOW_MAX {
            let problem = format!("has {} networks, at most {ALLOW_MAX}", self.allow.len());
            return Err(invalid("outgoing.allow", problem));
        }
        self.tls.validate("outgoing.tls")
    }
}
