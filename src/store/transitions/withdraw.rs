//! Having messages leave without being delivered (`lua/withdraw.lua`).

use std::collections::{BTreeSet, HashMap};

use bytes::Bytes;
use redis::{FromRedisValue, ParsingError, Value};

use super::release::Owner;
use crate::{
    domain::{AttemptError, Sequence, Tombstone},
    store::{
        Store, StoreError, attempts,
        entry::{CatalogEntry, set_key},
        keys::Claimers,
        record,
    },
};

/// The most withdrawals that one look finds.
const ORDERS_MAX: usize = 200;
/// The most messages that one call withdraws: each costs some fifteen commands.
pub const WITHDRAW_MAX: usize = 200;

/// What came of a withdrawal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Withdrawn {
    /// It is a tombstone now.
    Done,
    /// It is in a processor's or a sender's hand: it leaves when that attempt has ended without
    /// success.
    Withdrawing,
    /// It had left before, or was a tombstone already.
    Settled,
    /// It stays: there is no room for another dead letter (`dead_letters_max`).
    Full,
    /// It stays: what Redis holds of its lane is damaged.
    Damaged,
}

/// Which messages are to leave, and why.
#[derive(Debug, Clone)]
pub struct Withdrawal<'a> {
    /// As what.
    pub how: Tombstone,
    /// Why, in words.
    pub reason: &'a str,
    /// Attempts at the present stage that failed, and the last error, where that is the reason.
    pub error: Option<(u32, &'a AttemptError)>,
    /// The messages, each with the key of its lane (as in [`super::LaneRequest::key`]).
    pub messages: &'a [(Option<String>, Sequence)],
}

/// A message that is to leave without being delivered, which only the owner can see to: it may be
/// in somebody's hand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingWithdrawal {
    /// The message.
    pub sequence: Sequence,
    /// Its lane, as in [`LaneRequest::key`].
    pub lane: Option<String>,
    /// How it is to leave.
    pub how: Tombstone,
    /// Why, in words.
    pub reason: String,
}

impl FromRedisValue for Withdrawn {
    fn from_redis_value(value: Value) -> Result<Self, ParsingError> {
        match String::from_redis_value(value)?.as_str() {
            "done" => Ok(Withdrawn::Done),
            "withdrawing" => Ok(Withdrawn::Withdrawing),
            "settled" => Ok(Withdrawn::Settled),
            "full" => Ok(Withdrawn::Full),
            "damaged" => Ok(Withdrawn::Damaged),
            other => Err(ParsingError::from(format!("unknown outcome {other:?}"))),
        }
    }
}

/// Who has messages leave.
#[derive(Debug, Clone, Copy)]
pub enum Who<'a> {
    /// A person.
    Person,
    /// The destination's policy: of what is halted, and nothing else.
    Policy,
    /// The owner of the partition, who has none of them in hand.
    Owner(&'a Owner),
}

