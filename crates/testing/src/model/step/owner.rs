//! The owner's operations: acquire_partition, resign_partition, release, postpone, halt.

use domain::{ErrorKind, Ordering, Sequence, Stage, Tombstone};

use super::{Answer, current, given, may_leave, notice_server};
use crate::model::{
    op::{CatalogEntry, Given, Gone, LaneRequest, Refusal, Refused, Reply, Run},
    state::{Destination, Hint, Lane, Left, Name, Stand, State, Until},
};

pub fn own(state: &mut State, who: usize) -> Answer {
    notice_server(state);
    if state.owner.is_some_and(|(owner, until)| owner != who && until == Until::Future) {
        return Err(Refusal::Owned);
    }
    state.lease_noted = true;
    state.owner = Some((who, Until::Future));
    let takeover_wait = state.takeover_wait.unwrap_or(Until::Past);
    Ok(Reply::Owned { epoch: state.epoch, takeover_wait })
}

/// Only a sender's vouching ends a takeover wait, and only for this epoch.
pub fn resign_partition(state: &mut State, who: usize, vouched: Option<u64>) -> Reply {
    notice_server(state);
    if vouched == Some(state.epoch) {
        state.takeover_wait = state.takeover_wait.map(|_| Until::Past);
    }
    let was_mine = state.owner.is_some_and(|(owner, _)| owner == who);
    if was_mine {
        state.owner = None;
    }
    Reply::Resigned { was_owned: was_mine, epoch: state.epoch }
}

pub fn owns(state: &State, who: usize) -> bool {
    state.owner.is_some_and(|(owner, _)| owner == who)
}

/// The fence: only the owner may proceed, and only if it knows the current epoch.
fn owned(state: &mut State, who: usize, epoch: u64, in_takeover_wait: bool) -> Result<(), Refusal> {
    notice_server(state);
    if state.epoch != epoch {
        return Err(Refusal::StaleEpoch(state.epoch));
    }
    if !in_takeover_wait && state.takeover_wait == Some(Until::Future) {
        return Err(Refusal::TakeoverWait);
    }
    if owns(state, who) { Ok(()) } else { Err(Refusal::NotOwner) }
}

pub fn release(
    state: &mut State,
    who: usize,
    epoch: u64,
    known: &CatalogEntry,
    lanes: &[LaneRequest],
) -> Answer {
    owned(state, who, epoch, false)?;
    current(state, known)?;
    let mut gone: Vec<&Gone> = Vec::new();
    let (mut runs, mut emptied) = (Vec::new(), Vec::new());
    for request in lanes {
        let before = last_of_key(state, known.name, request);
        gone.extend(settle(state, known.name, request));
        let is_empty = last_of_key(state, known.name, request).is_none();
        emptied.extend(before.filter(|_| is_empty && request.held_upto == 0));
        runs.push(next_run(state, known.name, request));
    }
    let Some(destination) = state.destinations.get_mut(known.name) else {
        unreachable!("it was found")
    };
    let charged =
        destination.messages.values().map(|message| message.accounted_bytes).sum::<u64>() as i64;
    destination.lost_bytes = destination.lost_bytes.max(-charged);
    remember(destination, &emptied, known.definition.previous_keys_max);
    if known.definition.log_max == 0 && lanes.iter().any(|request| request.settled_to > 0) {
        for (sequence, _) in std::mem::take(&mut destination.log) {
            destination.left_bodies.remove(&sequence);
        }
    }
    for Gone { sequence, tombstone, idempotency_key, .. } in gone {
        if known.definition.log_max > 0 {
            destination.log.push((*sequence, *tombstone));
            while destination.log.len() as u64 > known.definition.log_max {
                let (oldest, _) = destination.log.remove(0);
                destination.left_bodies.remove(&oldest);
            }
        }
        // Another message may have the key now, if the one that left was a tombstone.
        if let Some(key) = idempotency_key
            && destination.unique.get(key).is_some_and(|first| first.sequence == *sequence)
        {
            destination.unique.remove(key);
        }
    }
    let pending = destination.messages.iter();
    let withdrawals: Vec<_> =
        pending.filter_map(|(sequence, message)| Some((*sequence, message.withdrawal?))).collect();
    let has_lanes = known.definition.ordering != Ordering::Destination;
    if has_lanes && destination.lanes.is_empty() {
        state.releasable.remove(known.name);
    }
    Ok(Reply::Runs { withdrawals, runs })
}

/// If lanes are keys: the key of a lane and its last message, if any.
fn last_of_key(
    state: &State,
    name: Name,
    request: &LaneRequest,
) -> Option<(&'static str, Sequence)> {
    let Lane::Key(key) = request.lane else { return None };
    let (last, _) = state.destinations.get(name)?.lane(request.lane).next_back()?;
    Some((key, last))
}

