//! Counts how often the operations met and repaired damage.

use domain::{Ordering, Tombstone};
use store::{Status, Withdrawn};

use super::{Tally, destination};
use crate::model::{
    op::{CatalogEntry, Op, Reply},
    state::{Damage, Destination, Message, State},
};

impl Tally {
    pub(super) fn tell_damage(&mut self, op: &Op, reply: &Reply, before: &State, after: &State) {
        let damaged = |known: &CatalogEntry, sequence: &u64| {
            let message = destination(before, known)?.messages.get(sequence)?;
            message.is_damaged().then_some(message)
        };
        let is_damaged = |known: &CatalogEntry, sequence: &u64| damaged(known, sequence).is_some();
        match (op, reply) {
            (Op::Damage { damage, .. }, _) => self.count(match damage {
                Damage::Missing => "damaged: its record is missing",
                Damage::Unreadable => "damaged: its record cannot be read",
                Damage::NoBody => "damaged: its body is missing",
            }),
            (Op::Claim { known, .. }, Reply::Claimed(_)) => {
                let (old, new) = (destination(before, known), destination(after, known));
                let halted = |found: Option<&Destination>| {
                    let is_so = |m: &Message| m.is_damaged() && m.is_halted();
                    found.map_or(0, |found| found.count(is_so))
                };
                self.count_if(halted(new) > halted(old), "damaged, and claimed");
            }
            (Op::Release { known, .. }, Reply::Runs { runs, .. }) => {
                let mut handed_out = runs.iter().flat_map(|run| &run.messages);
                self.count_if(handed_out.any(|m| m.is_damaged), "damaged, and handed to a sender");
                let halted = destination(after, known)
                    .is_some_and(|found| found.count(|m| m.is_damaged() && m.is_halted()) > 0);
                let goes_on = runs.iter().any(|run| run.messages.iter().any(|m| !m.is_damaged));
                self.count_if(halted && goes_on, "damaged, and released beside it");
            }
            (Op::Halt { refused }, Reply::Done) => {
                let is_it = is_damaged(&refused.known, &refused.sequence);
                self.count_if(is_it, "damaged, and halted in delivery");
            }
            (Op::Withdraw { known, how, messages, .. }, Reply::Withdrawn(outcomes)) => {
                for ((_, sequence), outcome) in messages.iter().zip(outcomes) {
                    let is_it = is_damaged(known, sequence) && *outcome == Withdrawn::Done;
                    self.count_if(is_it, "damaged, and withdrawn");
                    let is_letter = *how == Tombstone::DeadLettered;
                    self.count_if(is_it && is_letter, "damaged, and a dead letter");
                    self.count_if(*outcome == Withdrawn::Full, "dead letters full");
                }
            }
            (Op::Retry { known, sequence, .. }, Reply::Retried { .. }) => {
                self.count_if(is_damaged(known, sequence), "damaged, and retried");
            }
            (Op::Complete { known, items, .. }, Reply::Statuses(statuses)) => {
                let done = items.iter().zip(statuses).filter(|(_, status)| **status == Status::Ok);
                for ((token, _), _) in done {
                    self.count_if(is_damaged(known, &token.sequence), "damaged, and completed");
                }
            }
            (Op::Remove { name, .. }, Reply::Removed { .. }) => {
                let found = before.destinations.get(name);
                let is_it = found.is_some_and(|found| found.count(Message::is_damaged) > 0);
                self.count_if(is_it, "damaged, and removed");
            }
            (Op::GiveUp { known }, Reply::GivenUp(count)) => {
                self.count_if(*count > 0 && before != after, "given up");
                let stays = destination(after, known)
                    .is_some_and(|found| found.count(|m| m.is_damaged() && m.is_halted()) > 0);
                self.count_if(stays, "damaged, and not given up");
            }
            (Op::Repair { known, .. }, Reply::Repaired(kinds)) => {
                let is_rest =
                    |m: &Message| m.tombstone.is_some() && m.is_unreadable() && m.key.is_some();
                let rests = destination(before, known).is_some_and(|found| {
                    found.definition.ordering == Ordering::Key && found.count(is_rest) > 0
                });
                self.count_if(rests, "repaired: beside the rest of what was damaged");
                self.count_if(kinds.is_empty(), "nothing to repair");
                self.count_if(kinds.contains("damaged"), "repaired: damaged");
                self.count_if(kinds.contains("hint"), "repaired: hint");
                self.count_if(kinds.contains("nowhere"), "repaired: nowhere");
            }
            _ => {}
        }
    }
}
