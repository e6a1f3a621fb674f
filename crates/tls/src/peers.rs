//! Notes when the certificates end that other hosts have shown to this process.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::{Mutex, MutexGuard};
use rustls::{
    ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    client::{
        VerifierBuilderError, WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::CryptoProvider,
    pki_types::{CertificateDer, ServerName, UnixTime},
};
use tokio::{
    net::TcpStream,
    time::{sleep, timeout},
};

use super::{HANDSHAKE_MAX, connector::handshake, subject::end_of};

/// The most hosts whose certificates are noted: the latest ones. [`look`] watches at most this many hosts.
const HOSTS_MAX: usize = 1_000;
/// A host that has shown no certificate for this long is forgotten: it may have been moved or deleted.
const KEPT: Duration = Duration::from_secs(86_400);
/// [`look`] checks a host at this interval. Connections to Redis last long, and their hosts must not be forgotten
/// meanwhile.
const LOOK_EVERY: Duration = Duration::from_secs(600);
/// [`look`] gives up a host after this many failures in a row.
const FAILURES_MAX: u64 = KEPT.as_secs() / LOOK_EVERY.as_secs();

static HOSTS: Mutex<Hosts> = Mutex::new(Hosts::new());

/// The last certificate that a host has shown.
#[derive(Debug, Clone)]
pub struct Peer {
    /// When the certificate ends, in ms since 1970.
    pub end_ms: u64,
    /// When the host has shown the certificate.
    pub shown: Instant,
}

/// The hosts, by name. All ports of a host count as one host.
struct Hosts {
    shown: BTreeMap<String, Peer>,
    /// The hosts that a task watches: the port and the settings of the latest connection to each.
    looked_at: BTreeMap<String, (u16, Arc<ClientConfig>)>,
}

impl Hosts {
    const fn new() -> Hosts {
        Hosts { shown: BTreeMap::new(), looked_at: BTreeMap::new() }
    }

    fn note(&mut self, host: String, peer: Peer) {
        self.shown.insert(host, peer);
        if self.shown.len() > HOSTS_MAX {
            let oldest = self.shown.iter().min_by_key(|(_, peer)| peer.shown);
            oldest.map(|(host, _)| host.clone()).map(|host| self.shown.remove(&host));
        }
    }

    fn forget_old(&mut self, now: Instant) {
        self.shown.retain(|_, peer| now.duration_since(peer.shown) < KEPT);
    }

    /// Notes how to reach this host. True if no task watches the host yet: the caller then starts one.
    fn begin_look(&mut self, host: &str, port: u16, settings: Arc<ClientConfig>) -> bool {
        if let Some(known) = self.looked_at.get_mut(host) {
            *known = (port, settings);
            return false;
        }
        let has_room = self.looked_at.len() < HOSTS_MAX;
        if has_room {
            self.looked_at.insert(host.to_owned(), (port, settings));
        }
        has_room
    }
}

/// The hosts that have shown a valid certificate within a day, with the last certificate of each.
pub fn peers() -> Vec<(String, Peer)> {
    let mut hosts = locked();
    hosts.forget_old(Instant::now());
    hosts.shown.iter().map(|(host, peer)| (host.clone(), peer.clone())).collect()
}

/// Notes in the background the certificate of a server whose connections another library opens. To see the certificate,
/// opens connections that end after the handshake. Each host has one task, however many connections are opened.
pub fn look(host: &str, port: u16, settings: Arc<ClientConfig>) {
    if !locked().begin_look(host, port, settings) {
        return;
    }
    let host = host.to_owned();
    tokio::spawn(async move {
        watch(|| is_shown(&host), LOOK_EVERY).await;
        locked().looked_at.remove(&host);
    });
}

/// Checks at each interval. Ends when the first check fails, or [`FAILURES_MAX`] checks in a row.
async fn watch<F: Future<Output = bool>>(is_shown: impl Fn() -> F, every: Duration) {
    let mut tries_left = 0_u64;
    loop {
        tries_left = if is_shown().await { FAILURES_MAX } else { tries_left.saturating_sub(1) };
        sleep(every).await;
        if tries_left == 0 {
            return;
        }
    }
}

/// True if this watched host shows a valid certificate now.
async fn is_shown(host: &str) -> bool {
    let Some((port, settings)) = locked().looked_at.get(host).cloned() else { return false };
    let shown = timeout(HANDSHAKE_MAX, async {
        let stream = TcpStream::connect((host, port)).await?;
        handshake(settings, host, stream).await.map(drop)
    });
    matches!(shown.await, Ok(Ok(())))
}

fn locked() -> MutexGuard<'static, Hosts> {
    HOSTS.lock()
}

fn note(host: String, certificate: &CertificateDer<'_>) {
    let end = end_of(certificate).and_then(|end| u64::try_from(end * 1_000).ok());
    if let Some(end_ms) = end {
        locked().note(host, Peer { end_ms, shown: Instant::now() });
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

#[cfg(test)]
mod tests {
    use std::{cell::Cell, future::ready};

    use super::*;

    #[test]
    fn a_host_that_shows_nothing_for_a_day_is_forgotten() {
        let (mut hosts, now) = (Hosts::new(), Instant::now());
        let hour = Duration::from_secs(3_600);
        for (host, shown) in [("moved", now), ("used", now), ("used", now + hour)] {
            hosts.note(host.to_owned(), Peer { end_ms: 1, shown });
        }
        hosts.forget_old(now + KEPT - hour);
        assert_eq!(hosts.shown.len(), 2);
        hosts.forget_old(now + KEPT);
        assert_eq!(hosts.shown.keys().collect::<Vec<_>>(), ["used"]);
    }

    #[test]
    fn one_task_at_a_time_looks_at_a_host() {
        crate::install();
        let settings = crate::client_with(&Default::default(), Vec::new()).unwrap();
        let (mut hosts, settings) = (Hosts::new(), Arc::new(settings));
        assert!(hosts.begin_look("redis", 6379, settings.clone()));
        assert!(!hosts.begin_look("redis", 6380, settings.clone()));
        assert_eq!(hosts.looked_at["redis"].0, 6380, "the task uses the latest port");
        assert!(hosts.begin_look("other", 6379, settings.clone()));
        hosts.looked_at.remove("redis");
        assert!(hosts.begin_look("redis", 6379, settings));
    }

    #[tokio::test]
    async fn a_host_is_tried_until_it_is_forgotten() {
        for (shows, tried) in [(0, 1), (2, 2 + FAILURES_MAX)] {
            let tries = Cell::new(0);
            let look = || {
                tries.set(tries.get() + 1);
                ready(tries.get() <= shows)
            };
            watch(look, Duration::ZERO).await;
            assert_eq!(tries.get(), tried);
        }
    }
}
