//! Withdrawals: requests to remove a message without delivering it. Only the owner of the
//! partition knows whether the message is loaded.
//!
//! If the message is in flight, the withdrawal waits until the attempt has ended. If the receiver accepted
//! it, Redis forgets the withdrawal when the message is settled. If the receiver refused it, the
//! withdrawal replaces another attempt. A message that is loaded and not in flight is dropped from
//! its lane, and becomes a tombstone at once. Redis never releases a message that has a withdrawal.

use std::{collections::HashMap, sync::Arc};

use futures::{FutureExt, future::BoxFuture};

use super::{Answer, DestinationSender, LaneKey};
use domain::{Sequence, Tombstone};
use store::{
    CatalogEntry, PendingWithdrawal, StoreError, WITHDRAWALS_MAX, Who, Withdrawal, Withdrawn,
};

/// The withdrawals of this destination that the sender knows.
#[derive(Default)]
pub(super) struct Withdrawals {
    /// True if there may be withdrawals that this sender does not know. Each release returns the pending withdrawals.
    ask: bool,
    /// Withdrawals of messages that are in flight, were accepted, or are a refused head.
    held: HashMap<Sequence, PendingWithdrawal>,
    /// Withdrawals that the next call carries out.
    ready: Vec<PendingWithdrawal>,
}

impl Withdrawals {
    /// The pending withdrawal of this message, if there is one.
    pub(super) fn of(&self, sequence: Sequence) -> Option<&PendingWithdrawal> {
        self.held.get(&sequence)
    }

    /// True if this sender knows that no withdrawals are pending.
    pub(super) fn are_none(&self) -> bool {
        !self.ask && self.held.is_empty() && self.ready.is_empty()
    }

    /// Notes that there may be new withdrawals.
    pub(super) fn ask(&mut self) {
        self.ask = true;
    }

    /// Called when a release begins, which also reads withdrawals. True if the sender had to ask for them.
    pub(super) fn asked(&mut self) -> bool {
        std::mem::take(&mut self.ask)
    }
}

impl DestinationSender {
    /// A call that reads withdrawals, if there may be new ones and no release reads them.
    pub(super) fn withdrawals_call(
        &mut self,
        entry: &Arc<CatalogEntry>,
    ) -> Option<BoxFuture<'static, Answer>> {
        if self.scheduler.is_draining() || !self.withdrawals.asked() {
            return None;
        }
        let (store, entry) = (self.deps.store.clone(), entry.clone());
        Some(async move { Answer::Withdrawals(store.withdrawals(&entry).await) }.boxed())
    }

    /// Handles the pending withdrawals that Redis returned. Drops the withdrawn messages from their lanes, unless they
    /// are in flight.
    pub(super) fn note_withdrawals(&mut self, pending: Vec<PendingWithdrawal>) {
        if pending.len() < WITHDRAWALS_MAX {
            self.withdrawals.held.clear();
        }
        for withdrawal in pending {
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

    /// After an attempt has ended, takes messages with a withdrawal out of the lane, so that they are not sent next.
    pub(super) fn reapply_withdrawals(&mut self, key: &LaneKey) {
        let Some(lane) = self.lanes.get_mut(key) else { return };
        for withdrawal in
            self.withdrawals.held.values().filter(|withdrawal| withdrawal.lane == *key)
        {
            lane.withdrawn(withdrawal.sequence, withdrawal.how, &withdrawal.reason);
            self.withdrawals.ask = true;
        }
    }

    /// A call that carries out withdrawals, if some are ready for it.
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

    /// Called when a call has withdrawn messages, and `done` messages became tombstones. A scan finds lanes that can
    /// now pass them. There may be more withdrawals than Redis returned.
    pub(super) fn withdrawn(&mut self, done: usize, answer: Result<(), StoreError>) {
        if done > 0 {
            self.scheduler.wants_scan();
        }
        self.withdrawals.ask |= done > 0 || answer.is_err();
        if let Err(error) = answer {
            self.call_failed(error);
        }
    }
}

fn count_done(answers: &[Withdrawn]) -> usize {
    let is_done = |answer: &&Withdrawn| matches!(answer, Withdrawn::Done | Withdrawn::Settled);
    answers.iter().filter(is_done).count()
}
