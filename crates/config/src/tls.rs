//! Certificates and keys, as files in PEM.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{ConfigError, invalid};

/// TLS of connections that Reseq makes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ClientTls {
    /// Root certificates, in addition to the root certificates of the system. Empty: none.
    pub ca_file: PathBuf,
    /// The certificate that Reseq shows, with its chain. Empty: none.
    pub certificate_file: PathBuf,
    /// The key of that certificate.
    pub key_file: PathBuf,
}

impl ClientTls {
    /// True if a field is set.
    pub fn is_set(&self) -> bool {
        *self != ClientTls::default()
    }

    /// Checks that fields that need each other are set together. `section` is the path of this section.
    pub fn validate(&self, section: &str) -> Result<(), ConfigError> {
        pair(section, &self.certificate_file, &self.key_file)
    }
}

/// TLS of a listener.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ListenerTls {
    /// The certificate of this process, with its chain. Empty: the listener uses no TLS.
    pub certificate_file: PathBuf,
    /// The key of that certificate.
    pub key_file: PathBuf,
    /// Root certificates of clients. If set, each client must show a certificate.
    pub client_ca_file: PathBuf,
}

impl ListenerTls {
    /// True if the listener serves TLS.
    pub fn is_set(&self) -> bool {
        !is_empty(&self.certificate_file)
    }

    /// True if clients must show a certificate.
    pub fn wants_certificates(&self) -> bool {
        self.is_set() && !is_empty(&self.client_ca_file)
    }

    /// Checks that fields that need each other are set together. `section` is the path of this section.
    pub(super) fn validate(&self, section: &str) -> Result<(), ConfigError> {
        pair(section, &self.certificate_file, &self.key_file)?;
        if !self.is_set() && !is_empty(&self.client_ca_file) {
            let problem = "needs certificate_file and key_file".into();
            return Err(invalid(&format!("{section}.client_ca_file"), problem));
        }
        Ok(())
    }
}

/// A certificate needs its key, and a key its certificate.
fn pair(section: &str, certificate: &Path, key: &Path) -> Result<(), ConfigError> {
    let missing = |field: &str, other: &str| {
        let problem = format!("{section}.{other} is set, and each needs the other");
        Err(invalid(&format!("{section}.{field}"), problem))
    };
    match (is_empty(certificate), is_empty(key)) {
        (true, false) => missing("certificate_file", "key_file"),
        (false, true) => missing("key_file", "certificate_file"),
        _ => Ok(()),
    }
}

fn is_empty(path: &Path) -> bool {
    path.as_os_str().is_empty()
}
