//! The audit log.

use serde::{Deserialize, Serialize};

/// The audit log: the actions of operators.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Audit {
    /// Redis keeps this many entries, the newest.
    pub entries_max: usize,
}

impl Default for Audit {
    fn default() -> Self {
        Audit { entries_max: 10_000 }
    }
}
