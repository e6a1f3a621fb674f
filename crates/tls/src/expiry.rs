//! When certificates in files end.

use std::path::{Path, PathBuf};

use config::Config;
use rustls::pki_types::{CertificateDer, pem::PemObject};

use super::{files::content, subject::end_of};

/// A file with certificates that the configuration names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateFile {
    /// The field that names it: `http.tls.certificate_file`.
    pub field: String,
    /// Its path.
    pub path: PathBuf,
}

/// The files of certificates that the configuration names. Those of authorities count, too: nothing that they signed is
/// accepted after their end.
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

/// The first end of a certificate in this file, in ms since 1970. The error is a sentence.
pub fn first_end_ms(path: &Path) -> Result<u64, String> {
    let bytes = content(path).map_err(|error| error.to_string())?;
    let ends = CertificateDer::pem_slice_iter(&bytes).map(|certificate| {
        let certificate = certificate.map_err(|error| error.to_string())?;
        let end = end_of(&certificate).and_then(|text| ms_of(&text));
        end.ok_or_else(|| "the validity of a certificate cannot be read".to_owned())
    });
    let ends = ends.collect::<Result<Vec<u64>, String>>()?;
    ends.into_iter().min().ok_or_else(|| "it has no certificate".to_owned())
}

/// Reads `YYMMDDhhmmssZ` or `YYYYMMDDhhmmssZ`.
fn ms_of(text: &str) -> Option<u64> {
    let digits = text.strip_suffix('Z').filter(|text| text.bytes().all(|b| b.is_ascii_digit()))?;
    let (year, rest) = match digits.len() {
        // Years below 50 are in this century.
        12 => (digits[..2].parse::<i64>().ok()?, &digits[2..]),
        14 => (digits[..4].parse::<i64>().ok()?, &digits[4..]),
        _ => return None,
    };
    let year = match (digits.len(), year) {
        (12, ..50) => 2000 + year,
        (12, _) => 1900 + year,
        _ => year,
    };
    let number = |at: usize| rest.get(at..at + 2)?.parse::<i64>().ok();
    let (month, day) = (number(0)?, number(2)?);
    let seconds = number(4)? * 3_600 + number(6)? * 60 + number(8)?;
    // Days since 1970, with years that begin in March, so that a leap day is the last one.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1;
    u64::try_from(((days - 719_468) * 86_400 + seconds) * 1_000).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_a_time_are_read() {
        assert_eq!(ms_of("700101000000Z"), Some(0));
        assert_eq!(ms_of("261123100001Z"), Some(1_795_428_001_000));
        assert_eq!(ms_of("20261123100001Z"), Some(1_795_428_001_000));
        assert_eq!(ms_of("20240229235959Z"), Some(1_709_251_199_000));
        assert_eq!(ms_of("20500101000000Z"), Some(2_524_608_000_000));
        for wrong in ["", "2611231000Z", "26112310000éZ", "261123100001"] {
            assert_eq!(ms_of(wrong), None, "{wrong}");
        }
    }
}
