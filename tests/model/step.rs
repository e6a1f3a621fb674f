//! What each operation does to a partition, and answers.

mod define;
mod leases;
mod owner;

use reseq::domain::{Ordering, Sequence, TransformKind};

use super::{
    op::{Arrival, Call, Deadline, Given, Ingested, Known, Op, Refusal, Reply},
    state::{
        Definition, Destination, Kept, Lane, Message, Name, Seen, Server, Stand, State, Until,
    },
};
use define::{begin_remove, define, end_remove};
use leases::{complete, extend, fail, overdue, reap, unclaim};
use owner::{disown, own, owned, postpone, release};

/// Carries out an operation, or refuses it. `memory_full`: Redis takes nothing more in.
pub fn step(state: &mut State, op: &Op, memory_full: bool) -> Reply {
    if memory_full && matches!(op, Op::Ingest { .. } | Op::Define { .. }) {
        return Reply::Refused(Refusal::OutOfMemory);
    }
    match numbered(state, op) {
        Ok(reply) => reply,
        Err(refusal) => Reply::Refused(refusal),
    }
}

type Answer = Result<Reply, Refusal>;

/// The same call again gets the same answer, and does nothing; a late one is refused.
fn numbered(state: &mut State, op: &Op) -> Answer {
    let Some(call) = op.call() else { return unnumbered(state, op) };
    match state.calls.get(&call.caller) {
        Some((number, kept)) if *number == call.number => {
            return Ok(match kept {
                Kept::Whole(reply) => reply.clone(),
                Kept::Claimed { name, sequences } => claimed(state, name, sequences, &call),
            });
        }
        Some((number, _)) if *number > call.number => return Err(Refusal::StaleCall),
        _ => {}
    }
    let (reply, kept) = match op {
        Op::Claim { known, max, .. } => {
            let sequences = claim(state, known, *max, &call)?;
            let reply = claimed(state, known.name, &sequences, &call);
            (reply, Kept::Claimed { name: known.name, sequences })
        }
        _ => {
            let reply = unnumbered(state, op)?;
            (reply.clone(), Kept::Whole(reply))
        }
    };
    state.calls.insert(call.caller, (call.number, kept));
    Ok(reply)
}

fn unnumbered(state: &mut State, op: &Op) -> Answer {
    match op {
        Op::Ingest { known, epoch, arrivals, .. } => ingest(state, known, *epoch, arrivals),
        Op::Claim { .. } => unreachable!("it is numbered"),
        Op::Complete { known, items, .. } => Ok(complete(state, known, items)),
        Op::Fail { known, items, .. } => Ok(fail(state, known.name, items)),
        Op::Unclaim { known, tokens, .. } => Ok(unclaim(state, known.name, tokens)),
        Op::Extend { known, tokens } => Ok(extend(state, known.name, tokens)),
        Op::Reap { known } => Ok(reap(state, known.name)),
        Op::Overdue => Ok(overdue(state)),
        Op::Own { who } => own(state, *who),
        Op::Disown { who } => Ok(disown(state, *who)),
        Op::Release { who, epoch, known, lanes } => release(state, *who, *epoch, known, lanes),
        Op::Postpone { who, epoch, known, lane, sequence, attempts, wait } => {
            owned(state, *who, *epoch, true)?;
            postpone(state, known.name, *lane, *sequence, *attempts, *wait)
        }
        Op::Define { name, definition } => define(state, name, *definition),
        Op::BeginRemove { name } => begin_remove(state, name, true),
        Op::EndRemove { name } => end_remove(state, name),
        Op::Remove { name, purge } => {
            begin_remove(state, name, *purge)?;
            end_remove(state, name)
        }
        Op::Restart => {
            if state.server == Server::This {
                state.server = Server::Other;
            }
            Ok(Reply::Done)
        }
        Op::Pass(deadline) => {
            pass(state, deadline);
            Ok(Reply::Done)
        }
        Op::ScriptFlush => Ok(Reply::Done),
    }
}

/// Notices a server that may have forgotten something: a new epoch, and no releases for a while.
fn notice_server(state: &mut State) {
    if state.server == Server::This {
        return;
    }
    state.epoch += 1;
    let is_other = state.server == Server::Other;
    state.quarantine = Some(if is_other { Until::Future } else { Until::Past });
    state.server = Server::This;
}

fn current<'a>(state: &'a mut State, known: &Known) -> Result<&'a mut Destination, Refusal> {
    let destination = state.destinations.get_mut(known.name).filter(|found| !found.deleted);
    let destination = destination.ok_or(Refusal::UnknownDestination)?;
    if destination.version != known.version {
        return Err(Refusal::StaleDefinition);
    }
    Ok(destination)
}

