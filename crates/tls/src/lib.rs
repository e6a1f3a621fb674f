//! TLS: certificates and keys from files, read again when the files change, and the settings for
//! rustls made from them.

mod acceptor;
mod advice;
mod connector;
mod expiry;
mod files;
mod peers;
mod settings;
mod subject;

use std::{sync::Once, time::Duration};

pub use acceptor::Acceptor;
pub use advice::{advice, explained};
pub use connector::Connector;
pub use expiry::{CertificateFile, certificate_files, first_end_ms};
pub use files::{Files, Pem, Reloaded, Unusable};
pub use peers::{Peer, look, peers};
pub use settings::{client, client_with, system_roots};
pub use subject::{Subject, subject_of};

use config::{Config, ConfigError};

/// HTTP/2, as clients name it in a handshake (ALPN).
pub const HTTP_2: &[u8] = b"h2";

/// Time limit of a handshake without another limit.
pub const HANDSHAKE_MAX: Duration = Duration::from_secs(10);

/// Checks all files of TLS that the configuration names.
pub fn check(config: &Config) -> Result<(), ConfigError> {
    let of_clients = [("redis.tls", &config.redis.tls), ("outgoing.tls", &config.outgoing.tls)];
    for (section, tls) in of_clients {
        let files = Files::of_client(section, tls);
        // The root certificates of the system take long to read.
        if !files.is_empty() {
            Reloaded::open(files, client)?;
        }
    }
    Acceptor::http("http.tls", &config.http.tls)?;
    Acceptor::http("admin.tls", &config.admin.tls)?;
    for listener in &config.tcp {
        Acceptor::frames("tcp.tls", &listener.tls)?;
    }
    Ok(())
}

/// Sets the default crypto library of rustls. Has no effect if the program has already set one.
pub fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}
