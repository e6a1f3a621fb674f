//! Withdrawals: requests that a message leaves without being delivered. Only the owner of the partition knows
//! whether the message is loaded.
//!
//! If the message is in flight, the withdrawal waits until the attempt has ended. If the receiver accepted
//! it, Redis forgets the withdrawal when the message is settled. If the receiver refused it, the
//! withdrawal replaces another attempt. A message that is loaded and not in flight is dropped from
//! its lane, and becomes a tombstone at once. Redis never releases a message that has a withdrawal.

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures::{FutureExt, future::BoxFuture};
use tokio::time::Instant;

use super::{Answer, DestinationSender, LaneKey};
use crate::{
    domain::{Sequence, Tombstone},
    store::{CatalogEntry, PendingWithdrawal, StoreError, Who, Withdrawal, Withdrawn},
};

/// While there are withdrawals that could not be carried out, they are read this often.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// What this sender knows of the withdrawals of its destination.
#[derive(Default)]
pub(super) struct Withdrawals {
    /// Read them: they may have changed.
    ask: bool,
    /// Read them, if no release reports how many there are.
    suspected: bool,
    /// How many this sender knows to be pending. If a release reports more, some are new: read
    /// them.
    left: u64,
    /// Those of messages that are in flight, that were accepted, or that are a refused head.
    held: HashMap<Sequence, PendingWithdrawal>,
    /// Those that the next call carries out.
    ready: Vec<PendingWithdrawal>,
    /// Where the next call reads on: there may be more than one call returns.
    cursor: u64,
}

impl Withdrawals {
    /// The pending withdrawal of this message, if there is one.
    pub(super) fn of(&self, sequence: Sequence) -> Option<&PendingWithdrawal> {
        self.held.get(&sequence)
    }

    /// True if there are none, as far as this sender knows.
    pub(super) fn are_none(&self) -> bool {
        let is_sure = !self.ask && !self.suspected && self.left == 0;
        is_sure && self.held.is_empty() && self.ready.is_empty()
    }

    /// Read them with the next call.
    pub(super) fn ask(&mut self) {
        self.ask = true;
    }

    /// There may be new ones. The next release reports how many there are.
    pub(super) fn suspect(&mut self) {
        self.suspected = true;
    }

    /// A release begins, which reports how many there are.
    pub(super) fn release_begins(&mut self) {
        self.suspected = false;
    }

    /// No release began, so that they have to be read.
    pub(super) fn no_release(&mut self) {
        self.ask = std::mem::take(&mut self.suspected);
    }
}

impl DestinationSender {
    /// A release reported how many withdrawals there are.
    pub(super) fn count_withdrawals(&mut self, count: u64) {
        if count == 0 {
            self.scheduler.ask_withdrawals(None);
            self.withdrawals.held.clear();
        }
        self.withdrawals.ask |= count > self.withdrawals.left;
        self.withdrawals.left = count;
    }

    /// A call that reads withdrawals, if there may be some.
    pub(super) fn withdrawals_call(
        &mut self,
        entry: &Arc<CatalogEntry>,
    ) -> Option<BoxFuture<'static, Answer>> {
        if !std::mem::take(&mut self.withdrawals.ask) {
            return None;
        }
        self.withdrawals.suspected = false;
        let (store, entry, cursor) =
            (self.deps.store.clone(), entry.clone(), self.withdrawals.cursor);
        Some(async move { Answer::Withdrawals(store.withdrawals(&entry, cursor).await) }.boxed())
    }

    /// The call has ended. Drops the messages that are to leave from their lanes, if they are not in
    /// flight.
    pub(super) fn note_withdrawals(
        &mut self,
        withdrawals: Result<(Vec<PendingWithdrawal>, u64), StoreError>,
    ) {
        let is_first_page = self.withdrawals.cursor == 0;
        let (withdrawals, next) = match withdrawals {
            Ok(withdrawals) => withdrawals,
            Err(error) => {
                self.withdrawals.ask = true;
                return self.call_failed(error);
            }
        };
        self.withdrawals.left = self.withdrawals.left.max(withdrawals.len() as u64);
        self.withdrawals.cursor = next;
        // The other pages follow at once. After a while all of them are read again.
        self.withdrawals.ask |= next != 0;
        if is_first_page {
            self.scheduler.ask_withdrawals(None);
            self.withdrawals.held.clear();
        }
        if !withdrawals.is_empty() {
            self.scheduler.ask_withdrawals(Some(Instant::now() + ASK_AGAIN));
        }
        for withdrawal in withdrawals {
            self.apply_withdrawal(withdrawal);
        }
    }

    fn apply_withdrawal(&mut self, withdrawal: PendingWithdrawal) {
        self.heard_of(withdrawal.sequence);
        let is_free = match self.lanes.get_mut(&withdrawal.lane) {
            Some(lane) => {
                self.scheduler.wants_request(&withdrawal.lane);
                lane.withdrawn(withdrawal.sequence, withdrawal.how, &withdrawal.reason)
            }
            None => true,
        };
        if is_free {
            self.withdrawals.ready.push(withdrawal);
        } else {
            self.withdrawals.held.insert(withdrawal.sequence, withdrawal);
        }
    }

    /// After an attempt has ended: messages with a withdrawal must not be sent next.
    pub(super) fn reapply_withdrawals(&mut self, key: &LaneKey) {
        let Some(lane) = self.lanes.get_mut(key) else { return };
        for withdrawal in
            self.withdrawals.held.values().filter(|withdrawal| withdrawal.lane == *key)
        {
            lane.withdrawn(withdrawal.sequence, withdrawal.how, &withdrawal.reason);
            self.withdrawals.ask = true;
        }
    }

    /// A call that carries out withdrawals, if some are ready.
    pub(super) fn withdraw_call(
        &mut self,
        entry: &Arc<CatalogEntry>,
    ) -> Option<BoxFuture<'static, Answer>> {
        if self.withdrawals.ready.is_empty() {
            return None;
        }
        let mut groups: HashMap<(Tombstone, String), Vec<(LaneKey, Sequence)>> = HashMap::new();
        for withdrawal in self.withdrawals.ready.drain(..) {
            let group = groups.entry((withdrawal.how, withdrawal.reason)).or_default();
            group.push((withdrawal.lane, withdrawal.sequence));
        }
        let (store, owner) = (self.deps.store.clone(), self.deps.lease.owner.clone());
        let entry = entry.clone();
        let call = async move {
            let mut done = 0;
            for ((how, reason), messages) in groups {
                let withdrawal =
                    Withdrawal { how, reason: &reason, error: None, messages: &messages };
                match store.withdraw(&entry, Who::Owner(&owner), &withdrawal).await {
                    Ok(answers) => done += count_done(&answers),
                    Err(error) => return Answer::Withdrawn(done, Err(error)),
                }
            }
            Answer::Withdrawn(done, Ok(()))
        };
        Some(call.boxed())
    }

    /// The call has ended, and `done` messages became tombstones. A scan finds those that can be passed now.
    pub(super) fn withdrawn(&mut self, done: usize, answer: Result<(), StoreError>) {
        if done > 0 {
            self.scheduler.wants_scan();
        }
        self.withdrawals.left = self.withdrawals.left.saturating_sub(done as u64);
        if let Err(error) = answer {
            self.withdrawals.ask = true;
            self.call_failed(error);
        }
    }
}

fn count_done(answers: &[Withdrawn]) -> usize {
    let is_done = |answer: &&Withdrawn| matches!(answer, Withdrawn::Done | Withdrawn::Settled);
    answers.iter().filter(is_done).count()
}
