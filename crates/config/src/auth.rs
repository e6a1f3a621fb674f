//! Controls which callers this process accepts.

use std::{collections::BTreeSet, fmt, fs, path::PathBuf};

use serde::{Deserialize, Serialize};

use super::{ConfigError, invalid};
use domain::{DestinationName, Grant, Scope, secret};

/// Allowed length of the admin token, in bytes. Over TCP, the token must fit into the first frame.
const ADMIN_TOKEN_BYTES: std::ops::RangeInclusive<usize> = 20..=240;

/// Controls which callers this process accepts.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Auth {
    /// Whether callers need tokens.
    pub mode: AuthMode,
    /// A token with the scope `admin`, to create the first tokens. Empty: none.
    #[serde(deserialize_with = "secret::text")]
    pub admin_token: String,
    /// A file with the admin token. It replaces `admin_token`.
    pub admin_token_file: PathBuf,
    /// The most requests in progress, and TCP connections, of one token in a process; 0: no limit.
    pub requests_per_token_max: usize,
    /// Permissions of clients that show a certificate and no token.
    #[serde(rename = "certificate")]
    pub certificates: Vec<CertificateGrant>,
}

/// Permissions of clients whose certificate has this name, at listeners that check client certificates.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CertificateGrant {
    /// `CN=…` of the subject, or `DNS:…`, `URI:…` or `email:…` of the alternative names.
    pub name: String,
    /// The scopes, as for a token.
    pub scopes: BTreeSet<Scope>,
    /// The destinations that these clients may use; `None`: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destinations: Option<BTreeSet<DestinationName>>,
    /// The most messages per second; 0: no limit.
    #[serde(default)]
    pub rate_per_second_max: u32,
}

impl CertificateGrant {
    /// The permissions as the grant of a token.
    pub fn grant(&self) -> Grant {
        Grant {
            scopes: self.scopes.clone(),
            destinations: self.destinations.clone(),
            rate_per_second_max: self.rate_per_second_max,
        }
    }
}

/// Whether callers need tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuthMode {
    /// Callers need tokens. While no token exists, Reseq answers only requests from this machine, without a token.
    #[default]
    Tokens,
    /// Callers need no tokens: something else controls who can reach Reseq.
    None,
}

impl fmt::Debug for Auth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Auth").field("mode", &self.mode).finish_non_exhaustive()
    }
}

impl Auth {
    /// The admin token, if there is one.
    pub fn admin_token(&self) -> Option<&str> {
        Some(self.admin_token.as_str()).filter(|token| !token.is_empty())
    }

    /// Checks the grants for client certificates.
    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        let mut names = BTreeSet::new();
        for CertificateGrant { name, scopes, destinations, .. } in &self.certificates {
            let field = "auth.certificate";
            let known = ["CN=", "DNS:", "URI:", "email:"];
            if !known.iter().any(|kind| name.strip_prefix(kind).is_some_and(|it| !it.is_empty())) {
                let problem = format!("{name:?} must be CN=…, DNS:…, URI:… or email:…");
                return Err(invalid(field, problem));
            }
            if scopes.is_empty() || destinations.as_ref().is_some_and(BTreeSet::is_empty) {
                let problem = format!("{name:?}: name at least one of scopes and destinations");
                return Err(invalid(field, problem));
            }
            if !names.insert(name) {
                return Err(invalid(field, format!("{name:?} is named twice")));
            }
        }
        Ok(())
    }

    /// Reads the file of the admin token, and checks the token.
    pub(super) fn resolve(&mut self) -> Result<(), ConfigError> {
        if !self.admin_token_file.as_os_str().is_empty() {
            let field = "auth.admin_token_file";
            if self.admin_token().is_some() {
                return Err(invalid(field, "auth.admin_token is set too; leave one out".into()));
            }
            let path = &self.admin_token_file;
            let text = fs::read_to_string(path)
                .map_err(|error| invalid(field, format!("{}: {error}", path.display())))?;
            self.admin_token = text.trim().to_owned();
            if self.admin_token.is_empty() {
                return Err(invalid(field, format!("{} is empty", path.display())));
            }
        }
        // The error must not contain the token.
        let Some(token) = self.admin_token() else { return Ok(()) };
        let is_printable = token.bytes().all(|byte| byte.is_ascii_graphic());
        if !ADMIN_TOKEN_BYTES.contains(&token.len()) || !is_printable {
            let problem = format!(
                "must be {} to {} printable ASCII characters without spaces, \
                 for example from: openssl rand -hex 32",
                ADMIN_TOKEN_BYTES.start(),
                ADMIN_TOKEN_BYTES.end(),
            );
            return Err(invalid("auth.admin_token", problem));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn grants_of_certificates_have_names_that_certificates_can_have() {
        let checked = |lines: &str| {
            let auth: Auth = toml::from_str(lines).map_err(|error| error.to_string())?;
            auth.validate().map_err(|error| error.to_string())
        };
        let of = |name: &str, more: &str| format!("[[certificate]]\nname = {name:?}\n{more}\n");
        let good = "scopes = ['ingest']\ndestinations = ['erp']";
        let two = of("CN=ada", good) + &of("URI:spiffe://example/ada", "scopes = ['read']");
        assert_eq!(checked(&two), Ok(()));
        for (bad, said) in [
            (of("ada", good), "must be CN="),
            (of("DNS:", good), "must be CN="),
            (of("CN=ada", "scopes = []"), "at least one"),
            (of("CN=ada", "scopes = ['ingest']\ndestinations = []"), "at least one"),
            (of("CN=ada", good).repeat(2), "named twice"),
            (of("CN=ada", "scopes = ['all']"), "all"),
            (of("CN=ada", ""), "scopes"),
        ] {
            let error = checked(&bad).unwrap_err();
            assert!(error.contains(said), "{bad}: {error}");
        }
    }

    #[test]
    fn the_admin_token_comes_from_one_place_and_is_never_shown() {
        let long = "0123456789abcdef0123";
        let resolved = |token: &str, file: &std::path::Path| {
            let mut auth = Auth {
                admin_token: token.into(),
                admin_token_file: file.into(),
                ..Auth::default()
            };
            auth.resolve().map(|()| auth).map_err(|error| error.to_string())
        };
        let none = std::path::Path::new("");
        assert_eq!(resolved("", none).unwrap().admin_token(), None);
        let auth = resolved(long, none).unwrap();
        assert_eq!(auth.admin_token(), Some(long));
        assert!(!format!("{auth:?}").contains(long));
        for bad in ["short", "0123456789 abcdef0123", "0123456789\u{e9}bcdef0123"] {
            let error = resolved(bad, none).unwrap_err();
            assert!(error.contains("auth.admin_token") && !error.contains(bad), "{error}");
        }
        let mut file = tempfile::NamedTempFile::new().unwrap();
        assert!(resolved("", file.path()).unwrap_err().contains("is empty"));
        writeln!(file, "{long}").unwrap();
        assert_eq!(resolved("", file.path()).unwrap().admin_token(), Some(long));
        assert!(resolved(long, file.path()).unwrap_err().contains("leave one out"));
        let missing = std::path::Path::new("/nonexistent/token");
        assert!(resolved("", missing).unwrap_err().contains("auth.admin_token_file"));
    }
}
