//! The effect and the answer of each operation.

mod damage;
mod define;
mod ingest;
mod leases;
mod operator;
mod owner;

use domain::{
    Ordering, ProcessingOptions, Sequence,
    message::{PRIORITY_MAX, PRIORITY_STEP},
};

use super::{
    op::{CatalogEntry, Deadline, Given, Op, Refusal, Reply},
    state::{
        Damage, Destination, Hint, Kept, Lane, Left, Message, Name, Server, Stand, State, Until,
    },
};
use damage::{damage, repair};
use define::{FORGETTING, begin_remove, define, end_remove, forget_idempotency_keys, pause};
use ingest::ingest;
pub use leases::kept;
use leases::{claim, claimed, complete, extend, fail, overdue, reap, requeue};
use operator::{discard, expire, give_up, retry, withdraw};
use owner::{halt, own, postpone, release, resign_partition};

/// More than any rate of the model allows at once.
pub const GRANTED_AHEAD: u32 = 9;

/// Runs an operation, or refuses it. `memory_full`: Redis accepts no new data.
pub fn step(state: &mut State, op: &Op, memory_full: bool) -> Reply {
    let needs_memory = match op {
        Op::Ingest { .. } => true,
        Op::Define { name, .. } => !state.destinations.contains_key(name),
        _ => false,
    };
    if memory_full && needs_memory {
        return Reply::Refused(Refusal::OutOfMemory);
    }
    let reply = numbered(state, op, memory_full).unwrap_or_else(Reply::Refused);
    let State { withdrawing, destinations, .. } = state;
    withdrawing.retain(|name| destinations.get(name).is_some_and(|it| it.withdrawals() > 0));
    reply
}

type Answer = Result<Reply, Refusal>;

/// A repeated call gets the same answer and changes nothing; a late one is refused.
fn numbered(state: &mut State, op: &Op, memory_full: bool) -> Answer {
    let Some(call) = op.call() else { return unnumbered(state, op, memory_full) };
    match state.calls.get(&call.caller) {
        Some((number, kept)) if *number == call.number => {
            return Ok(match kept {
                Kept::Whole(reply) => reply.clone(),
                Kept::Claimed { name, sequences } => {
                    let (name, sequences) = (*name, sequences.clone());
                    claimed(state, name, &sequences, &call)
                }
            });
        }
        Some((number, _)) if *number > call.number => return Err(Refusal::StaleCall),
        _ if state.late.get(&call.caller).is_some_and(|upto| call.number <= *upto) => {
            return Err(Refusal::LateCall);
        }
        _ => {}
    }
    let (reply, kept) = match op {
        Op::Claim { known, min, max, .. } => {
            let sequences = claim(state, known, (*min, *max), &call, memory_full)?;
            let reply = claimed(state, known.name, &sequences, &call);
            (reply, Kept::Claimed { name: known.name, sequences })
        }
        _ => {
            let reply = unnumbered(state, op, memory_full)?;
            (reply.clone(), Kept::Whole(reply))
        }
    };
    state.calls.insert(call.caller, (call.number, kept));
    Ok(reply)
}

