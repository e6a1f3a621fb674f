//! Relays that add TLS to plain-text servers and clients, so that a test can run with and without TLS.

use std::{io, net::SocketAddr, path::PathBuf, sync::Arc};

use rustls::{
    ClientConfig, RootCertStore, ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
    server::WebPkiClientVerifier,
};
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
};
use tokio_rustls::{TlsAcceptor, TlsConnector};
use tokio_util::task::AbortOnDropHandle;

use super::certificates::Identity;

/// The target of a relay; `None`: there is no target now.
pub type Target = Arc<dyn Fn() -> Option<SocketAddr> + Send + Sync>;

/// The certificates that one side shows and trusts. Each connection reads the files, so they may change.
#[derive(Debug, Clone)]
pub struct Party {
    pub identity: Identity,
    pub ca_file: PathBuf,
}

impl Party {
    fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_file_iter(&self.ca_file).unwrap() {
            roots.add(certificate.unwrap()).unwrap();
        }
        roots
    }

    fn chain(&self) -> Vec<CertificateDer<'static>> {
        vec![CertificateDer::from_pem_file(&self.identity.certificate).unwrap()]
    }

    fn key(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::from_pem_file(&self.identity.key).unwrap()
    }

    /// A server that requires client certificates. Fails while the files of certificate and key are being replaced.
    fn server(&self) -> Result<ServerConfig, rustls::Error> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let roots = Arc::new(self.roots());
        let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider.clone());
        ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_client_cert_verifier(verifier.build().unwrap())
            .with_single_cert(self.chain(), self.key())
    }

    fn client(&self) -> Result<ClientConfig, rustls::Error> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(self.roots())
            .with_client_auth_cert(self.chain(), self.key())
    }
}

/// Relays connections. Dropping this stops the relay.
#[derive(Debug)]
pub struct Relay {
    pub address: SocketAddr,
    _server: AbortOnDropHandle<()>,
}

#[derive(Debug, Clone, Copy)]
enum Direction {
    ToPlain,
    ToTls,
}

impl Relay {
    /// Accepts TLS with a client certificate, and forwards plain text.
    pub fn terminating(target: Target, party: Party) -> Relay {
        Relay::start(Direction::ToPlain, target, party)
    }

    /// Accepts plain text, and forwards it over TLS.
    pub fn originating(target: Target, party: Party) -> Relay {
        Relay::start(Direction::ToTls, target, party)
    }

    fn start(direction: Direction, target: Target, party: Party) -> Relay {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let listener = TcpListener::from_std(listener).unwrap();
        let server = tokio::spawn(async move {
            loop {
                let (near, _) = listener.accept().await.expect("a test can accept connections");
                let (target, party) = (target(), party.clone());
                tokio::spawn(async move {
                    let Some(target) = target else { return };
                    // If the server is not reachable, close the connection too.
                    let Ok(far) = TcpStream::connect(target).await else { return };
                    let _ = (near.set_nodelay(true), far.set_nodelay(true));
                    let _ = pass(direction, near, far, &party).await;
                });
            }
        });
        Relay { address, _server: AbortOnDropHandle::new(server) }
    }
}

async fn pass(
    direction: Direction,
    mut near: TcpStream,
    mut far: TcpStream,
    party: &Party,
) -> io::Result<()> {
    match direction {
        Direction::ToPlain => {
            let settings = Arc::new(party.server().map_err(io::Error::other)?);
            let mut near = TlsAcceptor::from(settings).accept(near).await?;
            copy_bidirectional(&mut near, &mut far).await.map(drop)
        }
        Direction::ToTls => {
            let settings = Arc::new(party.client().map_err(io::Error::other)?);
            let name = ServerName::try_from("127.0.0.1").unwrap();
            let mut far = TlsConnector::from(settings).connect(name, far).await?;
            copy_bidirectional(&mut near, &mut far).await.map(drop)
        }
    }
}
