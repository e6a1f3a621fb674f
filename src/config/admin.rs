//! The HTTP listener for operators.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use super::{ConfigError, ListenerTls, invalid};

/// The HTTP listener for operators.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Admin {
    /// The address to listen on. Empty: none, and `http.listen` serves all routes. Otherwise
    /// `http.listen` serves only producers, workers and health checks.
    pub listen: String,
    /// Its certificates.
    pub tls: ListenerTls,
}

impl Admin {
    /// The address, if there is one.
    pub fn address(&self) -> Result<Option<SocketAddr>, ConfigError> {
        if self.listen.is_empty() {
            return Ok(None);
        }
        let address = self.listen.parse().map_err(|_| {
            let problem = format!("{:?} is not an address such as 127.0.0.1:9090", self.listen);
            invalid("admin.listen", problem)
        })?;
        Ok(Some(address))
    }
}
