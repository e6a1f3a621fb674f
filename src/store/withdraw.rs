//! Having messages leave without being delivered (`lua/withdraw.lua`).

use super::{Known, Owner, Store, StoreError};
use crate::domain::{Sequence, Tombstone, Trouble};

/// What came of a withdrawal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Withdrawn {
    /// It is a tombstone now.
    Done,
    /// It is in a processor's or a sender's hand: it leaves when that attempt has ended without
    /// success.
    Ordered,
    /// It had left before, or was a tombstone already.
    Settled,
}

/// Which messages are to leave, and why.
#[derive(Debug, Clone)]
pub struct Withdrawal<'a> {
    /// As what.
    pub how: Tombstone,
    /// Why, in words.
    pub reason: &'a str,
    /// Attempts at the present stage that failed, and the last trouble, where that is the reason.
    pub trouble: Option<(u32, &'a Trouble)>,
    /// The messages, each with the key of its lane (as in [`super::LaneRequest::key`]).
    pub messages: &'a [(Option<String>, Sequence)],
}

impl Store {
    /// Has messages of one destination leave, one answer each, in order; at most 500. With
    /// `owner`, by the owner of the partition, who knows that none of them is in its hand.
    pub async fn withdraw(
        &self,
        _known: &Known,
        _owner: Option<&Owner>,
        _withdrawal: &Withdrawal<'_>,
    ) -> Result<Vec<Withdrawn>, StoreError> {
        todo!()
    }
}
