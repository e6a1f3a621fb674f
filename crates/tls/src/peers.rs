//! When the certificates end that others have shown to this process.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use rustls::{
    ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    client::{
        VerifierBuilderError, WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::CryptoProvider,
    pki_types::{CertificateDer, ServerName, UnixTime},
};
use tokio::{net::TcpStream, time::timeout};

use super::{HANDSHAKE_MAX, connector::handshake, subject::end_of};

/// The most hosts whose certificates are noted: the latest ones.
const HOSTS_MAX: usize = 1_000;
/// [`look`] asks a host again after this time at the earliest.
const LOOK_EVERY: Duration = Duration::from_secs(600);

/// The certificates of all hosts, by name.
static PEERS: Mutex<BTreeMap<String, Peer>> = Mutex::new(BTreeMap::new());

/// The last certificate that a host has shown.
#[derive(Debug, Clone)]
pub struct Peer {
    /// When it ends, in ms since 1970.
    pub end_ms: u64,
    /// When it was shown.
    pub shown: Instant,
}

/// The hosts that have shown a valid certificate, and the last one of each.
pub fn peers() -> Vec<(String, Peer)> {
    locked().iter().map(|(host, peer)| (host.clone(), peer.clone())).collect()
}

/// Notes the certificate of a server whose connections another library opens, in the background: over a connection
/// that ends with the handshake. Does nothing if the host has shown one lately.
pub fn look(host: &str, port: u16, settings: Arc<ClientConfig>) {
    if locked().get(host).is_some_and(|peer| peer.shown.elapsed() < LOOK_EVERY) {
        return;
    }
    let host = host.to_owned();
    tokio::spawn(timeout(HANDSHAKE_MAX, async move {
        let stream = TcpStream::connect((host.as_str(), port)).await?;
        handshake(settings, &host, stream).await.map(drop)
    }));
}

fn locked() -> MutexGuard<'static, BTreeMap<String, Peer>> {
    PEERS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn note(host: String, certificate: &CertificateDer<'_>) {
    let Some(end_ms) = end_of(certificate).and_then(|end| u64::try_from(end * 1_000).ok()) else {
        return;
    };
    let mut peers = locked();
    peers.insert(host, Peer { end_ms, shown: Instant::now() });
    if peers.len() > HOSTS_MAX {
        let oldest = peers.iter().min_by_key(|(_, peer)| peer.shown).map(|(host, _)| host.clone());
        oldest.map(|host| peers.remove(&host));
    }
}

/// Verifies the certificate of a server as rustls does, and notes its end.
#[derive(Debug)]
pub(super) struct NotingVerifier(Arc<WebPkiServerVerifier>);

impl NotingVerifier {
    pub(super) fn new(
        roots: RootCertStore,
        provider: Arc<CryptoProvider>,
    ) -> Result<NotingVerifier, VerifierBuilderError> {
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider);
        verifier.build().map(NotingVerifier)
    }
}

impl ServerCertVerifier for NotingVerifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let valid = self.0.verify_server_cert(certificate, intermediates, name, ocsp, now)?;
        note(name.to_str().into_owned(), certificate);
        Ok(valid)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
