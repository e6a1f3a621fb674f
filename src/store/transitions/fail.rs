//! Ends failed processing attempts (`lua/fail.lua`).

use std::time::Duration;

use super::complete::Status;
use crate::{
    domain::{AttemptError, LeaseToken, MessageIds},
    store::{CallSequence, Store, StoreError, attempts, entry::CatalogEntry, keys::Claimers},
};

/// A claimed message whose attempt failed.
#[derive(Debug, Clone)]
pub struct Failed {
    /// The lease.
    pub token: LeaseToken,
    /// How long to wait before the next attempt.
    pub wait: Duration,
    /// True if another attempt cannot help.
    pub is_final: bool,
    /// What went wrong.
    pub error: AttemptError,
    /// What names the message in logs.
    pub ids: MessageIds,
}

impl Store {
    /// Ends failed attempts. Each message is tried again after its wait, or halted if its attempts are
    /// used up.
    pub async fn fail(
        &self,
        call_sequence: &CallSequence,
        entry: &CatalogEntry,
        failed: &[Failed],
    ) -> Result<Vec<Status>, StoreError> {
        let keys = self.keys().destination(&entry.destination.name);
        let mut call = self.call(|scripts| &scripts.fail);
        let (caller, number) = call_sequence.current();
        call.key(keys.partition.call(&caller)).key(keys.hash()).key(keys.waiting());
        call.key(keys.messages()).key(keys.attempts()).key(keys.partition.leases());
        call.key(keys.partition.delayed()).key(keys.halted());
        call.key(keys.partition.active(Claimers::Builtin));
        call.key(keys.partition.active(Claimers::Worker)).key(keys.partition.wake_waiting());
        call.key(keys.partition.epoch());
        call.arg(number).arg(entry.destination.name.as_str());
        for one in failed {
            call.arg(one.token.sequence).arg(one.token.member()).arg(one.wait.as_millis() as u64);
            call.arg(u8::from(one.is_final)).arg(attempts::error_text(&one.error));
        }
        call_sequence.answered(self.run(&call).await)
    }
}
