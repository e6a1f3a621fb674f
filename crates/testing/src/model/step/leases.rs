//! Leases and their ends: claim, complete, fail, requeue, extend, reap.

use domain::{ErrorKind, Ordering, Sequence, Stage, Tombstone};
use store::{Claimers, INLINE_MAX, Status, Withdrawn};

use super::{advance, current, given, holds, may_leave, operator::give_up_one, wait_in_front};
use crate::model::{
    op::{Call, CatalogEntry, Extension, Failure, Output, Refusal, Reply, Token},
    state::{Destination, Hint, Lane, Left, Message, Name, Stand, State, Until},
};

pub fn claim(
    state: &mut State,
    known: &CatalogEntry,
    (min, mut max): (usize, usize),
    call: &Call,
    memory_full: bool,
) -> Result<Vec<Sequence>, Refusal> {
    let destination = current(state, known)?;
    if destination.paused == "processing" {
        return Ok(Vec::new());
    }
    let burst = destination.definition.rate_burst;
    let granted = destination.granted.min(burst);
    if burst > 0 {
        if granted == burst {
            destination.granted = granted;
            rest(state, known.name);
            return Ok(Vec::new());
        }
        max = max.min((burst - granted) as usize);
    }
    let leased = destination.messages.values().filter(|one| is_leased(one));
    let mut held: Vec<u32> = leased.map(|one| one.left.together).filter(|n| *n > 0).collect();
    let (mut taken, mut later, mut takes_suspects) = (Vec::new(), Vec::new(), None);
    let may_go = |sequence: &Sequence| !memory_full || is_free_head(destination, *sequence);
    for sequence in destination.waiting.iter().copied().filter(may_go).take(max) {
        let together = destination.messages.get(&sequence).map_or(0, |one| one.left.together);
        let most = held.iter().copied().min().unwrap_or(u32::MAX).min(together);
        if together == 0 && takes_suspects != Some(true) {
            takes_suspects = Some(false);
            taken.push(sequence);
        } else if together > 0 && takes_suspects != Some(false) && (held.len() as u32) < most {
            takes_suspects = Some(true);
            held.push(together);
            taken.push(sequence);
        } else if takes_suspects == Some(true) {
            break;
        } else {
            later.push(sequence);
        }
    }
    let is_suspect = takes_suspects.unwrap_or(!later.is_empty());
    if !destination.waiting.is_empty() && taken.len() < min && !is_suspect {
        return Ok(Vec::new());
    }
    destination.waiting.retain(|sequence| !taken.contains(sequence) && !later.contains(sequence));
    for sequence in taken.iter().chain(&later) {
        if let Some(message) = destination.messages.get_mut(sequence) {
            message.stand = match later.contains(sequence) {
                true => Stand::Delayed { until: Until::Future },
                false => Stand::Leased { secret: call.secret(), until: Until::Future },
            };
        }
    }
    if burst > 0 && !taken.is_empty() {
        destination.granted = granted + taken.len() as u32;
    }
    if destination.waiting.is_empty() {
        let claimers = destination.definition.claimers();
        state.active(claimers).remove(known.name);
    } else if burst > 0 && destination.granted == burst {
        rest(state, known.name);
    } else {
        let claimers = destination.definition.claimers();
        state.active(claimers).insert(known.name);
    }
    Ok(taken)
}

/// The rate allows no more claims for now: the destination leaves the hint of waiting messages.
fn rest(state: &mut State, name: Name) {
    let Some(destination) = state.destinations.get(name) else { return };
    let claimers = destination.definition.claimers();
    if state.active(claimers).remove(name)
        && let Some(destination) = state.destinations.get_mut(name)
    {
        destination.rest = Some(Until::Future);
    }
}

fn is_leased(message: &Message) -> bool {
    matches!(message.stand, Stand::Leased { .. })
}

