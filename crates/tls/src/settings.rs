//! The settings of rustls for a client and for a listener.

use std::sync::Arc;

use rustls::{
    ClientConfig, RootCertStore, ServerConfig,
    client::Resumption,
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::WebPkiClientVerifier,
};

use super::{
    files::{Pem, Unusable},
    peers::NotingVerifier,
};

/// The settings of a client. The client trusts the built-in root certificates, the root certificates of the system, and
/// the root certificates in the file. It shows its certificate, if it has one, to servers that ask for it.
pub fn client(pem: &Pem) -> Result<ClientConfig, Unusable> {
    client_with(pem, system_roots())
}

/// Like [`client`], with these root certificates in place of the system's.
pub fn client_with(
    pem: &Pem,
    of_system: Vec<CertificateDer<'static>>,
) -> Result<ClientConfig, Unusable> {
    let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    roots.add_parsable_certificates(of_system);
    if let Some(ca) = &pem.ca {
        add(&mut roots, ca)?;
    }
    let versions =
        ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions();
    let builder = versions.map_err(|error| Unusable::Ca(error.to_string()))?;
    let verifier = NotingVerifier::new(roots, provider());
    let verifier = verifier.map_err(|error| Unusable::Ca(error.to_string()))?;
    let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier));
    let mut settings = match &pem.identity {
        None => builder.with_no_client_auth(),
        Some(identity) => {
            let (chain, key) = identity_of(identity)?;
            builder.with_client_auth_cert(chain, key).map_err(mismatch)?
        }
    };
    // When a session is resumed, the server shows no certificate.
    settings.resumption = Resumption::disabled();
    Ok(settings)
}

/// The settings of a listener that speaks these protocols. Clients must show a certificate if the
/// files have a root certificate for clients.
pub fn server(pem: &Pem, protocols: &[&[u8]]) -> Result<ServerConfig, Unusable> {
    let Some(identity) = &pem.identity else {
        return Err(Unusable::Certificate("is missing".into()));
    };
    let (chain, key) = identity_of(identity)?;
    let builder = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| Unusable::Certificate(error.to_string()))?;
    let builder = match &pem.ca {
        None => builder.with_no_client_auth(),
        Some(ca) => {
            let mut roots = RootCertStore::empty();
            add(&mut roots, ca)?;
            let verifier =
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider()).build();
            let verifier = verifier.map_err(|error| Unusable::Ca(error.to_string()))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let mut settings = builder.with_single_cert(chain, key).map_err(mismatch)?;
    settings.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    Ok(settings)
}

fn add(roots: &mut RootCertStore, pem: &[u8]) -> Result<(), Unusable> {
    for certificate in certificates(pem).map_err(Unusable::Ca)? {
        roots.add(certificate).map_err(|error| Unusable::Ca(error.to_string()))?;
    }
    Ok(())
}

/// The root certificates of the system, without unreadable ones.
pub fn system_roots() -> Vec<CertificateDer<'static>> {
    let found = rustls_native_certs::load_native_certs();
    for error in &found.errors {
        tracing::warn!(%error, "a root certificate of the system cannot be read");
    }
    let mut usable = found.certs;
    usable.retain(|certificate| RootCertStore::empty().add(certificate.clone()).is_ok());
    usable
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn identity_of(
    (certificate, key): &(Vec<u8>, Vec<u8>),
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), Unusable> {
    let chain = certificates(certificate).map_err(Unusable::Certificate)?;
    let key = PrivateKeyDer::from_pem_slice(key)
        .map_err(|_| Unusable::Key("is not a private key in PEM".into()))?;
    Ok((chain, key))
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match read {
        Ok(found) if !found.is_empty() => Ok(found),
        _ => Err("has no certificate in PEM, or one that cannot be read".into()),
    }
}

fn mismatch(error: rustls::Error) -> Unusable {
    match error {
        rustls::Error::InconsistentKeys(_) => {
            Unusable::Key("is the key of another certificate than that of certificate_file".into())
        }
        error => Unusable::Certificate(error.to_string()),
    }
}
