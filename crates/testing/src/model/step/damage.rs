//! Manual damage to messages in Redis, and the repair.

use std::collections::BTreeSet;

use domain::{ErrorKind, Sequence, Stage};

use super::{Answer, current, may_leave, wait_in_front};
use crate::model::{
    op::{CatalogEntry, Harm, Reply},
    state::{Damage, Destination, Hint, Name, Stand, State},
};

pub fn damage(state: &mut State, name: Name, sequence: Sequence, how: Damage) -> Reply {
    let destination = state.destinations.get_mut(name);
    if let Some(message) = destination.and_then(|found| found.messages.get_mut(&sequence)) {
        message.damage = Some(how);
    }
    Reply::Done
}

pub fn repair(state: &mut State, known: &CatalogEntry, harm: Harm) -> Answer {
    let name = known.name;
    current(state, known)?;
    let mut kinds = BTreeSet::new();
    if harm == Harm::Hints && renew_hints(state, name) {
        kinds.insert("hint");
    }
    let mut is_stored_again = false;
    if let Some(destination) = state.destinations.get_mut(name) {
        let waiting = destination.waiting.len();
        halt_damaged(destination, &mut kinds);
        is_stored_again = destination.waiting.len() < waiting;
        forget_charges(destination, &mut kinds);
    }
    if harm == Harm::Waiting || is_stored_again {
        let has_any = put_back(state, name);
        if has_any && harm == Harm::Waiting {
            kinds.insert("nowhere");
        }
    }
    kinds.extend(match harm {
        Harm::Nothing | Harm::Hints | Harm::Waiting => &[][..],
        Harm::Counters => &["counter"],
        Harm::Twice(_) => &["twice"],
        Harm::LeftOver => &["left_over"],
        Harm::Letters => &["dead_letter"],
    });
    Ok(Reply::Repaired(kinds.into_iter().map(str::to_owned).collect()))
}

/// Renews all hints, all due now. True if there are any.
fn renew_hints(state: &mut State, name: Name) -> bool {
    state.active_builtin.remove(name);
    state.active_worker.remove(name);
    state.releasable.remove(name);
    state.withdrawing.remove(name);
    let Some(destination) = state.destinations.get_mut(name) else { return false };
    destination.lanes.clear();
    let waits = !destination.waiting.is_empty() && destination.rest.is_none();
    let has_withdrawals = destination.withdrawals() > 0;
    let claimers = destination.definition.claimers();
    let heads = destination.lanes_in_use().into_iter().filter_map(|lane| {
        let (sequence, head) = destination.head(lane)?;
        head.may_leave().then_some((lane, sequence))
    });
    let heads: Vec<_> = heads.collect();
    if waits {
        state.active(claimers).insert(name);
    }
    if has_withdrawals {
        state.withdrawing.insert(name);
    }
    for (lane, sequence) in &heads {
        may_leave(state, name, *lane, Hint::Now(*sequence));
    }
    waits || has_withdrawals || !heads.is_empty()
}

/// Halts damaged messages that nobody is processing.
fn halt_damaged(destination: &mut Destination, kinds: &mut BTreeSet<&'static str>) {
    let mut halted = Vec::new();
    for (sequence, message) in &mut destination.messages {
        let stage = match message.stand {
            Stand::Leased { .. } | Stand::Held { .. } | Stand::Halted(_) => continue,
            Stand::Ready => Stage::Delivery,
            Stand::Waiting | Stand::Delayed { .. } => Stage::Transform,
        };
        if message.is_damaged() {
            message.left.note(ErrorKind::Damaged);
            message.stand = Stand::Halted(stage);
            halted.push(*sequence);
            kinds.insert("damaged");
        }
    }
    destination.waiting.retain(|sequence| !halted.contains(sequence));
}

/// Unreadable messages no longer count in the pending bytes.
fn forget_charges(destination: &mut Destination, kinds: &mut BTreeSet<&'static str>) {
    let before = destination.bytes();
    destination.lost_bytes = 0;
    for message in destination.messages.values_mut().filter(|message| message.is_unreadable()) {
        message.accounted_bytes = 0;
    }
    if destination.bytes() != before {
        kinds.insert("counter");
    }
}

/// Returns messages without a state to `waiting`, lowest sequence first. True if there are any.
fn put_back(state: &mut State, name: Name) -> bool {
    let Some(destination) = state.destinations.get_mut(name) else { return false };
    let mut waiting = std::mem::take(&mut destination.waiting);
    waiting.sort_unstable();
    wait_in_front(state, name, &waiting);
    !waiting.is_empty()
}
