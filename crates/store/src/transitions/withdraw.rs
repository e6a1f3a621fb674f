//! Withdraws messages: they leave without delivery (`lua/withdraw.lua`).

use bytes::Bytes;
use redis::{FromRedisValue, ParsingError, Value};

use super::release::Owner;
use crate::{
    Store, StoreError, attempts,
    contract::{contract, row},
    entry::{CatalogEntry, set_key},
    keys::DestinationKeys,
    record,
    rows::{LaneRow, Numbered},
};
use domain::{AttemptError, Sequence, Tombstone};

row! {
    /// A message to withdraw.
    WithdrawnMessage {
        /// The number of the message's lane, from 1.
        lane: usize,
        sequence: Sequence,
    }
}

contract! {
    withdraw
    keys(keys: &DestinationKeys) {
        epoch, owner, destination: keys.hash(), waiting, messages, attempts, delayed, halted,
        withdrawals, dead_letters, dead_letter_messages, releasable, lanes, active_builtin,
        active_worker, wake_waiting, wake_releasable, bodies, dead_lettered_at, withdrawn, leases,
        consumer_leases, consumer_lease_ends, consumers, withdrawing,
    }
    args<'a> {
        destination: &'a str,
        version: u64,
        ordering: &'a str,
        processing: &'a str,
        seen_epoch: String,
        /// `d` dropped, `s` dead-lettered or `c` cancelled.
        how: String,
        /// Who withdraws the messages. Empty: an operator; `policy`: the destination's policy, for halted messages
        /// only; `<owner token> <epoch>`: the owner, which is delivering none of these messages.
        who: String,
        reason: &'a str,
        /// The failed attempts, including this one. Only used with `problem`.
        failed: u32,
        /// The last error as JSON, or empty.
        problem: String,
        /// 0: no limit.
        letters_max: u64,
    }
    lists {
        lanes: LaneRow<'a>,
        messages: WithdrawnMessage,
    }
}

/// The most messages that one call withdraws: each takes about fifteen commands.
pub const WITHDRAW_MAX: usize = 200;

/// The result of a withdrawal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Withdrawn {
    /// The message is a tombstone now.
    Done,
    /// A processor or sender is working on the message: it leaves if that attempt fails.
    Withdrawing,
    /// The message had left already, or was a tombstone.
    Settled,
    /// The message stays: there are already `dead_letters_max` dead letters.
    Full,
}

/// Which messages to withdraw, and why.
#[derive(Debug, Clone)]
pub struct Withdrawal<'a> {
    /// The kind of tombstone.
    pub how: Tombstone,
    /// The reason, in words.
    pub reason: &'a str,
    /// The failed attempts in this stage and the last error, if they are the reason.
    pub error: Option<(u32, &'a AttemptError)>,
    /// The messages, each with the key of its lane (as in [`super::LaneRequest::key`]).
    pub messages: &'a [(Option<String>, Sequence)],
}

/// A withdrawal of a message that a processor or sender may be working on. Only the owner of the partition can carry
/// it out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingWithdrawal {
    /// The message.
    pub sequence: Sequence,
    /// The lane of the message, as in [`LaneRequest::key`].
    pub lane: Option<String>,
    /// The kind of tombstone.
    pub how: Tombstone,
    /// The reason, in words.
    pub reason: String,
}

impl FromRedisValue for Withdrawn {
    fn from_redis_value(value: Value) -> Result<Self, ParsingError> {
        match String::from_redis_value(value)?.as_str() {
            "done" => Ok(Withdrawn::Done),
            "withdrawing" => Ok(Withdrawn::Withdrawing),
            "settled" => Ok(Withdrawn::Settled),
            "full" => Ok(Withdrawn::Full),
            other => Err(ParsingError::from(format!("unknown outcome {other:?}"))),
        }
    }
}

/// On whose behalf messages are withdrawn.
#[derive(Debug, Clone, Copy)]
pub enum Who<'a> {
    /// An operator.
    Operator,
    /// The destination's policy. It applies to halted messages only.
    Policy,
    /// The owner of the partition, which is delivering none of the messages.
    Owner(&'a Owner),
}

impl Store {
    /// Withdraws messages of one destination. One result each, in order; at most [`WITHDRAW_MAX`].
    pub async fn withdraw(
        &self,
        entry: &CatalogEntry,
        who: Who<'_>,
        withdrawal: &Withdrawal<'_>,
    ) -> Result<Vec<Withdrawn>, StoreError> {
        let keys = self.keys_of(entry);
        let mut lanes = Numbered::default();
        let messages = withdrawal.messages.iter().map(|(lane, sequence)| WithdrawnMessage {
            lane: lanes.number_of(set_key(entry, lane.as_deref())),
            sequence: *sequence,
        });
        let messages = messages.collect();
        let who = match who {
            Who::Operator => String::new(),
            Who::Policy => "policy".to_owned(),
            Who::Owner(owner) => format!("{} {}", owner.token.as_str(), owner.epoch),
        };
        let (failed, problem) = match withdrawal.error {
            Some((failed, error)) => (failed, attempts::error_text(error)),
            None => (0, String::new()),
        };
        let call = Args {
            destination: entry.destination.name.as_str(),
            version: entry.version,
            ordering: entry.ordering_text(),
            processing: entry.processing_text(),
            seen_epoch: self.known_of_epoch(entry.partition),
            how: record::letter(withdrawal.how).to_string(),
            who,
            reason: withdrawal.reason,
            failed,
            problem,
            letters_max: entry.destination.dead_letters_max,
            lanes: LaneRow::of_all(&keys, &lanes),
            messages,
        }
        .call(self, &keys);
        self.run(&call).await
    }
}

/// Parses a stored withdrawal: `<how><length of the lane's key> <key><reason>`.
pub(super) fn read_pending(
    entry: &CatalogEntry,
    (sequence, text): (Sequence, Bytes),
) -> Option<PendingWithdrawal> {
    let read = read_text(entry, sequence, &text);
    if read.is_none() {
        // An unreadable withdrawal must not block others: an operator can withdraw the message again.
        let name = &entry.destination.name;
        tracing::error!(destination = %name, sequence, "a withdrawal cannot be read");
    }
    read
}

fn read_text(entry: &CatalogEntry, sequence: Sequence, text: &[u8]) -> Option<PendingWithdrawal> {
    let how = record::tombstone_of(text.first().copied()).ok()?;
    let text = std::str::from_utf8(text.get(1..)?).ok()?;
    let (length, rest) = text.split_once(' ')?;
    let (key, reason) = rest.split_at_checked(length.parse().ok()?)?;
    let lane = entry.destination.lane_of(Some(key), sequence);
    Some(PendingWithdrawal { sequence, lane, how, reason: reason.to_owned() })
}
