//! The TLS of connections that Reseq makes.

use std::{io, sync::Arc};

use rustls::{ClientConfig, pki_types::ServerName};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::{TlsConnector, client::TlsStream};

use super::{
    files::{Files, Reloaded},
    settings::client,
};
use config::{ClientTls, ConfigError};

/// The TLS of connections that Reseq makes. Cheap to clone.
#[derive(Clone)]
pub struct Connector(Arc<Reloaded<ClientConfig>>);

impl Connector {
    /// Uses the files of this section.
    pub fn open(section: &str, tls: &ClientTls) -> Result<Connector, ConfigError> {
        let files = Files::of_client(section, tls);
        Ok(Connector(Arc::new(Reloaded::open(files, client)?)))
    }

    /// Uses only the root certificates of the system.
    pub fn of_system() -> Result<Connector, ConfigError> {
        Connector::open("", &ClientTls::default())
    }

    /// The settings for a new connection. They stay the same until the files change.
    pub fn settings(&self) -> Arc<ClientConfig> {
        self.0.current()
    }

    /// Does the TLS handshake with this host. Has no time limit.
    pub async fn connect<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        host: &str,
        stream: S,
    ) -> io::Result<TlsStream<S>> {
        handshake(self.settings(), host, stream).await
    }
}

pub(super) async fn handshake<S: AsyncRead + AsyncWrite + Unpin>(
    settings: Arc<ClientConfig>,
    host: &str,
    stream: S,
) -> io::Result<TlsStream<S>> {
    let name = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    let name = ServerName::try_from(name)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    TlsConnector::from(settings).connect(name, stream).await
}
