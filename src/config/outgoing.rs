//! Where deliveries and transforms may connect to.

use serde::{Deserialize, Serialize};

use super::{ClientTls, ConfigError, invalid};
use crate::domain::AllowedNetwork;

/// The most networks in the list: each new connection is checked against all of them.
const ALLOW_MAX: usize = 1000;

/// Where deliveries and transforms may connect to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Outgoing {
    /// Networks that are not public, and to which Reseq may connect nevertheless.
    pub allow: Vec<AllowedNetwork>,
    /// Certificates of `https` and `tls` URLs.
    pub tls: ClientTls,
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