fn ingest(state: &mut State, known: &Known, epoch: u64, arrivals: &[Arrival]) -> Answer {
    notice_server(state);
    if state.epoch != epoch {
        return Err(Refusal::StaleEpoch(state.epoch));
    }
    current(state, known)?;
    let results = arrivals.iter().map(|arrival| arrive(state, known.name, epoch, arrival));
    Ok(Reply::Ingested(results.collect()))
}

fn arrive(state: &mut State, name: Name, epoch: u64, arrival: &Arrival) -> Ingested {
    let Some(destination) = state.destinations.get_mut(name) else { unreachable!("it was found") };
    if let Some(key) = &arrival.idempotency_key {
        let seen = state.seen.get(&(name, key.clone()));
        let seen = seen.filter(|s| s.until == Until::Future && s.epoch >= destination.born);
        if let Some(Seen { epoch, sequence, body, .. }) = seen {
            let (epoch, sequence) = (*epoch, *sequence);
            let is_same = *body == arrival.body;
            return if is_same {
                Ingested::Duplicate { epoch, sequence }
            } else {
                Ingested::Conflict
            };
        }
    }
    let Definition { ordering, kind, max_backlog } = destination.definition;
    if destination.pending() >= max_backlog {
        return Ingested::BacklogFull;
    }
    let lane = destination.definition.lane_of(arrival.key);
    let previous = match ordering {
        Ordering::Destination => destination.last,
        Ordering::Key => destination.lane(lane).next_back().map_or(0, |(sequence, _)| sequence),
    };
    let was_empty = destination.head(lane).is_none();
    let needs_processing = kind != TransformKind::None;
    destination.last += 1;
    let sequence = destination.last;
    let message = Message {
        epoch,
        previous,
        key: arrival.key,
        body: arrival.body.clone(),
        tombstone: false,
        attempts: 0,
        stand: if needs_processing { Stand::Waiting } else { Stand::Ready },
    };
    destination.messages.insert(sequence, message);
    if let Some(key) = &arrival.idempotency_key {
        let body = arrival.body.clone();
        let seen = Seen { epoch, sequence, body, until: Until::Future };
        state.seen.insert((name, key.clone()), seen);
    }
    if needs_processing {
        destination.waiting.push(sequence);
        let claimers = destination.definition.claimers();
        state.active(claimers).insert(name);
    } else if was_empty {
        may_leave(state, name, lane);
    }
    Ingested::Stamped { epoch, sequence }
}

/// The head of a lane may leave now: the owner is told.
fn may_leave(state: &mut State, name: Name, lane: Lane) {
    let destination = state.destinations.get_mut(name);
    if let (Some(destination), Some(key)) = (destination, lane) {
        destination.lanes.insert(key, Until::Past);
    }
    state.releasable.insert(name, Until::Past);
}

fn claim(
    state: &mut State,
    known: &Known,
    max: usize,
    call: &Call,
) -> Result<Vec<Sequence>, Refusal> {
    let destination = current(state, known)?;
    let taken: Vec<_> = destination.waiting.drain(..max.min(destination.waiting.len())).collect();
    for sequence in &taken {
        if let Some(message) = destination.messages.get_mut(sequence) {
            message.stand = Stand::Leased { secret: call.secret(), until: Until::Future };
        }
    }
    if destination.waiting.is_empty() {
        let claimers = destination.definition.claimers();
        state.active(claimers).remove(known.name);
    }
    Ok(taken)
}

/// What is still held of a claim.
fn claimed(state: &State, name: Name, sequences: &[Sequence], call: &Call) -> Reply {
    let messages = state.destinations.get(name).map(|destination| &destination.messages);
    let held = sequences.iter().filter_map(|sequence| {
        let message = messages?.get(sequence)?;
        let is_mine = holds(message, &call.secret());
        is_mine.then(|| given(*sequence, message, message.attempts))
    });
    Reply::Claimed(held.collect())
}

fn holds(message: &Message, by: &str) -> bool {
    matches!(&message.stand, Stand::Leased { secret, .. } if secret == by)
}

fn given(sequence: Sequence, message: &Message, attempts: u64) -> Given {
    Given {
        sequence,
        epoch: message.epoch,
        previous: message.previous,
        key: message.key,
        body: message.body.clone(),
        tombstone: message.tombstone,
        attempts,
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
            all.for_each(|not_before| *not_before = Until::Past);
        }
        Deadline::Owner => {
            if let Some((_, until)) = &mut state.owner {
                *until = Until::Past;
            }
        }
        Deadline::Quarantine => state.quarantine = state.quarantine.map(|_| Until::Past),
        Deadline::Seen { name, idempotency_key } => {
            if let Some(seen) = state.seen.get_mut(&(*name, idempotency_key.clone())) {
                seen.until = Until::Past;
            }
        }
    }
}
