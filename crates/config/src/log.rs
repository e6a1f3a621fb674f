//! The log.

use std::io::IsTerminal;

use serde::{Deserialize, Serialize};

/// The log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Log {
    /// The format of a line.
    pub format: LogFormat,
    /// The events to log: a level, or one level for each module. `RESEQ_LOG` replaces it.
    pub level: String,
}

impl Default for Log {
    fn default() -> Log {
        Log { format: LogFormat::default(), level: "info".to_owned() }
    }
}

/// The format of a line of the log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// Text on a terminal, JSON otherwise.
    #[default]
    Auto,
    /// Text for people.
    Text,
    /// One JSON object on each line.
    Json,
}

impl Log {
    /// True if each line is a JSON object.
    pub fn is_json(&self) -> bool {
        match self.format {
            LogFormat::Auto => !std::io::stderr().is_terminal(),
            LogFormat::Text => false,
            LogFormat::Json => true,
        }
    }
}
