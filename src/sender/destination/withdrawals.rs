//! Withdrawals: messages that are to leave without being delivered, of which only the owner can know
//! whether it has them in hand.
//!
//! What is just being sent is left until its attempt has ended. If it was accepted, Redis forgets
//! the withdrawal when the message is settled; if it was refused, the withdrawal replaces another
//! attempt. What only is in hand is let go of, and becomes a tombstone at once. Redis never hands
//! out a message that has a withdrawal, so nothing new of it comes meanwhile.

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures::{FutureExt, future::BoxFuture};
use tokio::time::Instant;

use super::{Answer, DestinationSender, LaneKey};
use crate::{
    domain::{Sequence, Tombstone},
    store::{CatalogEntry, PendingWithdrawal, StoreError, Who, Withdrawal, Withdrawn},
};

/// While there are withdrawals that could not be carried out, they are looked at this often.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// What this sender knows of the withdrawals of its destination.
#[derive(Default)]
pub(super) struct Withdrawals {
    /// They may have changed: to be asked for.
    pub(super) ask: bool,
    /// To be asked for if no release tells how many there are.
    pub(super) suspected: bool,
    /// When to ask again in any case, as long as there are any.
    pub(super) due: Option<Instant>,
    /// How many there were when they were last looked at, and could not be carried out.
    left: u64,
    /// Of messages that are in flight, or leave after a refusal.
    held: HashMap<Sequence, PendingWithdrawal>,
    /// To be carried out by the next call.
    ready: Vec<PendingWithdrawal>,
    /// Where the next look goes on: there may be more than one look finds.
    cursor: u64,
}

impl Withdrawals {
    /// The pending withdrawal of this message, if there is one.
    pub(super) fn of(&self, sequence: Sequence) -> Option<&PendingWithdrawal> {
        self.held.get(&sequence)
    }

    /// Redis said how many there are.
    pub(super) fn count(&mut self, count: u64) {
        if count == 0 {
            self.due = None;
            self.held.clear();
        }
        self.ask |= count > self.left;
        self.left = count;
    }
}

impl DestinationSender {
    pub(super) fn withdrawals_call(
        &mut self,
        known: &Arc<CatalogEntry>,
    ) -> Option<BoxFuture<'static, Answer>> {
        self.withdrawals.ask |= self.withdrawals.due.is_some_and(|due| due <= Instant::now());
        if !std::mem::take(&mut self.withdrawals.ask) {
            return None;
        }
        self.withdrawals.suspected = false;
        let (store, known, cursor) = (self.store.clone(), known.clone(), self.withdrawals.cursor);
        Some(async move { Answer::Withdrawals(store.withdrawals(&known, cursor).await) }.boxed())
    }

    /// Lets go of what is to leave, where it is not in flight.
    pub(super) fn note_withdrawals(
        &mut self,
        withdrawals: Result<(Vec<PendingWithdrawal>, u64), StoreError>,
    ) {
        let begins = self.withdrawals.cursor == 0;
        let (withdrawals, next) = match withdrawals {
            Ok(withdrawals) => withdrawals,
            Err(error) => {
                self.withdrawals.ask = true;
                return self.failed(error);
            }
        };
        self.withdrawals.left = self.withdrawals.left.max(withdrawals.len() as u64);
        self.withdrawals.cursor = next;
        // The rest is looked at next; after that all of them again, in a while.
        self.withdrawals.ask |= next != 0;
        if begins {
            self.withdrawals.due = None;
            self.withdrawals.held.clear();
        }
        if !withdrawals.is_empty() {
            self.withdrawals.due = Some(Instant::now() + LOOK_AGAIN);
        }
        for withdrawal in withdrawals {
            let is_free = match self.lanes.get_mut(&withdrawal.lane) {
                Some(lane) => {
                    self.to_ask.push(&withdrawal.lane);
                    lane.apply_withdrawal(withdrawal.sequence, withdrawal.how, &withdrawal.reason)
                }
                None => true,
            };
            if is_free {
                self.withdrawals.ready.push(withdrawal);
            } else {
                self.withdrawals.held.insert(withdrawal.sequence, withdrawal);
            }
        }
    }

    /// After an attempt has ended: what is to leave must not be sent next.
    pub(super) fn reapply_withdrawals(&mut self, key: &LaneKey) {
        let Some(lane) = self.lanes.get_mut(key) else { return };
        for withdrawal in
            self.withdrawals.held.values().filter(|withdrawal| withdrawal.lane == *key)
        {
            lane.apply_withdrawal(withdrawal.sequence, withdrawal.how, &withdrawal.reason);
            self.withdrawals.ask = true;
        }
    }

    pub(super) fn withdraw_call(
        &mut self,
        known: &Arc<CatalogEntry>,
    ) -> Option<BoxFuture<'static, Answer>> {
        if self.withdrawals.ready.is_empty() {
            return None;
        }
        let mut groups: HashMap<(Tombstone, String), Vec<(LaneKey, Sequence)>> = HashMap::new();
        for withdrawal in self.withdrawals.ready.drain(..) {
            let group = groups.entry((withdrawal.how, withdrawal.reason)).or_default();
            group.push((withdrawal.lane, withdrawal.sequence));
        }
        let (store, owner, known) = (self.store.clone(), self.lease.owner.clone(), known.clone());
        let call = async move {
            let mut done = 0;
            for ((how, reason), messages) in groups {
                let withdrawal =
                    Withdrawal { how, reason: &reason, error: None, messages: &messages };
                match store.withdraw(&known, Who::Owner(&owner), &withdrawal).await {
                    Ok(answers) => done += count_done(&answers),
                    Err(error) => return Answer::Withdrawn(done, Err(error)),
                }
            }
            Answer::Withdrawn(done, Ok(()))
        };
        Some(call.boxed())
    }

    /// What became a tombstone can be passed now; what a processor holds is looked at again.
    pub(super) fn withdrawn(&mut self, done: usize, answer: Result<(), StoreError>) {
        self.look |= done > 0;
        self.withdrawals.left = self.withdrawals.left.saturating_sub(done as u64);
        if let Err(error) = answer {
            self.withdrawals.ask = true;
            self.failed(error);
        }
    }
}

fn count_done(answers: &[Withdrawn]) -> usize {
    let is_done = |answer: &&Withdrawn| matches!(answer, Withdrawn::Done | Withdrawn::Settled);
    answers.iter().filter(is_done).count()
}
