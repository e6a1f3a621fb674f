//! The TLS of a listener.

use std::{io, sync::Arc};

use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use super::{
    HTTP_2,
    files::{Files, Pem, Reloaded, Unusable},
    settings::server,
};
use config::{ConfigError, ListenerTls};

/// The TLS of a listener. Cheap to clone.
#[derive(Clone)]
pub struct Acceptor(Arc<Reloaded<ServerConfig>>);

impl Acceptor {
    /// The TLS of an HTTP listener, if the section names a certificate.
    pub fn http(section: &str, tls: &ListenerTls) -> Result<Option<Acceptor>, ConfigError> {
        Acceptor::open(section, tls, |pem| server(pem, &[HTTP_2, b"http/1.1"]))
    }

    /// The TLS of a TCP listener for frames, if the section names a certificate.
    pub fn frames(section: &str, tls: &ListenerTls) -> Result<Option<Acceptor>, ConfigError> {
        Acceptor::open(section, tls, |pem| server(pem, &[]))
    }

    fn open(
        section: &str,
        tls: &ListenerTls,
        build: fn(&Pem) -> Result<ServerConfig, Unusable>,
    ) -> Result<Option<Acceptor>, ConfigError> {
        if !tls.is_set() {
            return Ok(None);
        }
        let files = Files::of_listener(section, tls);
        Ok(Some(Acceptor(Arc::new(Reloaded::open(files, build)?))))
    }

    /// Does the TLS handshake. Has no time limit.
    pub async fn accept<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: S,
    ) -> io::Result<TlsStream<S>> {
        TlsAcceptor::from(self.0.current()).accept(stream).await
    }
}
