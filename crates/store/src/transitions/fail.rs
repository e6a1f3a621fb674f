//! Ends failed processing attempts (`lua/fail.lua`).

use std::time::Duration;

use super::complete::Status;
use crate::{
    CallSequence, Store, StoreError, attempts,
    contract::{contract, row},
    entry::CatalogEntry,
    keys::DestinationKeys,
};
use domain::{AttemptError, LeaseToken, MessageIds, Sequence};

row! {
    /// A failed attempt.
    Failure {
        sequence: Sequence,
        /// Of `leases`.
        member: String,
        wait_ms: u64,
        is_final: bool,
        /// That its producer asked for; 0: as many as the destination allows.
        attempts_max: u32,
        /// 0: the attempt failed.
        later_max: u32,
        /// As JSON.
        problem: String,
    }
}

contract! {
    fail
    keys(keys: &DestinationKeys, caller: &str) {
        call: keys.call(caller), destination: keys.hash(), waiting, messages, attempts, leases,
        delayed, halted, active_builtin, active_worker, wake_waiting, epoch,
    }
    args<'a> {
        call_number: u64,
        destination: &'a str,
    }
    lists {
        failures: Failure,
    }
}

/// A claimed message whose attempt ended without an output.
#[derive(Debug, Clone)]
pub struct Failed {
    /// The lease.
    pub token: LeaseToken,
    /// How long to wait before the next attempt.
    pub wait: Duration,
    /// True if another attempt cannot help.
    pub is_final: bool,
    /// The most attempts that its producer asked for; 0: as many as the destination allows.
    pub attempts_max: u32,
    /// Above 0: the attempt did not fail, but its worker asks for the message after `wait`, which it may do this often.
    pub later_max: u32,
    /// What went wrong. With `later_max`: the error of one request too many.
    pub error: AttemptError,
    /// What names the message in logs.
    pub ids: MessageIds,
}

impl Store {
    /// Ends failed attempts, and attempts whose workers ask for the message later. Each message is tried again after
    /// its wait, or halted if its attempts are used up.
    pub async fn fail(
        &self,
        call_sequence: &CallSequence,
        entry: &CatalogEntry,
        failed: &[Failed],
    ) -> Result<Vec<Status>, StoreError> {
        let keys = self.keys().destination(&entry.destination.name);
        let (caller, number) = call_sequence.current();
        let row = |one: &Failed| Failure {
            sequence: one.token.sequence,
            member: one.token.member(),
            wait_ms: one.wait.as_millis() as u64,
            is_final: one.is_final,
            attempts_max: one.attempts_max,
            later_max: one.later_max,
            problem: attempts::error_text(&one.error),
        };
        let call = Args {
            call_number: number,
            destination: entry.destination.name.as_str(),
            failures: failed.iter().map(row).collect(),
        }
        .call(self, &keys, &caller);
        call_sequence.answered(self.run(&call).await)
    }
}
