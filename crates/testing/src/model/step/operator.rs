//! An operator's operations: withdraw (also by the owner, and by policy), retry, discard.

use domain::{ErrorKind, Sequence, Stage, Tombstone};
use store::Withdrawn;

use super::{Answer, advance, current, may_leave, notice_server, owner::owns, wait_in_front};
use crate::model::{
    op::{CatalogEntry, Refusal, Reply},
    real::{GIVEN_UP, REASON},
    state::{Damage, Hint, Lane, Left, Letter, Message, Name, Stand, State, Until},
};

pub fn withdraw(
    state: &mut State,
    who: Option<usize>,
    known: &CatalogEntry,
    how: Tombstone,
    failed: Option<u32>,
    messages: &[(Lane, Sequence)],
) -> Answer {
    current(state, known)?;
    let epoch = state.epoch;
    notice_server(state);
    if who.is_some() && state.epoch != epoch {
        return Err(Refusal::StaleEpoch(state.epoch));
    }
    if who.is_some_and(|who| !owns(state, who)) {
        return Err(Refusal::NotOwner);
    }
    let is_owned = state.owner.is_some();
    let no_sender_has_it =
        state.takeover_wait != Some(Until::Future) && (who.is_some() || !is_owned);
    let as_what = AsWhat { how, failed, reason: REASON };
    let all = messages.iter().map(|(lane, sequence)| {
        withdraw_one(state, known.name, *lane, *sequence, no_sender_has_it, &as_what)
    });
    Ok(Reply::Withdrawn(all.collect()))
}

/// The kind of a tombstone, and the reason.
struct AsWhat {
    how: Tombstone,
    failed: Option<u32>,
    reason: &'static str,
}

fn withdraw_one(
    state: &mut State,
    name: Name,
    lane: Lane,
    sequence: Sequence,
    no_sender_has_it: bool,
    as_what: &AsWhat,
) -> Withdrawn {
    let AsWhat { how, failed, reason } = *as_what;
    let Some(destination) = state.destinations.get_mut(name) else { unreachable!("it was found") };
    let definition = destination.definition;
    let found = destination.messages.get_mut(&sequence);
    let Some(message) = found.filter(|m| definition.lane_of(sequence, m.key) == lane) else {
        return Withdrawn::Settled;
    };
    if message.tombstone.is_some() {
        // The transform dropped the message meanwhile, which ends the withdrawal.
        message.withdrawal = None;
        return Withdrawn::Settled;
    }
    if reason == GIVEN_UP && message.withdrawal.is_some() {
        // Somebody else's withdrawal goes first.
        return Withdrawn::Withdrawing;
    }
    let letters = destination.letters.len() as u64;
    let max = definition.dead_letters_max;
    if how == Tombstone::DeadLettered && max > 0 && letters >= max {
        return Withdrawn::Full;
    }
    let is_in_hand = match message.stand {
        Stand::Leased { .. } => true,
        Stand::Ready => !no_sender_has_it,
        _ => false,
    };
    if is_in_hand {
        if message.withdrawal.is_none() {
            message.withdrawal = Some(how);
            state.withdrawing.insert(name);
        }
        return Withdrawn::Withdrawing;
    }
    let was_finished = message.is_finished();
    let was_held = matches!(message.stand, Stand::Held { .. });
    if how == Tombstone::DeadLettered {
        let letter = letter_of(message, failed, reason);
        destination.letters.insert(sequence, letter);
    } else if let Some(length) = message.length_out_of_line().filter(|_| message.is_unreadable()) {
        destination.left_bodies.insert(sequence, length);
    }
    if message.is_unreadable() {
        destination.lost_bytes += message.accounted_bytes as i64;
    }
    destination.waiting.retain(|at| *at != sequence);
    if let Some(message) = destination.messages.get_mut(&sequence) {
        message.tombstone = Some(how);
        message.body.clear();
        message.left = Left::default();
        message.withdrawal = None;
        message.stand = Stand::Ready;
        if message.is_unreadable() {
            (message.accounted_bytes, message.damage) = (0, Some(Damage::Unreadable));
        } else {
            message.damage = None;
        }
    }
    let is_head = destination.is_head(sequence);
    if definition.serial && !was_finished && !was_held {
        advance(state, name, lane);
    }
    if is_head {
        may_leave(state, name, lane, Hint::Now(0));
    }
    Withdrawn::Done
}