/// True if the message is the head of its lane, and delivery is not paused. When Redis has no memory
/// left, a claim takes only such messages. A message with an unreadable record counts as a head.
fn is_free_head(destination: &Destination, sequence: Sequence) -> bool {
    let is_there =
        |sequence: Sequence| destination.messages.get(&sequence).is_some_and(Message::has_record);
    let message = destination.messages.get(&sequence);
    let is_head = match destination.definition.ordering {
        Ordering::None => true,
        Ordering::Destination => !is_there(sequence - 1),
        Ordering::Key => message
            .filter(|message| !message.is_unreadable())
            .and_then(|message| message.previous)
            .is_none_or(|previous| !is_there(previous)),
    };
    is_head && !destination.paused.contains("delivery")
}

/// The messages that a claim still holds. Damaged ones are halted, and not returned.
pub fn claimed(state: &mut State, name: Name, sequences: &[Sequence], call: &Call) -> Reply {
    let mut told = Vec::new();
    for sequence in sequences {
        let messages = state.destinations.get_mut(name).map(|found| &mut found.messages);
        let message = messages.and_then(|messages| messages.get_mut(sequence));
        let Some(message) = message.filter(|message| holds(message, &call.secret())) else {
            continue;
        };
        if message.is_damaged() {
            message.left.failed += 1;
            message.left.together = 0;
            message.left.waits_for_later = false;
            message.left.note(ErrorKind::Damaged);
            message.stand = Stand::Halted(Stage::Transform);
        } else {
            told.push(given(*sequence, message, message.left.clone()));
        }
    }
    Reply::Claimed(told)
}

/// Ends the leases of these tokens. `end` returns where each message goes, or `None` if the lease
/// continues.
fn end_leases<'a>(
    state: &mut State,
    name: Name,
    tokens: impl Iterator<Item = &'a Token>,
    mut end: impl FnMut(usize, &mut Message) -> (Status, Option<Stand>),
) -> Reply {
    let mut statuses = Vec::new();
    let mut back = Vec::new();
    for (at, token) in tokens.enumerate() {
        let messages = state.destinations.get_mut(name).map(|found| &mut found.messages);
        statuses.push(match messages.and_then(|messages| messages.get_mut(&token.sequence)) {
            None => Status::Settled,
            Some(message) if holds(message, &token.secret) => {
                let (status, stand) = end(at, message);
                if let Some(stand) = stand {
                    if stand == Stand::Waiting {
                        back.push(token.sequence);
                    }
                    message.stand = stand;
                }
                status
            }
            Some(message) => why_gone(message),
        });
    }
    wait_in_front(state, name, &back);
    Reply::Statuses(statuses)
}

/// The status of a message that the token does not hold. Without a record, the message seems to have left.
fn why_gone(message: &Message) -> Status {
    if message.has_record() { Status::StaleLease } else { Status::Settled }
}

