//! The file of contexts: named services with their tokens. Only its owner may read it.

use std::{
    collections::BTreeMap,
    fs::{self, DirBuilder, Permissions},
    io::{ErrorKind, Write},
    os::unix::fs::{DirBuilderExt, PermissionsExt},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};
use serde::{Deserialize, Serialize};

use crate::usage::WrongUsage;

/// The longest name of a context, in characters.
const NAME_MAX: usize = 64;

/// All contexts.
#[derive(Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Contexts {
    /// The context for commands that name none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current: Option<String>,
    /// The contexts by name.
    pub contexts: BTreeMap<String, Context>,
}

/// A service, and how to reach it. It has no `Debug`, because it holds a secret.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Context {
    /// The URL of the service.
    pub url: String,
    /// The token of every request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// A file with root certificates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
    /// A file with the certificate of the client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate_file: Option<PathBuf>,
    /// A file with the key of that certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_file: Option<PathBuf>,
}

impl Contexts {
    /// Reads the file of this user; empty if there is no file.
    pub fn load() -> anyhow::Result<Contexts> {
        match path() {
            Some(path) => Contexts::read(&path),
            None => Ok(Contexts::default()),
        }
    }

    /// Writes the file of this user.
    pub fn save(&self) -> anyhow::Result<()> {
        let problem = "there is no directory for contexts: set XDG_CONFIG_HOME or HOME";
        self.write(&path().context(problem)?)
    }

    fn read(path: &Path) -> anyhow::Result<Contexts> {
        let shown = path.display();
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Contexts::default()),
            Err(error) => return Err(error).with_context(|| format!("{shown} cannot be read")),
        };
        let mode = fs::metadata(path).with_context(|| format!("{shown} cannot be read"))?;
        if mode.permissions().mode() & 0o077 != 0 {
            bail!("{shown} holds tokens, and other users may read it: run chmod 600 {shown}");
        }
        // Do not print the whole error: it quotes the line, which may hold a token.
        toml::from_str(&text).map_err(|error| {
            let line = error.span().map_or(0, |span| text[..span.start].lines().count().max(1));
            anyhow::anyhow!("{shown}, line {line}: {}", error.message())
        })
    }

    fn write(&self, path: &Path) -> anyhow::Result<()> {
        let problem = || format!("{} cannot be written", path.display());
        let folder = path.parent().unwrap_or(Path::new("."));
        DirBuilder::new().recursive(true).mode(0o700).create(folder).with_context(problem)?;
        let text = toml::to_string_pretty(self).with_context(problem)?;
        // Other commands see the old file or the new file, never a part of it.
        let mut file = tempfile::NamedTempFile::new_in(folder).with_context(problem)?;
        file.as_file().set_permissions(Permissions::from_mode(0o600)).with_context(problem)?;
        file.write_all(text.as_bytes()).with_context(problem)?;
        file.persist(path).with_context(problem)?;
        Ok(())
    }

    /// The context with this name.
    pub fn find(&self, name: &str) -> anyhow::Result<&Context> {
        let unknown = || {
            let names: Vec<&str> = self.contexts.keys().map(String::as_str).collect();
            WrongUsage(match names.as_slice() {
                [] => format!("there is no context {name:?}: make one with reseq context add"),
                names => format!("there is no context {name:?}, only {}", names.join(", ")),
            })
        };
        Ok(self.contexts.get(name).ok_or_else(unknown)?)
    }
}

/// Parses the name of a context.
pub fn name(text: &str) -> Result<String, String> {
    let is_fit = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    match !text.is_empty() && text.len() <= NAME_MAX && text.chars().all(is_fit) {
        true => Ok(text.to_owned()),
        false => Err(format!("give 1 to {NAME_MAX} letters, digits, '.', '-' or '_'")),
    }
}

/// The path of the file of this user.
fn path() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let folder = variable("XDG_CONFIG_HOME").map(PathBuf::from);
    let folder = folder.or_else(|| Some(PathBuf::from(variable("HOME")?).join(".config")))?;
    Some(folder.join("reseq").join("contexts.toml"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prod() -> Contexts {
        let prod = Context {
            url: "https://reseq.example".to_owned(),
            token: Some("rsq_secret".to_owned()),
            ca_file: None,
            certificate_file: None,
            key_file: None,
        };
        Contexts {
            current: Some("prod".to_owned()),
            contexts: BTreeMap::from([("prod".to_owned(), prod)]),
        }
    }

    #[test]
    fn only_the_owner_may_read_the_file_of_contexts() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("reseq/contexts.toml");
        assert!(Contexts::read(&path).unwrap().contexts.is_empty(), "there is none yet");
        prod().write(&path).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        let read = Contexts::read(&path).unwrap();
        assert_eq!(read.find("prod").ok().unwrap().token.as_deref(), Some("rsq_secret"));
        assert!(read.find("other").err().unwrap().to_string().contains("only prod"));
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        let error = Contexts::read(&path).err().unwrap().to_string();
        assert!(error.contains("chmod 600"), "{error}");
        // Writing repairs it, and a wrong file does not show its content.
        prod().write(&path).unwrap();
        fs::write(&path, "current = \"prod\"\n[contexts.prod]\ntoken = rsq_secret\n").unwrap();
        let error = Contexts::read(&path).err().unwrap().to_string();
        assert!(error.contains("line 3") && !error.contains("rsq_secret"), "{error}");
    }

    #[test]
    fn a_name_is_a_word() {
        assert_eq!(name("prod-eu.1_a"), Ok("prod-eu.1_a".to_owned()));
        for wrong in ["", "a b", "ä", "a/b", &"x".repeat(65)] {
            assert!(name(wrong).is_err(), "{wrong:?}");
        }
    }
}