fn letter_of(message: &Message, failed: Option<u32>, reason: &'static str) -> Letter {
    let stage = match message.stand {
        Stand::Ready | Stand::Halted(Stage::Delivery) => Stage::Delivery,
        _ => Stage::Transform,
    };
    let was_halted = message.is_halted();
    let mut message = Message { withdrawal: None, stand: Stand::Ready, ..message.clone() };
    if let Some(failed) = failed {
        message.left.failed = failed;
        message.left.note(ErrorKind::Rejected);
    }
    Letter { stage, was_halted, reason, is_old: false, message }
}

pub fn retry(
    state: &mut State,
    known: &CatalogEntry,
    lane: Lane,
    sequence: Sequence,
    repaired: Option<&str>,
) -> Answer {
    if repaired.is_some() {
        let found = state.destinations.get(known.name);
        match found.and_then(|found| found.messages.get(&sequence)) {
            // Without a record, the message cannot be retried.
            None => return Err(Refusal::WrongHead),
            Some(message) if !message.has_record() => return Err(Refusal::WrongHead),
            Some(message) if message.is_unreadable() => return Err(Refusal::WrongState),
            Some(_) => {}
        }
    }
    let destination = current(state, known)?;
    let leads = destination.head(lane).is_some_and(|(head, _)| head == sequence);
    let Some(message) = destination.messages.get_mut(&sequence) else {
        return Err(Refusal::WrongHead);
    };
    match message.stand {
        // A delayed message is made due wherever it is.
        Stand::Held { delayed: true } if !leads => {
            if repaired.is_some() {
                return Err(Refusal::WrongState);
            }
            message.stand = Stand::Held { delayed: false };
            return Ok(Reply::Retried { waits: true });
        }
        Stand::Delayed { .. } => {}
        _ if !leads => return Err(Refusal::WrongHead),
        _ => {}
    }
    let can_be_retried = message.is_finished()
        || message.is_halted()
        || matches!(message.stand, Stand::Delayed { .. });
    if !can_be_retried || repaired.is_some() && !message.is_halted() {
        return Err(Refusal::WrongState);
    }
    let is_finished = message.is_finished();
    if message.is_halted() {
        let Left { checkpoint, errors, .. } = message.left.clone();
        message.left = Left { checkpoint, errors, ..Left::default() };
    }
    if let Some(body) = repaired {
        message.body = body.to_owned();
        message.damage = None;
    }
    if is_finished {
        message.stand = Stand::Ready;
        may_leave(state, known.name, lane, Hint::Now(0));
    } else {
        wait_in_front(state, known.name, &[sequence]);
    }
    Ok(Reply::Retried { waits: !is_finished })
}

pub fn discard(state: &mut State, known: &CatalogEntry, letters: &[Sequence]) -> Answer {
    let destination = current(state, known)?;
    let before = destination.letters.len();
    destination.letters.retain(|sequence, _| !letters.contains(sequence));
    let discarded = (before - destination.letters.len()) as u64;
    destination.discarded += discarded;
    Ok(Reply::Discarded(discarded))
}

pub fn expire(state: &mut State, known: &CatalogEntry) -> Answer {
    let destination = current(state, known)?;
    let before = destination.letters.len();
    destination.letters.retain(|_, letter| !letter.is_old);
    let expired = (before - destination.letters.len()) as u64;
    destination.expired += expired;
    Ok(Reply::Expired(expired))
}

/// Applies `on_exhausted` to messages that halted in processing. Damaged messages wait for an operator.
pub fn give_up(state: &mut State, known: &CatalogEntry) -> Answer {
    let Some(destination) = state.destinations.get(known.name) else {
        return Ok(Reply::GivenUp(0));
    };
    let halted = destination.messages.iter().filter(|(_, message)| {
        message.stand == Stand::Halted(Stage::Transform) && message.damage.is_none()
    });
    let of = |(sequence, message): (&Sequence, &Message)| {
        (known.definition.lane_of(*sequence, message.key), *sequence)
    };
    let messages: Vec<(Lane, Sequence)> = halted.map(of).collect();
    let Some(how) = known.definition.gives_up.filter(|_| !messages.is_empty()) else {
        return Ok(Reply::GivenUp(0));
    };
    current(state, known)?;
    notice_server(state);
    for (lane, sequence) in &messages {
        give_up_one(state, known.name, *lane, *sequence, how);
    }
    Ok(Reply::GivenUp(messages.len()))
}

/// Withdraws a message whose processing attempts are used up.
pub fn give_up_one(
    state: &mut State,
    name: Name,
    lane: Lane,
    sequence: Sequence,
    how: Tombstone,
) -> Withdrawn {
    let as_what = AsWhat { how, failed: None, reason: GIVEN_UP };
    withdraw_one(state, name, lane, sequence, false, &as_what)
}
