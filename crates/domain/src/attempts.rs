//! What Redis stores about failed attempts: their number, their errors, a checkpoint.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The most stored errors of a message: the last ones, and the first of the current count of attempts.
pub const ERRORS_MAX: usize = 5;
/// The longest stored answer of a receiver, service or worker, in bytes.
pub const DETAIL_BYTES_MAX: usize = 2048;
/// How often workers may ask to get one message later.
pub const LATER_MAX: u32 = 1000;
/// The largest checkpoint, in bytes.
pub const CHECKPOINT_BYTES_MAX: usize = 64 * 1024;

/// The stage of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// Processing.
    Transform,
    /// Delivery to the receiver.
    Delivery,
}

impl Stage {
    /// The text in scripts and API.
    pub fn as_str(self) -> &'static str {
        match self {
            Stage::Transform => "transform",
            Stage::Delivery => "delivery",
        }
    }
}

/// The kind of error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// An answer that was not a success.
    Status,
    /// No answer came in time.
    Timeout,
    /// There was no connection, or it broke.
    Connection,
    /// The receiver, service or worker refused the message permanently (`REJECT`, `final`).
    Rejected,
    /// A worker or a transform reported an error.
    Failed,
    /// The lease expired: its processor or worker was gone.
    Stalled,
    /// The message cannot be sent: it is too long, or contains a line break and frames are lines.
    Unsendable,
    /// The message's data in Redis cannot be read.
    Damaged,
}

impl ErrorKind {
    /// Its name in the API and in logs.
    pub fn as_str(self) -> &'static str {
        match self {
            ErrorKind::Status => "status",
            ErrorKind::Timeout => "timeout",
            ErrorKind::Connection => "connection",
            ErrorKind::Rejected => "rejected",
            ErrorKind::Failed => "failed",
            ErrorKind::Stalled => "stalled",
            ErrorKind::Unsendable => "unsendable",
            ErrorKind::Damaged => "damaged",
        }
    }
}

/// A failed attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AttemptError {
    /// The stage of the attempt.
    pub stage: Stage,
    /// The kind of error.
    pub kind: ErrorKind,
    /// The HTTP status, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// What happened, with the answer of the receiver or service; at most 2 kB. Must not contain secrets.
    pub detail: String,
}

impl AttemptError {
    /// An error, with its detail truncated to the stored length.
    pub fn new(stage: Stage, kind: ErrorKind, detail: impl Into<String>) -> AttemptError {
        let mut detail = detail.into();
        if detail.len() > DETAIL_BYTES_MAX {
            let end = (0..=DETAIL_BYTES_MAX).rev().find(|&at| detail.is_char_boundary(at));
            detail.truncate(end.unwrap_or_default());
        }
        AttemptError { stage, kind, status: None, detail }
    }

    /// Sets the HTTP status.
    pub fn with_status(mut self, status: u16) -> AttemptError {
        self.status = Some(status);
        self
    }
}

/// The stored facts about a message's attempts. Stored only if an attempt failed or left a checkpoint.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Attempts {
    /// Failed attempts in the current stage.
    pub failed: u32,
    /// Expired leases on the message.
    pub stalls: u32,
    /// The checkpoint that the last worker left for the next worker, as JSON.
    pub checkpoint: Option<String>,
    /// The stage in which the message halted, if it did.
    pub halted_in: Option<Stage>,
    /// The last errors, and the first of the attempts that count: newest first, each with its time in ms since 1970.
    pub errors: Vec<(u64, AttemptError)>,
    /// If the message is a *suspect* (it may have crashed its worker): how many suspects may be processed at once with
    /// it. Otherwise 0.
    pub together: u32,
    /// Leases that expired while no other message could have crashed the worker.
    pub stalls_alone: u32,
    /// When the checkpoint was stored, in ms since 1970; 0: there is no checkpoint, or it is older than a retry by an
    /// operator.
    pub checkpoint_ms: u64,
    /// How often workers asked to get the message later.
    pub asked_later: u32,
    /// True if the last attempt ended because the worker asked to get the message later. The message still waits for
    /// that.
    pub waits_for_later: bool,
}

impl Attempts {
    /// True if the message may have crashed its workers more than once. A process that processes it must have no other
    /// suspect.
    pub fn must_be_alone(&self) -> bool {
        self.together > 0 && self.stalls > 1
    }

    /// The number of the current or next processing attempt, from 1.
    pub fn number(&self) -> u32 {
        self.failed.saturating_add(self.stalls).saturating_add(1)
    }

    /// When the first of the failed attempts that count ended, in ms since 1970. `None` if no attempt failed, or in the
    /// last one the worker asked to get the message later.
    pub fn failing_since_ms(&self) -> Option<u64> {
        let count = self.failed.saturating_add(self.stalls) as usize;
        let first = count.min(self.errors.len()).checked_sub(1)?;
        self.errors.get(first).filter(|_| !self.waits_for_later).map(|(at_ms, _)| *at_ms)
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
    fn failing_begins_with_the_first_attempt_that_counts() {
        let error = |at_ms| (at_ms, AttemptError::new(Stage::Delivery, ErrorKind::Timeout, ""));
        let of = |failed, stalls| {
            let errors = [50, 40, 30, 20, 10].map(error).into();
            Attempts { failed, stalls, errors, ..Attempts::default() }.failing_since_ms()
        };
        // The others are of an earlier stage, or from before a retry by an operator.
        assert_eq!((of(0, 0), of(1, 0), of(1, 1)), (None, Some(50), Some(40)));
        assert_eq!((of(5, 0), of(700, 1)), (Some(10), Some(10)));
        assert_eq!(Attempts { failed: 2, ..Attempts::default() }.failing_since_ms(), None);
    }

    #[test]
    fn a_long_detail_is_cut_between_characters() {
        let error = AttemptError::new(Stage::Delivery, ErrorKind::Status, "ö".repeat(2000));
        assert!(error.detail.len() <= DETAIL_BYTES_MAX && error.detail.ends_with('ö'));
    }
}
