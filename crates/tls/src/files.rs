//! A value built from files, and built again when their content changes.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use config::{ClientTls, ConfigError, ListenerTls, invalid};

/// The files are read again after this time at the earliest.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The largest file, in bytes.
const BYTES_MAX: u64 = 4 << 20;

/// The files of one section of the configuration. An empty path names no file.
#[derive(Debug, Clone)]
pub struct Files {
    /// The path of the section.
    section: String,
    /// The name of the field with root certificates, and its file.
    ca: (&'static str, PathBuf),
    certificate: PathBuf,
    key: PathBuf,
}

/// The content of these files.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Pem {
    /// Root certificates.
    pub ca: Option<Vec<u8>>,
    /// A certificate with its chain, and its key.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
}

impl Pem {
    /// The content of the files of a section, for a connection that Reseq makes.
    pub fn read(section: &str, tls: &ClientTls) -> Result<Pem, ConfigError> {
        tls.validate(section)?;
        Files::of_client(section, tls).read()
    }
}

/// The problem with the content of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unusable {
    /// The root certificates.
    Ca(String),
    /// The certificate.
    Certificate(String),
    /// The key.
    Key(String),
}

/// Builds the value from the content of the files.
type Build<T> = fn(&Pem) -> Result<T, Unusable>;

/// A value built from files. If changed files cannot be used, the earlier value stays.
pub struct Reloaded<T> {
    files: Files,
    build: Build<T>,
    kept: Mutex<Kept<T>>,
}

struct Kept<T> {
    value: Arc<T>,
    pem: Pem,
    looked: Instant,
    /// The last problem that was logged.
    problem: Option<String>,
}

impl Files {
    /// The files for connections that Reseq makes.
    pub fn of_client(section: &str, tls: &ClientTls) -> Files {
        Files {
            section: section.to_owned(),
            ca: ("ca_file", tls.ca_file.clone()),
            certificate: tls.certificate_file.clone(),
            key: tls.key_file.clone(),
        }
    }

    /// The files of a listener.
    pub fn of_listener(section: &str, tls: &ListenerTls) -> Files {
        Files {
            section: section.to_owned(),
            ca: ("client_ca_file", tls.client_ca_file.clone()),
            certificate: tls.certificate_file.clone(),
            key: tls.key_file.clone(),
        }
    }

    /// True if the section names no file.
    pub fn is_empty(&self) -> bool {
        [&self.ca.1, &self.certificate].iter().all(|path| path.as_os_str().is_empty())
    }

    fn read(&self) -> Result<Pem, ConfigError> {
        let one = |field: &str, path: &Path| match path.as_os_str().is_empty() {
            true => Ok(None),
            false => content(path).map(Some).map_err(|error| {
                invalid(&self.field(field), format!("{}: {error}", path.display()))
            }),
        };
        let ca = one(self.ca.0, &self.ca.1)?;
        let certificate = one("certificate_file", &self.certificate)?;
        Ok(Pem { ca, identity: certificate.zip(one("key_file", &self.key)?) })
    }

    fn field(&self, name: &str) -> String {
        format!("{}.{name}", self.section)
    }

    fn refused(&self, unusable: Unusable) -> ConfigError {
        let (name, path, problem) = match unusable {
            Unusable::Ca(problem) => (self.ca.0, &self.ca.1, problem),
            Unusable::Certificate(problem) => ("certificate_file", &self.certificate, problem),
            Unusable::Key(problem) => ("key_file", &self.key, problem),
        };
        invalid(&self.field(name), format!("{}: {problem}", path.display()))
    }
}

impl<T> Reloaded<T> {
    /// Reads the files, and builds the value.
    pub fn open(files: Files, build: Build<T>) -> Result<Reloaded<T>, ConfigError> {
        let pem = files.read()?;
        let value = Arc::new(build(&pem).map_err(|unusable| files.refused(unusable))?);
        let kept = Kept { value, pem, looked: Instant::now(), problem: None };
        Ok(Reloaded { files, build, kept: Mutex::new(kept) })
    }

    /// The value for the content of the files, at most a second old. While the files cannot be
    /// used, the earlier value.
    pub fn current(&self) -> Arc<T> {
        let mut kept = self.kept.lock();
        if self.files.is_empty() || kept.looked.elapsed() < LOOK_EVERY {
            return kept.value.clone();
        }
        let section = &self.files.section;
        let read = self.files.read().and_then(|pem| {
            if pem == kept.pem {
                return Ok(None);
            }
            let built = (self.build)(&pem).map_err(|unusable| self.files.refused(unusable))?;
            Ok(Some((Arc::new(built), pem)))
        });
        match read {
            Ok(None) => kept.problem = None,
            Ok(Some((value, pem))) => {
                tracing::info!(section, "certificates were read again");
                (kept.value, kept.pem, kept.problem) = (value, pem, None);
            }
            Err(error) => {
                let problem = error.to_string();
                if kept.problem.as_ref() != Some(&problem) {
                    tracing::error!(problem, "new certificates are not usable: the old ones stay");
                    kept.problem = Some(problem);
                }
            }
        }
        kept.looked = Instant::now();
        kept.value.clone()
    }
}

pub(super) fn content(path: &Path) -> io::Result<Vec<u8>> {
    let length = fs::metadata(path)?.len();
    if length > BYTES_MAX {
        return Err(io::Error::other(format!("{length} bytes are more than {BYTES_MAX}")));
    }
    fs::read(path)
}