impl Store {
    /// Has messages of one destination leave, one answer each, in order; at most [`WITHDRAW_MAX`].
    pub async fn withdraw(
        &self,
        known: &CatalogEntry,
        who: Who<'_>,
        withdrawal: &Withdrawal<'_>,
    ) -> Result<Vec<Withdrawn>, StoreError> {
        let keys = self.keys().destination(&known.destination.name);
        let mut lanes: Vec<Option<&str>> = Vec::new();
        let mut index = HashMap::new();
        let mut places = Vec::with_capacity(withdrawal.messages.len());
        for (lane, sequence) in withdrawal.messages {
            let set = set_key(known, lane.as_deref());
            let lane = *index.entry(set).or_insert_with(|| {
                lanes.push(set);
                lanes.len()
            });
            places.push((lane, *sequence));
        }

        let mut call = self.call(|scripts| &scripts.withdraw);
        call.key(keys.partition.epoch()).key(keys.partition.owner()).key(keys.hash());
        call.key(keys.waiting()).key(keys.messages()).key(keys.attempts());
        call.key(keys.partition.delayed()).key(keys.halted()).key(keys.withdrawals());
        call.key(keys.dead_letters())
            .key(keys.dead_letter_messages())
            .key(keys.partition.releasable());
        call.key(keys.lanes()).key(keys.partition.active(Claimers::Builtin));
        call.key(keys.partition.active(Claimers::Worker)).key(keys.partition.wake_waiting());
        call.key(keys.partition.wake_releasable());
        call.key(keys.bodies()).key(keys.dead_lettered_at()).key(keys.withdrawn());
        call.key(keys.partition.leases());
        for lane in &lanes {
            call.key(keys.in_progress(*lane)).key(keys.ready(*lane));
        }
        call.arg(known.destination.name.as_str()).arg(known.version).arg(known.ordering_text());
        call.arg(known.processing_text()).arg(self.known_of_epoch(known.partition));
        call.arg(record::letter(withdrawal.how).to_string());
        call.arg(match who {
            Who::Person => String::new(),
            Who::Policy => "policy".to_owned(),
            Who::Owner(owner) => format!("{} {}", owner.token.as_str(), owner.epoch),
        });
        call.arg(withdrawal.reason);
        let (failed, error) = match withdrawal.error {
            Some((failed, error)) => (failed, attempts::error_text(error)),
            None => (0, String::new()),
        };
        call.arg(failed).arg(error).arg(lanes.len());
        call.arg(known.destination.dead_letters_max);
        for lane in &lanes {
            call.arg(lane.unwrap_or_default());
        }
        for (lane, sequence) in &places {
            call.arg(*lane).arg(*sequence);
        }
        let answers: Vec<Withdrawn> = self.run(&call).await?;
        let damaged = answers.iter().zip(&places).filter(|(one, _)| **one == Withdrawn::Damaged);
        let damaged: BTreeSet<usize> = damaged.map(|(_, (lane, _))| *lane).collect();
        for lane in damaged.into_iter().filter_map(|lane| lanes.get(lane - 1)) {
            let of_lane = vec![keys.in_progress(*lane), keys.ready(*lane)];
            self.note_damaged_keys(known, "withdraw", of_lane);
        }
        Ok(answers)
    }

    /// The withdrawals that wait at a destination, from this cursor on (first 0), some at a time; and the
    /// cursor to go on with, 0 if these were the last.
    pub async fn withdrawals(
        &self,
        known: &CatalogEntry,
        cursor: u64,
    ) -> Result<(Vec<PendingWithdrawal>, u64), StoreError> {
        let key = self.keys().destination(&known.destination.name).withdrawals();
        let mut pipe = redis::pipe();
        pipe.cmd("HSCAN").arg(key).arg(cursor).arg("COUNT").arg(ORDERS_MAX);
        let ((next, found),): ((u64, Vec<(Sequence, Bytes)>),) = self.query(&pipe).await?;
        // One that cannot be read holds up no other: a person can withdraw the message again.
        let read = |(sequence, text): (Sequence, Bytes)| {
            let withdrawal = read_pending(known, sequence, &text);
            if withdrawal.is_none() {
                let name = &known.destination.name;
                tracing::error!(destination = %name, sequence, "a withdrawal cannot be read");
            }
            withdrawal
        };
        Ok((found.into_iter().filter_map(read).collect(), next))
    }
}

/// `<how><length of the lane's key> <key><reason>`
fn read_pending(
    known: &CatalogEntry,
    sequence: Sequence,
    text: &[u8],
) -> Option<PendingWithdrawal> {
    let how = record::tombstone_of(text.first().copied()).ok()?;
    let text = std::str::from_utf8(text.get(1..)?).ok()?;
    let (length, rest) = text.split_once(' ')?;
    let (key, reason) = rest.split_at_checked(length.parse().ok()?)?;
    let lane = known.destination.lane_of(Some(key), sequence);
    Some(PendingWithdrawal { sequence, lane, how, reason: reason.to_owned() })
}