/// Stores the last sequences of lanes that are now empty, for the most recent keys.
fn remember(destination: &mut Destination, emptied: &[(&'static str, Sequence)], most: u64) {
    if emptied.is_empty() {
        return;
    }
    destination.previous.extend(emptied.iter().copied());
    let mut last: Vec<Sequence> = destination.previous.values().copied().collect();
    last.sort_unstable();
    let excess = last.len().saturating_sub(most as usize);
    if most == 0 || excess > 0 {
        let forgotten = &last[..excess];
        destination.previous.retain(|_, sequence| !forgotten.contains(sequence));
        destination.all_keys_known = false;
    }
}

/// Removes messages that left. Returns them as the owner knows them.
fn settle<'a>(state: &mut State, name: Name, request: &'a LaneRequest) -> Vec<&'a Gone> {
    let Some(destination) = state.destinations.get_mut(name) else { unreachable!("it was found") };
    let is_gone: Vec<Sequence> = destination
        .lane(request.lane)
        .filter(|(at, message)| *at <= request.settled_to && message.is_finished())
        .map(|(sequence, _)| sequence)
        .collect();
    for sequence in &is_gone {
        let message = destination.messages.remove(sequence);
        // The owner reports the accounted bytes. For damaged messages, a repair has already
        // subtracted them.
        let told = request.settled.iter().find(|gone| gone.sequence == *sequence);
        if let (Some(message), Some(told)) = (message, told) {
            destination.lost_bytes += message.accounted_bytes as i64 - told.accounted_bytes as i64;
        }
    }
    // Remove the wait of a lane that is empty now: it was for a head that has left.
    let is_single = matches!(request.lane, Lane::Single(_));
    let is_empty = request.held_upto == 0 && destination.lane(request.lane).next().is_none();
    if !is_gone.is_empty() && (is_single || is_empty) {
        match request.lane.name() {
            Some(lane) => drop(destination.lanes.remove(&lane)),
            None => drop(state.releasable.remove(name)),
        }
    }
    let gone = request.settled.iter().filter(|gone| is_gone.contains(&gone.sequence));
    let gone: Vec<&Gone> = gone.collect();
    for one in &gone {
        match one.tombstone {
            None => destination.delivered += 1,
            Some(Tombstone::Dropped) => destination.dropped += 1,
            Some(Tombstone::DeadLettered) => destination.dead_lettered += 1,
            Some(Tombstone::Cancelled) => destination.cancelled += 1,
        }
    }
    gone
}

fn next_run(state: &mut State, name: Name, request: &LaneRequest) -> Run {
    let Some(destination) = state.destinations.get_mut(name) else { unreachable!("it was found") };
    let holds_nothing = request.held_upto == 0;
    let hint = request.lane.name();
    let not_before = match &hint {
        None => state.releasable.get(name).copied(),
        Some(lane) => destination.lanes.get(lane).copied(),
    };
    let not_before = not_before.filter(|_| holds_nothing);
    let is_due = not_before.is_none_or(Hint::is_due);
    let wait = if is_due { Until::Past } else { Until::Future };
    let behind_others = Hint::Now(destination.last);
    if request.limit == 0 || !is_due {
        if not_before.is_some() && is_due && hint.is_some() {
            may_leave(state, name, request.lane, behind_others);
        }
        return Run { wait, messages: Vec::new() };
    }
    let behind = destination.lane(request.lane).filter(|(at, _)| *at > request.held_upto);
    let mut ready: Vec<_> = behind.take_while(|(_, m)| m.may_leave()).take(request.limit).collect();
    // The head may be refused again, so do not return the messages behind it.
    let was_refused = ready.first().is_some_and(|(_, head)| head.left.failed > 0);
    if was_refused && holds_nothing {
        ready.truncate(1);
    }
    let is_empty = ready.is_empty();
    let messages: Vec<Given> = ready
        .into_iter()
        .take_while(|(_, message)| message.withdrawal.is_none())
        .enumerate()
        .map(|(at, (sequence, message))| {
            let left = if at == 0 { message.left.clone() } else { Left::default() };
            given(sequence, message, left)
        })
        .collect();
    // A lane that went first has had its turn.
    let was_first = not_before.is_some_and(|hint| matches!(hint, Hint::Now(0) | Hint::At(_)));
    if is_empty && holds_nothing {
        match &hint {
            None => drop(state.releasable.remove(name)),
            Some(lane) => drop(destination.lanes.remove(lane)),
        }
    } else if was_first && hint.is_some() && !messages.is_empty() {
        may_leave(state, name, request.lane, behind_others);
    }
    Run { wait, messages }
}

pub fn postpone(state: &mut State, refused: &Refused, wait: Until) -> Answer {
    let Refused { who, epoch, known, lane, sequence, attempts } = refused;
    owned(state, *who, *epoch, true)?;
    let destination = current(state, known)?;
    if !is_head_of(destination.head(*lane), *sequence) {
        return Err(Refusal::WrongHead);
    }
    if let Some(message) = destination.messages.get_mut(sequence) {
        let has_failed_again = message.left.failed != *attempts;
        message.left.failed = *attempts;
        if has_failed_again {
            message.left.note(ErrorKind::Timeout);
        }
    }
    may_leave(state, known.name, *lane, Hint::At(wait));
    Ok(Reply::Done)
}

pub fn halt(state: &mut State, refused: &Refused) -> Answer {
    let Refused { who, epoch, known, lane, sequence, attempts } = refused;
    owned(state, *who, *epoch, true)?;
    let destination = current(state, known)?;
    let message = destination.messages.get(sequence);
    if message.is_some_and(|message| message.is_halted()) {
        return Ok(Reply::Done);
    }
    // If the message was withdrawn since its release, it leaves.
    let is_ready =
        message.is_some_and(|message| message.is_finished() && message.tombstone.is_none());
    if !is_ready || !is_head_of(destination.head(*lane), *sequence) {
        return Err(Refusal::WrongHead);
    }
    if let Some(message) = destination.messages.get_mut(sequence) {
        message.left.failed = *attempts;
        message.left.note(ErrorKind::Rejected);
        message.stand = Stand::Halted(Stage::Delivery);
    }
    if let Some(lane) = lane.name() {
        destination.lanes.remove(&lane);
    }
    Ok(Reply::Done)
}

fn is_head_of<T>(head: Option<(Sequence, T)>, sequence: Sequence) -> bool {
    head.is_some_and(|(head, _)| head == sequence)
}
