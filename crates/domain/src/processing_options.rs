//! What producers ask of the processing of their messages.

use serde::{Deserialize, Serialize};

/// What a producer asks of the processing of its message. Few ask for anything.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ProcessingOptions {
    /// Keep the output for a while: the producer waits for it.
    pub keep_result: bool,
    /// The most attempts, if fewer than the destination allows; 0: as many as it allows.
    pub attempts_max: u32,
    /// The upper limit of the first wait after a failed attempt, in place of the destination's.
    pub backoff_ms: Option<u64>,
}

impl ProcessingOptions {
    /// True if the producer asks for nothing.
    pub fn are_none(&self) -> bool {
        *self == ProcessingOptions::default()
    }
}
