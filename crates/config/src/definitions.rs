//! Rules for the definitions in the configuration file.

use serde::{Deserialize, Serialize};

/// Rules for the definitions in the configuration file.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Definitions {
    /// When a start replaces the definition of an existing destination.
    pub file: FileRule,
}

/// When a start replaces the definition of an existing destination.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileRule {
    /// Whenever the definition in the file differs from the current one.
    Always,
    /// Only if no start has written this definition before. So later changes over the API stay.
    #[default]
    Changed,
}