fn unnumbered(state: &mut State, op: &Op, memory_full: bool) -> Answer {
    match op {
        Op::Ingest { call, known, epoch, arrivals, leases } => {
            ingest(state, known, *epoch, arrivals, leases.then(|| call.secret()))
        }
        Op::Claim { .. } => unreachable!("it is numbered"),
        Op::Complete { known, items, .. } => Ok(complete(state, known, items, memory_full)),
        Op::Fail { known, items, .. } => Ok(fail(state, known, items)),
        Op::Requeue { known, tokens, .. } => Ok(requeue(state, known.name, tokens)),
        Op::Extend { known, items } => Ok(extend(state, known, items)),
        Op::Reap { known } => Ok(reap(state, known.name)),
        Op::Overdue => Ok(overdue(state)),
        Op::AcquirePartition { who } => own(state, *who),
        Op::ResignPartition { who, vouched } => Ok(resign_partition(state, *who, *vouched)),
        Op::Release { who, epoch, known, lanes } => release(state, *who, *epoch, known, lanes),
        Op::Postpone { refused, wait } => postpone(state, refused, *wait),
        Op::Halt { refused } => halt(state, refused),
        Op::Withdraw { who, known, how, failed, messages } => {
            withdraw(state, *who, known, *how, *failed, messages)
        }
        Op::Retry { known, lane, sequence, repaired } => {
            retry(state, known, *lane, *sequence, repaired.as_deref())
        }
        Op::Discard { known, letters } => discard(state, known, letters),
        Op::Expire { known } => expire(state, known),
        Op::GiveUp { known } => give_up(state, known),
        Op::Damage { name, sequence, damage: how } => Ok(damage(state, name, *sequence, *how)),
        Op::Repair { known, harm } => repair(state, known, *harm),
        Op::Pause { name, paused } => pause(state, name, paused),
        Op::Define { name, definition } => define(state, name, *definition),
        Op::BeginRemove { name } => begin_remove(state, name, true),
        Op::EndRemove { name } => end_remove(state, name, FORGETTING),
        Op::Remove { name, purge } => {
            let removed = begin_remove(state, name, *purge)?;
            forget_idempotency_keys(state, name);
            end_remove(state, name, usize::MAX)?;
            Ok(removed)
        }
        Op::Remake { name, definition } => {
            begin_remove(state, name, true)?;
            forget_idempotency_keys(state, name);
            end_remove(state, name, usize::MAX)?;
            define(state, name, *definition)
        }
        Op::Restart => {
            if state.server == Server::This {
                state.server = Server::Other;
            }
            Ok(Reply::Done)
        }
        Op::LoseEpoch => {
            (state.server, state.lease_noted, state.removed_epoch) = (Server::Unknown, false, 0);
            Ok(Reply::Done)
        }
        Op::Pass(deadline) => {
            pass(state, deadline);
            Ok(Reply::Done)
        }
        Op::ScriptFlush => Ok(Reply::Done),
    }
}

/// Notices a server that may have lost data: raises the epoch, and starts a takeover wait.
fn notice_server(state: &mut State) {
    if state.server == Server::This {
        return;
    }
    state.raise_epoch();
    state.takeover_wait = Some(Until::Future);
    state.server = Server::This;
}

fn current<'a>(state: &'a mut State, known: &CatalogEntry) -> Result<&'a mut Destination, Refusal> {
    let destination = state.destinations.get_mut(known.name).filter(|found| !found.deleted);
    let destination = destination.ok_or(Refusal::UnknownDestination)?;
    if destination.version != known.version {
        return Err(Refusal::StaleDefinition);
    }
    Ok(destination)
}

/// The place of a waiting message without ordering: with each level of priority, it goes before a number of messages that
/// arrived earlier.
pub fn score_of(destination: &Destination, sequence: Sequence) -> u64 {
    let priority = destination.messages.get(&sequence).map_or(0, |message| message.priority);
    u64::from(PRIORITY_MAX - priority) * PRIORITY_STEP + sequence
}

/// Adds a hint that the head of a lane may be released.
fn may_leave(state: &mut State, name: Name, lane: Lane, hint: Hint) {
    let Some(destination) = state.destinations.get_mut(name) else { return };
    let mut earliest = hint;
    if let Some(lane) = lane.name() {
        destination.lanes.insert(lane, hint);
        earliest = destination.lanes.values().copied().min().unwrap_or(hint);
    }
    let is_time = matches!(earliest, Hint::At(_));
    state.releasable.insert(name, if is_time { earliest } else { Hint::Now(0) });
}

/// Adds waiting messages at the end; in a destination without ordering, by their priority.
fn wait(state: &mut State, name: Name, sequences: &[Sequence]) {
    put(state, name, sequences, usize::MAX);
}

/// Adds waiting messages at the front; in a destination without ordering, by their priority.
fn wait_in_front(state: &mut State, name: Name, sequences: &[Sequence]) {
    put(state, name, sequences, 0);
}

fn put(state: &mut State, name: Name, sequences: &[Sequence], at: usize) {
    let Some(destination) = state.destinations.get_mut(name) else { return };
    if sequences.is_empty() {
        return;
    }
    let mut sequences = sequences.to_vec();
    sequences.sort_unstable();
    for sequence in &sequences {
        if let Some(message) = destination.messages.get_mut(sequence) {
            message.stand = Stand::Waiting;
            // The priority is only in the record, which is unreadable.
            if message.is_unreadable() && at != usize::MAX {
                message.priority = domain::message::PRIORITY_DEFAULT;
            }
        }
    }
    let was_empty = destination.waiting.is_empty();
    let at = at.min(destination.waiting.len());
    destination.waiting.splice(at..at, sequences);
    if destination.definition.ordering == Ordering::None {
        let mut waiting = std::mem::take(&mut destination.waiting);
        waiting.sort_by_key(|sequence| score_of(destination, *sequence));
        destination.waiting = waiting;
    }
    let claimers = destination.definition.claimers();
    if was_empty {
        state.active(claimers).insert(name);
    }
}

