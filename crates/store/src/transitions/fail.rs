//! Ends processing attempts that produced no output (`lua/fail.lua`).

use super::complete::Status;
use crate::{
    CallSequence, Store, StoreError, attempts,
    contract::{contract, row},
    entry::CatalogEntry,
    keys::DestinationKeys,
    record,
    rows::{LaneRow, Numbered},
};
use domain::{AttemptError, Disposition, ErrorKind, LeaseToken, MessageIds, Sequence};

row! {
    /// An attempt that produced no output.
    Failure<'a> {
        sequence: Sequence,
        /// The lease, as a member of `leases`.
        member: String,
        /// The error as JSON.
        problem: String,
        is_later: bool,
        /// The wait before the next attempt; empty: there is no further attempt.
        wait_ms: String,
        /// The kind of tombstone; empty: the message halts.
        how: String,
        reason: &'a str,
        /// The number of the message's lane, from 1, if the message should leave.
        lane: usize,
    }
}

contract! {
    fail
    keys(keys: &DestinationKeys, caller: &str) {
        call: keys.call(caller), destination: keys.hash(), waiting, messages, bodies, attempts,
        leases, delayed, halted, withdrawals, withdrawing, dead_letters, dead_letter_messages,
        dead_lettered_at, releasable, lanes, consumers, consumer_lease_ends, active_builtin,
        active_worker, wake_waiting, wake_releasable, epoch,
    }
    args<'a> {
        call_number: u64,
        destination: &'a str,
        version: u64,
        /// 0: no limit.
        letters_max: u64,
    }
    lists {
        lanes: LaneRow<'a>,
        failures: Failure<'a>,
    }
}

/// The most failures of one call whose messages may leave: each failure takes about fifteen commands.
pub const FAIL_MAX: usize = super::withdraw::WITHDRAW_MAX;

/// A claimed message whose attempt ended without an output.
#[derive(Debug, Clone)]
pub struct Failed {
    /// The lease.
    pub token: LeaseToken,
    /// What happens to the message, by the definition that the caller knows.
    pub disposition: Disposition,
    /// True if the attempt did not fail: its worker wants to get the message again later.
    pub is_later: bool,
    /// The error of the attempt. With `is_later`: the error to use if the worker has asked too often.
    pub error: AttemptError,
    /// The ids of the message, for logs.
    pub ids: MessageIds,
}

impl Failed {
    /// What happened to the message after its last attempt; `None` if another attempt follows, or if the lease was
    /// gone.
    pub fn outcome(&self, status: Status) -> Option<&'static str> {
        match (status, &self.disposition) {
            (Status::Halted, _) => Some("halted"),
            (Status::Withdrawn, Disposition::Withdraw(how, _)) => Some(how.as_str()),
            _ => None,
        }
    }
}

impl Store {
    /// Ends failed attempts, and attempts whose workers want the message again later; at most [`FAIL_MAX`]. Applies
    /// the disposition of each message. A message that should leave is halted instead if another definition applies
    /// by now, or if there is no room for its dead letter. [`Store::apply_policy_to_all_halted`] withdraws it later.
    pub async fn fail(
        &self,
        call_sequence: &CallSequence,
        entry: &CatalogEntry,
        failed: &[Failed],
    ) -> Result<Vec<Status>, StoreError> {
        let destination = &entry.destination;
        let keys = self.keys().destination(&destination.name);
        let (caller, number) = call_sequence.current();
        let mut lanes = Numbered::default();
        let failures = failed.iter().map(|one| {
            let wait_ms = one.disposition.wait().map(|wait| wait.as_millis().to_string());
            let (how, reason, lane) = match &one.disposition {
                Disposition::Withdraw(how, reason) => {
                    let key = destination.lane_key(one.token.key.as_deref());
                    (record::letter(*how).into(), reason.as_str(), lanes.number_of(key))
                }
                _ => Default::default(),
            };
            Failure {
                sequence: one.token.sequence,
                member: one.token.member(),
                problem: attempts::error_text(&one.error),
                is_later: one.is_later,
                wait_ms: wait_ms.unwrap_or_default(),
                how,
                reason,
                lane,
            }
        });
        let failures = failures.collect();
        let call = Args {
            call_number: number,
            destination: destination.name.as_str(),
            version: entry.version,
            letters_max: destination.dead_letters_max,
            lanes: LaneRow::of_all(&keys, &lanes),
            failures,
        }
        .call(self, &keys, &caller);
        let statuses: Vec<Status> = call_sequence.answered(self.run(&call).await)?;
        failed.iter().zip(&statuses).for_each(|(one, status)| report(one, *status));
        Ok(statuses)
    }
}

/// Logs the end of a message's last attempt. Damage is logged separately.
fn report(one: &Failed, status: Status) {
    let kind = one.error.kind;
    let Some(outcome) = one.outcome(status).filter(|_| kind != ErrorKind::Damaged) else { return };
    let (destination, sequence) = (one.token.destination.as_str(), one.token.sequence);
    let (id, trace, kind) = (&one.ids.id, one.ids.trace_id(), kind.as_str());
    telemetry::note_given_up(destination, sequence, &one.ids, outcome, kind);
    match (status, &one.disposition) {
        (Status::Halted, Disposition::Withdraw(..)) => tracing::warn!(
            destination,
            sequence,
            id,
            trace,
            kind,
            "a message is halted for now: it leaves when the owner of its partition applies on_exhausted, or when there \
             is room for its dead letter"
        ),
        (Status::Halted, _) => {
            tracing::error!(
                destination,
                sequence,
                id,
                trace,
                kind,
                "a message is halted, and waits for an operator"
            );
        }
        _ => tracing::warn!(destination, sequence, id, trace, kind, outcome, "giving up a message"),
    }
}
