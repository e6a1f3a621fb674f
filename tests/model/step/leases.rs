//! The ends of a lease: complete, fail, unclaim, extend, reap.

use reseq::{domain::Sequence, store::Status};

use super::{holds, may_leave};
use crate::model::{
    op::{Known, Output, Reply, Token},
    state::{Destination, Message, Name, Stand, State, Until},
};

/// Ends the leases that these tokens hold, each by `end`. Tells what became of each token, and
/// which messages were put back to waiting.
fn end_leases<'a>(
    state: &mut State,
    name: Name,
    tokens: impl Iterator<Item = &'a Token>,
    mut end: impl FnMut(usize, &mut Message),
) -> Vec<Status> {
    let mut statuses = Vec::new();
    let mut back = Vec::new();
    for (at, token) in tokens.enumerate() {
        let messages = state.destinations.get_mut(name).map(|found| &mut found.messages);
        statuses.push(match messages.and_then(|messages| messages.get_mut(&token.sequence)) {
            None => Status::Settled,
            Some(message) if holds(message, &token.secret) => {
                end(at, message);
                if message.stand == Stand::Waiting {
                    back.push(token.sequence);
                }
                Status::Ok
            }
            Some(_) => Status::StaleLease,
        });
    }
    put_back(state, name, back);
    statuses
}

/// Puts messages in front of those that wait.
fn put_back(state: &mut State, name: Name, mut back: Vec<Sequence>) {
    let Some(destination) = state.destinations.get_mut(name) else { return };
    if back.is_empty() {
        return;
    }
    back.sort_unstable();
    if destination.waiting.is_empty() {
        let claimers = destination.definition.claimers();
        state.active(claimers).insert(name);
    }
    if let Some(destination) = state.destinations.get_mut(name) {
        destination.waiting.splice(0..0, back);
    }
}

pub fn complete(state: &mut State, known: &Known, items: &[(Token, Output)]) -> Reply {
    let mut completed: Vec<Sequence> = Vec::new();
    let mut statuses = Vec::new();
    for (token, output) in items {
        let lane = known.definition.lane_of(token.key);
        let destination = state.destinations.get_mut(known.name);
        let found = destination.and_then(|destination| {
            let definition = destination.definition;
            let message = destination.messages.get_mut(&token.sequence)?;
            Some((definition.lane_of(message.key) == lane, message))
        });
        statuses.push(match found {
            None => Status::Settled,
            _ if completed.contains(&token.sequence) => Status::Settled,
            // A token that names another lane than the message's is none of ours.
            Some((true, message)) if holds(message, &token.secret) => {
                message.body = output.body.clone();
                message.epoch = output.epoch;
                message.previous = output.previous;
                message.tombstone = output.tombstone;
                message.attempts = 0;
                message.stand = Stand::Ready;
                completed.push(token.sequence);
                Status::Ok
            }
            Some((true, Message { stand: Stand::Ready, .. })) => Status::Settled,
            Some(_) => Status::StaleLease,
        });
    }
    if let Some(destination) = state.destinations.get(known.name) {
        for lane in destination.lanes_in_use() {
            let head = state.destinations.get(known.name).and_then(|found| found.head(lane));
            if head.is_some_and(|(sequence, _)| completed.contains(&sequence)) {
                may_leave(state, known.name, lane);
            }
        }
    }
    Reply::Statuses(statuses)
}

pub fn fail(state: &mut State, name: Name, items: &[(Token, Until)]) -> Reply {
    let tokens = items.iter().map(|(token, _)| token);
    Reply::Statuses(end_leases(state, name, tokens, |at, message| {
        message.attempts += 1;
        message.stand = match items[at].1 {
            Until::Past => Stand::Waiting,
            until => Stand::Delayed { until },
        };
    }))
}

pub fn unclaim(state: &mut State, name: Name, tokens: &[Token]) -> Reply {
    let back = |_, message: &mut Message| message.stand = Stand::Waiting;
    Reply::Statuses(end_leases(state, name, tokens.iter(), back))
}

pub fn extend(state: &mut State, name: Name, tokens: &[Token]) -> Reply {
    let extended = |_, message: &mut Message| {
        if let Stand::Leased { until, .. } = &mut message.stand {
            *until = Until::Future;
        }
    };
    Reply::Statuses(end_leases(state, name, tokens.iter(), extended))
}

fn over(destination: &Destination) -> (Vec<Sequence>, Vec<Sequence>) {
    let of = |is: fn(&Stand) -> bool| {
        let messages = destination.messages.iter().filter(move |(_, m)| is(&m.stand));
        messages.map(|(sequence, _)| *sequence).collect()
    };
    (
        of(|stand| matches!(stand, Stand::Leased { until: Until::Past, .. })),
        of(|stand| matches!(stand, Stand::Delayed { until: Until::Past })),
    )
}

pub fn overdue(state: &State) -> Reply {
    let all = state.destinations.iter().map(|(name, destination)| {
        let (leases, delays) = over(destination);
        (*name, leases, delays)
    });
    Reply::Overdue(all.filter(|(_, a, b)| !a.is_empty() || !b.is_empty()).collect())
}

pub fn reap(state: &mut State, name: Name) -> Reply {
    let Some(destination) = state.destinations.get_mut(name) else {
        return Reply::Reaped { leases: 0, delays: 0 };
    };
    let (leases, delays) = over(destination);
    for sequence in leases.iter().chain(&delays) {
        if let Some(message) = destination.messages.get_mut(sequence) {
            message.attempts += u64::from(leases.contains(sequence));
            message.stand = Stand::Waiting;
        }
    }
    put_back(state, name, [&leases[..], &delays[..]].concat());
    Reply::Reaped { leases: leases.len(), delays: delays.len() }
}