pub fn complete(
    state: &mut State,
    known: &CatalogEntry,
    items: &[(Token, Output)],
    memory_full: bool,
) -> Reply {
    let (mut completed, mut sets) = (Vec::new(), Vec::new());
    let mut statuses = vec![Status::Settled; items.len()];
    // Lowest sequence first: its lane advances first.
    let mut order: Vec<usize> = (0..items.len()).collect();
    order.sort_by_key(|at| items[*at].0.sequence);
    for at in order {
        let (token, output) = &items[at];
        let set = known.definition.set_of(token.key);
        if !sets.contains(&set) {
            sets.push(set);
        }
        let destination = state.destinations.get_mut(known.name);
        let found = destination.and_then(|destination| {
            let definition = destination.definition;
            let may_leave = !destination.paused.contains("delivery")
                && (definition.ordering == Ordering::None || destination.is_head(token.sequence));
            let message = destination.messages.get_mut(&token.sequence)?;
            Some((definition.set_of(message.key) == set, may_leave, message))
        });
        statuses[at] = match found {
            None => Status::Settled,
            _ if completed.contains(&token.sequence) => Status::Settled,
            // A token that names another lane than the message's is forged.
            Some((true, may_leave, message)) if holds(message, &token.secret) => {
                // There are few lanes, so the output of a head is accepted.
                if memory_full && is_longer(message, output) && !may_leave {
                    Status::Full
                } else {
                    finish(message, token.sequence, output, known);
                    completed.push(token.sequence);
                    let has_room = !memory_full
                        && !["*", known.name].iter().any(|name| state.results_full.contains(name));
                    if output.options.keep_result && has_room {
                        let kept = kept(output.epoch, output.dropped, &output.body);
                        state.results.insert((known.name, token.sequence), kept);
                    }
                    Status::Ok
                }
            }
            Some((true, _, message)) if message.is_finished() => Status::Settled,
            Some((_, _, message)) => why_gone(message),
        };
    }
    for set in sets {
        let Some(destination) = state.destinations.get(known.name) else { continue };
        let definition = destination.definition;
        let of_set: Vec<(Sequence, Lane)> = completed
            .iter()
            .filter_map(|sequence| {
                let message = destination.messages.get(sequence)?;
                let is_of_set = definition.set_of(message.key) == set;
                is_of_set.then(|| (*sequence, destination.lane_of(*sequence, message)))
            })
            .collect();
        for (sequence, lane) in &of_set {
            if state.destinations.get(known.name).is_some_and(|found| found.is_head(*sequence)) {
                may_leave(state, known.name, *lane, Hint::Now(*sequence));
            }
        }
        if let Some((_, lane)) = of_set.first().filter(|_| definition.serial) {
            advance(state, known.name, *lane);
        }
    }
    Reply::Statuses(statuses)
}

/// A result that is kept for a producer, as text.
pub fn kept(epoch: u64, dropped: bool, body: &str) -> String {
    format!("epoch {epoch}, {:?}", (!dropped).then_some(body))
}

/// True if the output needs much more memory: Redis stores it out of line, unlike the body.
fn is_longer(message: &Message, output: &Output) -> bool {
    let is_long = !output.dropped && !output.is_unchanged && output.body.len() > INLINE_MAX;
    is_long && message.length_out_of_line().is_none()
}

/// The output replaces the body; earlier errors stay.
fn finish(message: &mut Message, sequence: Sequence, output: &Output, known: &CatalogEntry) {
    if output.is_unchanged {
        message.left = Left { errors: message.left.errors.clone(), ..Left::default() };
        message.stand = Stand::Ready;
        return;
    }
    *message = Message {
        epoch: output.epoch,
        previous: match known.definition.ordering {
            Ordering::Destination => Some(sequence - 1),
            Ordering::Key => output.previous,
            Ordering::None => Some(0),
        },
        priority: match known.definition.ordering {
            Ordering::None => output.priority,
            _ => domain::message::PRIORITY_DEFAULT,
        },
        key: output.key,
        body: output.body.clone(),
        accounted_bytes: output.accounted_bytes,
        idempotency_key: output.idempotency_key.clone(),
        options: output.options,
        tombstone: output.dropped.then_some(Tombstone::Dropped),
        left: Left { errors: message.left.errors.clone(), ..Left::default() },
        withdrawal: message.withdrawal,
        stand: Stand::Ready,
        damage: None,
    };
}

