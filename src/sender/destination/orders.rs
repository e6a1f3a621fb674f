//! Orders: messages that are to leave without being delivered, of which only the owner can know
//! whether it has them in hand.
//!
//! What is just being sent is left until its attempt has ended. If it was accepted, Redis forgets
//! the order when the message is settled; if it was refused, the order takes the place of another
//! attempt. What only is in hand is let go of, and becomes a tombstone at once. Redis never hands
//! out a message that has an order, so nothing new of it comes meanwhile.

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures::{FutureExt, future::BoxFuture};
use tokio::time::Instant;

use super::{Answer, DestinationSender, LaneKey};
use crate::{
    domain::{Sequence, Tombstone},
    store::{Known, Order, StoreError, Who, Withdrawal, Withdrawn},
};

/// While there are orders that could not be carried out, they are looked at this often.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// What this sender knows of the orders of its destination.
#[derive(Default)]
pub(super) struct Orders {
    /// They may have changed: to be asked for.
    pub(super) ask: bool,
    /// To be asked for if no release tells how many there are.
    pub(super) suspected: bool,
    /// When to ask again in any case, as long as there are any.
    pub(super) due: Option<Instant>,
    /// How many there were when they were last looked at, and could not be carried out.
    left: u64,
    /// Of messages that are in flight, or leave after a refusal.
    held: HashMap<Sequence, Order>,
    /// To be carried out by the next call.
    ready: Vec<Order>,
    /// Where the next look goes on: there may be more than one look finds.
    cursor: u64,
}

impl Orders {
    /// The order for this message, if there is one.
    pub(super) fn of(&self, sequence: Sequence) -> Option<&Order> {
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
    pub(super) fn orders_call(&mut self, known: &Arc<Known>) -> Option<BoxFuture<'static, Answer>> {
        self.orders.ask |= self.orders.due.is_some_and(|due| due <= Instant::now());
        if !std::mem::take(&mut self.orders.ask) {
            return None;
        }
        self.orders.suspected = false;
        let (store, known, cursor) = (self.store.clone(), known.clone(), self.orders.cursor);
        Some(async move { Answer::Orders(store.orders(&known, cursor).await) }.boxed())
    }

    /// Lets go of what is to leave, where it is not in flight.
    pub(super) fn ordered(&mut self, orders: Result<(Vec<Order>, u64), StoreError>) {
        let begins = self.orders.cursor == 0;
        let (orders, next) = match orders {
            Ok(orders) => orders,
            Err(error) => {
                self.orders.ask = true;
                return self.failed(error);
            }
        };
        self.orders.left = self.orders.left.max(orders.len() as u64);
        self.orders.cursor = next;
        // The rest is looked at next; after that all of them again, in a while.
        self.orders.ask |= next != 0;
        if begins {
            self.orders.due = None;
            self.orders.held.clear();
        }
        if !orders.is_empty() {
            self.orders.due = Some(Instant::now() + LOOK_AGAIN);
        }
        for order in orders {
            let is_free = match self.lanes.get_mut(&order.lane) {
                Some(lane) => {
                    self.to_ask.push(&order.lane);
                    lane.heed(order.sequence, order.how, &order.reason)
                }
                None => true,
            };
            if is_free {
                self.orders.ready.push(order);
            } else {
                self.orders.held.insert(order.sequence, order);
            }
        }
    }

    /// After an attempt has ended: what is to leave must not be sent next.
    pub(super) fn heed_again(&mut self, key: &LaneKey) {
        let Some(lane) = self.lanes.get_mut(key) else { return };
        for order in self.orders.held.values().filter(|order| order.lane == *key) {
            lane.heed(order.sequence, order.how, &order.reason);
            self.orders.ask = true;
        }
    }

    pub(super) fn withdraw_call(
        &mut self,
        known: &Arc<Known>,
    ) -> Option<BoxFuture<'static, Answer>> {
        if self.orders.ready.is_empty() {
            return None;
        }
        let mut groups: HashMap<(Tombstone, String), Vec<(LaneKey, Sequence)>> = HashMap::new();
        for order in self.orders.ready.drain(..) {
            let group = groups.entry((order.how, order.reason)).or_default();
            group.push((order.lane, order.sequence));
        }
        let (store, owner, known) = (self.store.clone(), self.tenure.owner.clone(), known.clone());
        let call = async move {
            let mut done = 0;
            for ((how, reason), messages) in groups {
                let withdrawal =
                    Withdrawal { how, reason: &reason, trouble: None, messages: &messages };
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
        self.orders.left = self.orders.left.saturating_sub(done as u64);
        if let Err(error) = answer {
            self.orders.ask = true;
            self.failed(error);
        }
    }
}

fn count_done(answers: &[Withdrawn]) -> usize {
    let is_done = |answer: &&Withdrawn| matches!(answer, Withdrawn::Done | Withdrawn::Settled);
    answers.iter().filter(is_done).count()
}
