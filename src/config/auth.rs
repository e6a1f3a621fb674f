//! Who may call this process.

use std::{fmt, fs, path::PathBuf};

use serde::{Deserialize, Serialize};

use super::{ConfigError, invalid};

/// The shortest admin token, in bytes.
const ADMIN_TOKEN_BYTES_MIN: usize = 20;

/// Who may call.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Auth {
    /// Whether callers need tokens.
    pub mode: AuthMode,
    /// A token with the scope `admin`, to make the first tokens with. Empty: none.
    pub admin_token: String,
    /// A file with that token, in place of it.
    pub admin_token_file: PathBuf,
}

/// Whether callers need tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuthMode {
    /// Yes. As long as there is no token at all, this machine alone is served, without one.
    #[default]
    Tokens,
    /// No: something else keeps strangers out.
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
        // Never with the token itself.
        let Some(token) = self.admin_token() else { return Ok(()) };
        if token.len() < ADMIN_TOKEN_BYTES_MIN || !token.bytes().all(|byte| byte.is_ascii_graphic())
        {
            let problem = format!(
                "must be at least {ADMIN_TOKEN_BYTES_MIN} printable ASCII characters without spaces, \
                 for example from: openssl rand -hex 32"
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
