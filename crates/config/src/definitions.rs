//! When the definitions of the configuration file are written.

use serde::{Deserialize, Serialize};

/// How the definitions of the configuration file are treated.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Definitions {
    /// When a start writes the definition of a destination that exists.
    pub file: FileRule,
}

/// When a start writes the definition of a destination that exists.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileRule {
    /// Whenever another one runs.
    Always,
    /// If no file has written it in this form before: what was changed since stays.
    #[default]
    Changed,
}
