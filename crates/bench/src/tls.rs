//! TLS on all connections of the pods, with `--tls`. The producers and the receiver of the bench speak plain text, and
//! relays in this process speak TLS for them. So the pods have the same cost of TLS as in a deployment. The cost of the
//! other end counts as the bench's.
//!
//! ```text
//! producer ─► relay ─TLS─► pod ─TLS─► relay ─► receiver
//!                          pod ─TLS─► Redis
//! ```

use std::{
    io,
    net::SocketAddr,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use anyhow::Context;
use config::{Config, ListenerTls};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose,
};
use rustls::{
    ClientConfig, RootCertStore, ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
};
use tokio::{io::copy_bidirectional, net::TcpStream};
use tokio_rustls::{TlsAcceptor, TlsConnector};
use tokio_util::task::AbortOnDropHandle;
use tools::{harness::Harness, servers};

/// The host of all servers.
const HOST: &str = "127.0.0.1";

/// One certificate for all servers, its certificate authority, and the relays.
pub struct Tls {
    /// The certificate of the authority, in PEM.
    pub ca: String,
    ca_file: PathBuf,
    certificate_file: PathBuf,
    key_file: PathBuf,
    server: TlsAcceptor,
    client: TlsConnector,
    /// Dropping the handles ends the relays.
    relays: Mutex<Vec<AbortOnDropHandle<()>>>,
}

impl Tls {
    /// Creates new certificates, in files in the directory of the processes.
    pub fn new(harness: &Harness) -> anyhow::Result<Tls> {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.distinguished_name.push(DnType::CommonName, "reseq-bench");
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
        let key = KeyPair::generate()?;
        let params = CertificateParams::new(vec![HOST.to_owned()])?;
        let certificate = params.signed_by(&key, &authority)?.pem();
        let (ca, key) = (authority.pem(), key.serialize_pem());
        let write = |name: &str, text: &str| -> anyhow::Result<PathBuf> {
            let path = harness.directory().join(name);
            std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
            Ok(path)
        };
        Ok(Tls {
            ca_file: write("ca.pem", &ca)?,
            certificate_file: write("server.pem", &certificate)?,
            key_file: write("server.key", &key)?,
            server: Arc::new(server(&certificate, &key)?).into(),
            client: Arc::new(client(&ca)?).into(),
            relays: Mutex::default(),
            ca,
        })
    }

    /// Makes all pods trust the authority.
    pub fn apply(&self, config: &mut Config) {
        config.redis.tls.ca_file.clone_from(&self.ca_file);
        config.outgoing.tls.ca_file.clone_from(&self.ca_file);
    }

    /// The certificate of the listeners for producers.
    pub fn of_listener(&self) -> ListenerTls {
        ListenerTls {
            certificate_file: self.certificate_file.clone(),
            key_file: self.key_file.clone(),
            client_ca_file: PathBuf::new(),
        }
    }

    /// The settings of a Redis that speaks TLS.
    pub fn of_redis(&self) -> Vec<(&'static str, String)> {
        let shown = |path: &PathBuf| path.display().to_string();
        vec![
            ("tls-cert-file", shown(&self.certificate_file)),
            ("tls-key-file", shown(&self.key_file)),
            ("tls-ca-cert-file", shown(&self.ca_file)),
            ("tls-auth-clients", "no".to_owned()),
        ]
    }

    /// Starts a relay that makes a plain-text server reachable over TLS.
    pub async fn before(&self, target: SocketAddr) -> io::Result<SocketAddr> {
        self.relay(Side::Server(self.server.clone()), target).await
    }

    /// Starts a relay that makes a TLS server reachable in plain text.
    pub async fn behind(&self, target: SocketAddr) -> io::Result<SocketAddr> {
        self.relay(Side::Client(self.client.clone()), target).await
    }

    async fn relay(&self, side: Side, target: SocketAddr) -> io::Result<SocketAddr> {
        let (address, relay) = servers::spawn(|listener| {
            servers::connections(listener, move |near| pass(side.clone(), near, target))
        })
        .await?;
        self.relays.lock().unwrap_or_else(PoisonError::into_inner).push(relay);
        Ok(address)
    }
}

/// The side on which a relay speaks TLS.
#[derive(Clone)]
enum Side {
    /// Accepts TLS, and forwards plain text.
    Server(TlsAcceptor),
    /// Accepts plain text, and forwards it over TLS.
    Client(TlsConnector),
}

/// Relays one connection. When one end closes, the other end notices.
async fn pass(side: Side, mut near: TcpStream, target: SocketAddr) -> io::Result<()> {
    let mut far = TcpStream::connect(target).await?;
    far.set_nodelay(true)?;
    match side {
        Side::Server(acceptor) => {
            let mut near = acceptor.accept(near).await?;
            copy_bidirectional(&mut near, &mut far).await?;
        }
        Side::Client(connector) => {
            let mut far = connector.connect(ServerName::from(target.ip()), far).await?;
            copy_bidirectional(&mut near, &mut far).await?;
        }
    }
    Ok(())
}

fn server(certificate: &str, key: &str) -> anyhow::Result<ServerConfig> {
    let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes())?];
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes())?;
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions()?.with_no_client_auth();
    Ok(builder.with_single_cert(chain, key)?)
}

fn client(ca: &str) -> anyhow::Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(ca.as_bytes())?)?;
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions()?.with_root_certificates(roots);
    Ok(builder.with_no_client_auth())
}
