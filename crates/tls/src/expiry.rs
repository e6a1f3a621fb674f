//! Finds when the certificates in files end.

use std::path::{Path, PathBuf};

use config::Config;
use rustls::pki_types::{CertificateDer, pem::PemObject};

use super::{files::content, subject::end_of};

/// A certificate file that the configuration names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateFile {
    /// The field that names the file: `http.tls.certificate_file`.
    pub field: String,
    /// The path of the file.
    pub path: PathBuf,
}

/// The certificate files that the configuration names. Includes the certificates of authorities: when such a
/// certificate has ended, no certificate signed with it is accepted.
pub fn certificate_files(config: &Config) -> Vec<CertificateFile> {
    let clients = [("redis.tls", &config.redis.tls), ("outgoing.tls", &config.outgoing.tls)];
    let clients = clients.into_iter().flat_map(|(section, tls)| {
        [(section, "certificate_file", &tls.certificate_file), (section, "ca_file", &tls.ca_file)]
    });
    let listeners = [("http.tls", &config.http.tls), ("admin.tls", &config.admin.tls)];
    let listeners = listeners.into_iter().chain(config.tcp.iter().map(|one| ("tcp.tls", &one.tls)));
    let listeners = listeners.flat_map(|(section, tls)| {
        let (own, ca) = (&tls.certificate_file, &tls.client_ca_file);
        [(section, "certificate_file", own), (section, "client_ca_file", ca)]
    });
    let all = clients.chain(listeners).filter(|(.., path)| !path.as_os_str().is_empty());
    let file = |(section, name, path): (&str, &str, &PathBuf)| CertificateFile {
        field: format!("{section}.{name}"),
        path: path.clone(),
    };
    all.map(file).collect()
}

/// When the first certificate in this file ends, in ms since 1970. The error is a sentence.
pub fn first_end_ms(path: &Path) -> Result<u64, String> {
    let bytes = content(path).map_err(|error| error.to_string())?;
    let ends = CertificateDer::pem_slice_iter(&bytes).map(|certificate| {
        let certificate = certificate.map_err(|error| error.to_string())?;
        let end = end_of(&certificate).and_then(|end| u64::try_from(end * 1_000).ok());
        end.ok_or_else(|| "the validity of a certificate cannot be read".to_owned())
    });
    let ends = ends.collect::<Result<Vec<u64>, String>>()?;
    ends.into_iter().min().ok_or_else(|| "it has no certificate".to_owned())
}
