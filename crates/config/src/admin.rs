//! The HTTP listener for operators.

use serde::{Deserialize, Serialize};

use super::{ConfigError, InvalidListen, Listen, ListenerTls, invalid};

/// The HTTP listener for operators.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Admin {
    /// The address or name to listen on. Empty: there is no separate listener, and `http.listen` serves all routes.
    /// Otherwise `http.listen` serves only producers, workers, consumers and health checks.
    pub listen: String,
    /// Certificates of this listener.
    pub tls: ListenerTls,
}

impl Admin {
    /// The value of `listen`, parsed; `None` if it is empty.
    pub fn place(&self) -> Result<Option<Listen>, ConfigError> {
        if self.listen.is_empty() {
            return Ok(None);
        }
        let place = self.listen.parse();
        Ok(Some(place.map_err(|error: InvalidListen| invalid("admin.listen", error.to_string()))?))
    }
}
