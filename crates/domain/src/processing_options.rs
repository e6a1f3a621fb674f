//! Options with which a producer controls the processing of its messages.

use serde::{Deserialize, Serialize};

/// The options of one message. Few producers set any.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ProcessingOptions {
    /// True if Redis keeps the output for a while, because the producer waits for it.
    pub keep_result: bool,
    /// The most attempts, if fewer than the destination allows; 0: as many as it allows.
    pub attempts_max: u32,
    /// The upper limit of the first wait after a failed attempt, if not the destination's.
    pub backoff_ms: Option<u64>,
}

impl ProcessingOptions {
    /// True if the producer sets no options.
    pub fn are_none(&self) -> bool {
        *self == ProcessingOptions::default()
    }
}
