//! TLS: certificates and keys from files, which are read again when they change, and the settings of
//! rustls that follow from them.

mod acceptor;
mod connector;
mod files;
mod settings;

use std::{sync::Once, time::Duration};

pub use acceptor::Acceptor;
pub use connector::Connector;
pub use files::{Files, Pem, Reloaded, Unusable};
pub use settings::{client, system_roots};

use crate::config::{Config, ConfigError};

/// Time limit of a handshake that has no other.
pub const HANDSHAKE_MAX: Duration = Duration::from_secs(10);

/// Checks all files of TLS that the configuration names.
pub fn check(config: &Config) -> Result<(), ConfigError> {
    let redis = Files::of_client("redis.tls", &config.redis.tls);
    Reloaded::open(redis, client)?;
    Connector::open("outgoing.tls", &config.outgoing.tls)?;
    Acceptor::http("http.tls", &config.http.tls)?;
    Acceptor::http("admin.tls", &config.admin.tls)?;
    for listener in &config.tcp {
        Acceptor::frames("tcp.tls", &listener.tls)?;
    }
    Ok(())
}

/// Chooses the crypto library for code that does not name one. Has no effect if the program has chosen one.
pub fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}