/// Halts the messages whose last attempt it was. Those that may leave do so in the same call.
pub fn fail(state: &mut State, known: &CatalogEntry, items: &[Failure]) -> Reply {
    let tokens = items.iter().map(|failure| &failure.token);
    let reply = end_leases(state, known.name, tokens, |at, message| {
        let (left, is_later) = (&mut message.left, items[at].is_later);
        left.together = 0;
        left.waits_for_later = is_later;
        *if is_later { &mut left.asked_later } else { &mut left.failed } += 1;
        if items[at].wait.is_none() || !is_later {
            left.note(ErrorKind::Status);
        }
        match items[at].wait {
            None => (Status::Halted, Some(Stand::Halted(Stage::Transform))),
            Some(Until::Past) => (Status::Ok, Some(Stand::Waiting)),
            Some(until) => (Status::Ok, Some(Stand::Delayed { until })),
        }
    });
    let (Reply::Statuses(mut statuses), Some(how)) = (reply.clone(), known.definition.gives_up)
    else {
        return reply;
    };
    if current(state, known).is_err() {
        return reply;
    }
    for (status, failure) in statuses.iter_mut().zip(items) {
        let (sequence, key) = (failure.token.sequence, failure.token.key);
        let lane = known.definition.lane_of(sequence, key);
        if *status == Status::Halted
            && give_up_one(state, known.name, lane, sequence, how) == Withdrawn::Done
        {
            *status = Status::Withdrawn;
        }
    }
    Reply::Statuses(statuses)
}

pub fn requeue(state: &mut State, name: Name, tokens: &[Token]) -> Reply {
    end_leases(state, name, tokens.iter(), |_, _| (Status::Ok, Some(Stand::Waiting)))
}

pub fn extend(state: &mut State, known: &CatalogEntry, items: &[Extension]) -> Reply {
    let has_limit = known.definition.claimers() == Claimers::Worker;
    end_leases(state, known.name, items.iter().map(|one| &one.token), |at, message| {
        let Extension { checkpoint, is_long_ago, .. } = &items[at];
        if has_limit && *is_long_ago && checkpoint.is_none() && !message.left.saved {
            return (Status::AttemptTimeout, None);
        }
        if let Stand::Leased { until, .. } = &mut message.stand {
            *until = Until::Future;
        }
        if let Some(checkpoint) = checkpoint {
            message.left.checkpoint = Some(checkpoint.clone());
            message.left.saved = true;
        }
        (Status::Ok, None)
    })
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
        let (leases, mut delays) = over(destination);
        // The end of a rest counts as a delay of no message.
        if destination.rest == Some(Until::Past) {
            delays.insert(0, 0);
        }
        (*name, leases, delays)
    });
    Reply::Overdue(all.filter(|(_, a, b)| !a.is_empty() || !b.is_empty()).collect())
}

pub fn reap(state: &mut State, name: Name) -> Reply {
    let Some(destination) = state.destinations.get_mut(name) else {
        return Reply::Reaped { leases: 0, delays: 0, halted: 0 };
    };
    let most = destination.definition.stalls_max;
    let (leases, delays) = over(destination);
    let mut back = delays.clone();
    let mut halted = 0;
    // The test passes all leases of the destination to the script, and one that does not exist.
    let named =
        destination.messages.values().filter(|message| is_leased(message)).count() as u32 + 1;
    for sequence in &leases {
        let Some(message) = destination.messages.get_mut(sequence) else { continue };
        let left = &mut message.left;
        left.stalls += 1;
        left.waits_for_later = false;
        if most > 0 {
            left.stalls_alone += u32::from(left.together == 1 && left.stalls > 2);
            let together = if left.together > 0 { left.together } else { named };
            left.together = (together / 2).max(1);
        }
        left.note(ErrorKind::Stalled);
        if most > 0 && left.stalls_alone >= most {
            message.stand = Stand::Halted(Stage::Transform);
            halted += 1;
        } else {
            back.push(*sequence);
        }
    }
    let rest_is_over = destination.rest == Some(Until::Past);
    if rest_is_over {
        destination.rest = None;
    }
    wait_in_front(state, name, &back);
    if let Some(destination) = state.destinations.get(name).filter(|_| rest_is_over)
        && !destination.waiting.is_empty()
    {
        let claimers = destination.definition.claimers();
        state.active(claimers).insert(name);
    }
    Reply::Reaped { leases: leases.len(), delays: delays.len(), halted }
}