/// Call this after a message of a serial lane finishes, so that the next one may be processed.
fn advance(state: &mut State, name: Name, lane: Lane) {
    let Some(destination) = state.destinations.get_mut(name) else { return };
    let Some(next) = destination.unfinished(lane) else { return };
    let Some(message) = destination.messages.get_mut(&next) else { return };
    if message.stand == (Stand::Held { delayed: true }) {
        message.stand = Stand::Delayed { until: Until::Future };
    } else {
        wait(state, name, &[next]);
    }
}

fn holds(message: &Message, by: &str) -> bool {
    matches!(&message.stand, Stand::Leased { secret, .. } if secret == by)
}

/// The message as stored: a missing body does not change its record.
pub fn stored(sequence: Sequence, message: &Message) -> Given {
    if message.damage != Some(Damage::NoBody) {
        return given(sequence, message, Left::default());
    }
    let message = Message { damage: None, body: String::new(), ..message.clone() };
    Given { is_damaged: true, ..given(sequence, &message, Left::default()) }
}

/// The message as returned. A damaged message has no content.
pub fn given(sequence: Sequence, message: &Message, left: Left) -> Given {
    if message.is_unreadable() || message.is_damaged() {
        return Given {
            sequence,
            epoch: 0,
            previous: Some(sequence - 1),
            key: None,
            body: String::new(),
            priority: domain::message::PRIORITY_DEFAULT,
            accounted_bytes: 0,
            idempotency_key: None,
            options: ProcessingOptions::default(),
            tombstone: message.tombstone,
            left,
            is_damaged: message.is_damaged(),
        };
    }
    Given {
        is_damaged: false,
        sequence,
        epoch: message.epoch,
        previous: message.previous,
        key: message.key,
        body: message.body.clone(),
        priority: message.priority,
        accounted_bytes: message.accounted_bytes,
        idempotency_key: message.idempotency_key.clone(),
        options: message.options,
        tombstone: message.tombstone,
        left,
    }
}

fn pass(state: &mut State, deadline: &Deadline) {
    match deadline {
        Deadline::Lease { name, sequence } | Deadline::Delay { name, sequence } => {
            let destination = state.destinations.get_mut(name);
            let message = destination.and_then(|found| found.messages.get_mut(sequence));
            if let Some(Stand::Leased { until, .. } | Stand::Delayed { until }) =
                message.map(|message| &mut message.stand)
            {
                *until = Until::Past;
            }
        }
        Deadline::Postponed { name } => {
            let destination = state.destinations.get_mut(name);
            let lanes = destination.into_iter().flat_map(|found| found.lanes.values_mut());
            let all = state.releasable.get_mut(name).into_iter().chain(lanes);
            let times = all.filter(|hint| matches!(hint, Hint::At(_)));
            times.for_each(|hint| *hint = Hint::At(Until::Past));
        }
        Deadline::Rate { name } => {
            if let Some(destination) = state.destinations.get_mut(name) {
                destination.granted = 0;
                destination.rest = destination.rest.map(|_| Until::Past);
            }
        }
        Deadline::ResultsFull { name } => {
            state.results_full.insert(name);
        }
        Deadline::RateAhead { name } => {
            if let Some(destination) = state.destinations.get_mut(name) {
                destination.granted = GRANTED_AHEAD;
            }
        }
        Deadline::Calls { caller, upto } => {
            state.calls.remove(caller);
            state.late.insert(*caller, *upto);
        }
        Deadline::Owner => {
            if let Some((_, until)) = &mut state.owner {
                *until = Until::Past;
            }
        }
        Deadline::TakeoverWait => state.takeover_wait = state.takeover_wait.map(|_| Until::Past),
        Deadline::Letter { name, sequence } => {
            let letters = state.destinations.get_mut(name).map(|found| &mut found.letters);
            if let Some(letter) = letters.and_then(|letters| letters.get_mut(sequence)) {
                letter.is_old = true;
            }
        }
        Deadline::Seen { name, idempotency_key } => {
            if let Some(seen) = state.seen.get_mut(&(*name, idempotency_key.clone())) {
                seen.until = Until::Past;
            }
        }
    }
}
