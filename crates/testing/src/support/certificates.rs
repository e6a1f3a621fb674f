//! Certificate authorities of tests, made at run time.

use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose,
};
use tempfile::TempDir;

/// A certificate authority, with a directory for its files.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    dir: TempDir,
}

/// A certificate and its key.
#[derive(Debug, Clone)]
pub struct Identity {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

impl Authority {
    /// A new authority. `name` is in its certificate.
    pub fn new(name: &str) -> Authority {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.distinguished_name.push(DnType::CommonName, name);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let authority = Authority { issuer, dir };
        replace(&authority.ca_file(), &authority.pem());
        authority
    }

    /// Its certificate, in PEM.
    pub fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// The file with its certificate.
    pub fn ca_file(&self) -> PathBuf {
        self.dir.path().join("ca.pem")
    }

    /// Issues a certificate for the loopback, and writes it and its key into files of this name.
    pub fn issue(&self, name: &str) -> Identity {
        let identity = Identity {
            certificate: self.dir.path().join(format!("{name}.pem")),
            key: self.dir.path().join(format!("{name}.key")),
        };
        self.issue_into(name, &identity);
        identity
    }

    /// Issues a certificate into these files.
    pub fn issue_into(&self, name: &str, identity: &Identity) {
        self.issue_until(name, identity, None);
    }

    /// Issues a certificate that ends at the begin of this day (year, month, day) into these files.
    pub fn issue_until(&self, name: &str, identity: &Identity, end: Option<(i32, u8, u8)>) {
        let names = ["127.0.0.1", "localhost"].map(str::to_owned);
        let mut params = CertificateParams::new(names.to_vec()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        if let Some((year, month, day)) = end {
            params.not_after = rcgen::date_time_ymd(year, month, day);
        }
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        replace(&identity.key, &key.serialize_pem());
        replace(&identity.certificate, &certificate.pem());
    }
}

/// Replaces a file atomically.
pub fn replace(path: &Path, text: &str) {
    let beside = path.with_extension("new");
    std::fs::write(&beside, text).unwrap();
    std::fs::rename(beside, path).unwrap();
}
