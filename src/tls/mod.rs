//! TLS: certificates and keys from files, which are read again when they change, and the settings of
//! rustls that follow from them.

mod files;
mod settings;

use std::sync::Once;

pub use files::{Files, Pem, Reloaded, Unusable};
pub use settings::{client, system_roots};

use crate::config::{Config, ConfigError};

/// Checks all files of TLS that the configuration names.
pub fn check(config: &Config) -> Result<(), ConfigError> {
    let redis = Files::of_client("redis.tls", &config.redis.tls);
    Reloaded::open(redis, client)?;
    Ok(())
}

/// Chooses the crypto library for code that does not name one. Has no effect if the program has chosen one.
pub fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}
