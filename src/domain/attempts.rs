//! What attempts at a message left behind: how many, and what went wrong.

use serde::{Deserialize, Serialize};

/// The most errors that are kept of a message: the last ones.
pub const ERRORS_MAX: usize = 5;
/// The most that is kept of what the other side said, in bytes.
pub const DETAIL_BYTES_MAX: usize = 2048;
/// The largest checkpoint, in bytes.
pub const CHECKPOINT_BYTES_MAX: usize = 64 * 1024;

/// Which half of a message's way an attempt was part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// Processing.
    Transform,
    /// Handing it to the receiver.
    Delivery,
}

impl Stage {
    /// As the scripts and the API spell it.
    pub fn as_str(self) -> &'static str {
        match self {
            Stage::Transform => "transform",
            Stage::Delivery => "delivery",
        }
    }
}

/// How an attempt went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// An answer that was not a success.
    Status,
    /// No answer in time.
    Timeout,
    /// No connection, or one that broke.
    Connection,
    /// The other side said that it never will take it (`REJECT`, `final`).
    Rejected,
    /// A worker, or a transform, said that it failed.
    Failed,
    /// The processor was gone: its lease ran out.
    Stalled,
    /// What was to be sent cannot be: too long, a line break in a line.
    Unsendable,
    /// What Redis holds of the message cannot be read.
    Damaged,
}

/// One attempt that went wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptError {
    /// Part of what.
    pub stage: Stage,
    /// How.
    pub kind: ErrorKind,
    /// The HTTP status, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// In words, with what the other side said; at most 2 kB. Never a secret.
    pub detail: String,
}

impl AttemptError {
    /// An error, its detail cut to what is kept.
    pub fn new(stage: Stage, kind: ErrorKind, detail: impl Into<String>) -> AttemptError {
        let mut detail = detail.into();
        if detail.len() > DETAIL_BYTES_MAX {
            let end = (0..=DETAIL_BYTES_MAX).rev().find(|&at| detail.is_char_boundary(at));
            detail.truncate(end.unwrap_or_default());
        }
        AttemptError { stage, kind, status: None, detail }
    }

    /// The same, with the HTTP status that it came with.
    pub fn with_status(mut self, status: u16) -> AttemptError {
        self.status = Some(status);
        self
    }
}

/// What is kept of the attempts at a message; only where there was error, or a checkpoint.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Attempts {
    /// Attempts of the present stage that failed.
    pub failed: u32,
    /// Leases on it that ran out.
    pub stalls: u32,
    /// What the last worker noted for the next, as JSON.
    pub checkpoint: Option<String>,
    /// The stage at which the message is halted, if it is.
    pub halted_in: Option<Stage>,
    /// The last errors, the latest first, each with its time in ms since 1970.
    pub errors: Vec<(u64, AttemptError)>,
}

impl Attempts {
    /// The number of the attempt at its processing that is under way, or comes next: from 1.
    pub fn number(&self) -> u32 {
        self.failed.saturating_add(self.stalls).saturating_add(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_that_stalled_counts_like_one_that_failed() {
        let attempts = Attempts { failed: 2, stalls: 1, ..Attempts::default() };
        assert_eq!((Attempts::default().number(), attempts.number()), (1, 4));
    }

    #[test]
    fn a_long_detail_is_cut_between_characters() {
        let error = AttemptError::new(Stage::Delivery, ErrorKind::Status, "ö".repeat(2000));
        assert!(error.detail.len() <= DETAIL_BYTES_MAX && error.detail.ends_with('ö'));
    }
}
