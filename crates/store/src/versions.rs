//! Definitions that Redis keeps: the last versions of each destination, and the definitions of removed destinations.
//! Each definition is a line:
//!
//! ```text
//! <version> <when it was written, in ms since 1970> {"actor": …, "actor_name": …, "definition": {…}}
//! ```

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The most versions of a destination that Redis keeps.
pub(crate) const VERSIONS_MAX: usize = 20;

/// The most definitions of removed destinations that Redis keeps, and for how long.
pub(crate) const REMOVED_DEFINITIONS_MAX: usize = 100;
pub(crate) const REMOVED_KEPT: Duration = Duration::from_secs(7 * 24 * 3600);

/// The author or remover of a definition, as the audit log names callers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Author {
    /// The id of the token, or why no token was needed; empty if unknown.
    #[serde(default)]
    pub actor: String,
    /// The name of the token, or of the process whose configuration file defined the destination.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor_name: Option<String>,
}

/// A definition that Redis keeps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptDefinition {
    /// The version of the definition.
    pub version: u64,
    /// When the definition was written, in ms since 1970. For a removed destination, when the destination was
    /// removed.
    pub at_ms: u64,
    /// Who wrote the definition, or removed the destination.
    pub by: Author,
    /// The definition as it was stored then. Its secrets are masked or encrypted.
    pub definition: Value,
}

#[derive(Serialize, Deserialize)]
struct Note {
    #[serde(flatten)]
    by: Author,
    definition: Value,
}

/// The part of a line after the time.
pub(crate) fn note_of(by: &Author, definition: Value) -> String {
    json!(Note { by: by.clone(), definition }).to_string()
}

impl KeptDefinition {
    /// Reads a line.
    pub(crate) fn read(line: &str) -> Option<KeptDefinition> {
        let mut parts = line.splitn(3, ' ');
        let (version, at_ms) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        let Note { by, definition } = serde_json::from_str(parts.next()?).ok()?;
        Some(KeptDefinition { version, at_ms, by, definition })
    }
}
