//! Picks the objects of an operation from the state.

use domain::{Ordering, ProcessingOptions, Sequence, Stage, Tombstone, TransformKind};
use store::INLINE_MAX;

use super::super::{
    draw::Draw,
    op::{Arrival, CatalogEntry, Deadline, Due, Harm, Op, Output, Redrive, Source, Token},
    state::{Damage, Definition, Destination, Key, Lane, Message, Name, Stand, State, Until},
};

pub const KEYS: [Key; 4] = [None, Some("a"), Some("b"), Some("{x}:y")];

type Pick = (u8, u8, u8);

pub fn nonempty<T>(items: impl IntoIterator<Item = T>) -> Option<Vec<T>> {
    let items: Vec<T> = items.into_iter().collect();
    (!items.is_empty()).then_some(items)
}

pub fn arrival(&(key, idempotency, body): &Pick, name: Name, state: &State) -> Arrival {
    let idempotency_key = (idempotency % 4 == 0).then(|| format!("i{}", idempotency / 4 % 8));
    let due = match body / 2 % 24 {
        0 => Some(Due::After(Until::Past)),
        1 => Some(Due::At(Until::Past)),
        2 => Some(Due::After(Until::Future)),
        3 => Some(Due::At(Until::Future)),
        _ => None,
    };
    let text = match body % 16 {
        7 => String::new(),
        9 => long("body", body / 16 % 2),
        _ => format!("body {}", body % 2),
    };
    let plain = Arrival {
        key: KEYS[key as usize % KEYS.len()],
        idempotency_key,
        accounted_bytes: text.len() as u64,
        body: text,
        due,
        priority: (key % 3 == 0).then_some(body % 10),
        redrive: None,
        source: (key / 16 % 4 == 0)
            .then(|| source(idempotency, body, state.destinations.get(name))),
        options: ProcessingOptions {
            keep_result: idempotency % 3 > 0,
            attempts_max: u32::from(key / 4 % 4),
            backoff_ms: None,
        },
    };
    let letters = state.destinations.get(name).map(|destination| &destination.letters);
    let is_redriven = idempotency % 8 < 3 && body < 200;
    // A damaged dead letter is never redriven.
    let whole = letters.and_then(|all| all.iter().find(|(_, one)| one.message.damage.is_none()));
    let Some((sequence, letter)) = whole else {
        // The dead letter no longer exists. If it does, it is damaged.
        let (epoch, processed) = (state.epoch, idempotency < 128);
        let is_gone = letters.is_none_or(|all| !all.contains_key(&1));
        let redrive = (body == 0 && is_gone).then_some(Redrive { letter: 1, epoch, processed });
        let source = plain.source.filter(|_| redrive.is_none());
        return Arrival { redrive, source, ..plain };
    };
    if !is_redriven {
        return plain;
    }
    let processed = letter.stage == Stage::Delivery;
    let message = &letter.message;
    // Sometimes refers to a dead letter of an earlier destination of this name.
    let born = state.destinations.get(name).map_or(0, |found| found.born);
    let letter_epoch = if body % 3 == 1 { born - 1 } else { message.epoch };
    Arrival {
        key: message.key,
        accounted_bytes: if processed {
            message.accounted_bytes
        } else {
            message.body.len() as u64
        },
        body: message.body.clone(),
        options: ProcessingOptions::default(),
        source: None,
        redrive: Some(Redrive { letter: *sequence, epoch: letter_epoch, processed }),
        ..plain
    }
}

/// The source of an arrival, which mostly goes on after the mark.
fn source(name: u8, draw: u8, destination: Option<&Destination>) -> Source {
    let name = name / 4 % 3;
    let mark = destination.and_then(|destination| destination.sources.get(&name).copied());
    let position = usize::from(draw / 4 % 8);
    let after = match draw % 4 {
        0 => None,
        1 => Some(usize::from(draw / 32)),
        _ => mark,
    };
    let after = after.filter(|after| *after < position);
    Source { name, position, after, skips: draw % 16 == 6 }
}

/// The processor's output for a message.
pub fn output(token: &Token, draw: Pick, name: Name, state: &State) -> Output {
    let found = state.destinations.get(name);
    let message = found.and_then(|found| found.messages.get(&token.sequence));
    let is_withdrawing = message.is_some_and(|message| message.withdrawal.is_some());
    let dropped = draw.1 < if is_withdrawing { 160 } else { 64 };
    let is_unchanged = message.is_some() && !dropped && draw.2.is_multiple_of(3);
    Output {
        epoch: message.map_or(state.epoch, |message| message.epoch),
        previous: message.map_or(Some(0), |message| message.previous),
        key: message.and_then(|message| message.key),
        priority: message.map_or(4, |message| message.priority),
        accounted_bytes: message.map_or(0, |message| message.accounted_bytes),
        idempotency_key: message.and_then(|message| message.idempotency_key.clone()),
        options: message.map(|message| message.options).unwrap_or_default(),
        dropped,
        is_unchanged,
        body: match draw.1 % 5 {
            _ if dropped => String::new(),
            4 => long("output", draw.2 % 2),
            other => format!("output {other}"),
        },
    }
}

/// A body long enough to be stored out of line from its record.
fn long(what: &str, number: u8) -> String {
    format!("{what} {number}{}", " and so on".repeat(INLINE_MAX / 10 + 1 + usize::from(number)))
}

pub fn definition(draw: &Draw, name: Name, state: &State) -> Definition {
    let (a, b, c) = draw.many[0];
    let (d, e, _) = draw.many[draw.many.len() - 1];
    let found = state.destinations.get(name).map(|found| found.definition);
    let found = found.filter(|_| c < 160);
    let drawn = match c % 3 {
        0 => Ordering::Key,
        1 => Ordering::Destination,
        _ => Ordering::None,
    };
    let ordering = found.map_or(drawn, |found| found.ordering);
    let serial = found.map_or(d % 2 == 0, |found| found.serial) && ordering != Ordering::None;
    let kind = match a % 4 {
        0 => TransformKind::Worker,
        1 => TransformKind::None,
        _ => TransformKind::Http,
    };
    Definition {
        ordering,
        serial,
        kind,
        backlog_max: if b < 64 { 4 } else { 12 },
        backlog_bytes_max: if b % 4 == 0 { 60 } else { 0 },
        idempotency_keys_max: if b % 8 == 1 { 3 } else { 1000 },
        compares_keys: b % 16 == 2,
        sources_max: if b % 8 == 3 { 1 } else { 4 },
        has_window: d < 128,
        stalls_max: u32::from(e / 4 % 3),
        log_max: u64::from(e % 3) * 2,
        dead_letters_max: if d % 4 == 1 { 1 } else { 0 },
        letters_age: c % 4 > 0,
        rate_burst: match kind {
            TransformKind::None => 0,
            _ => u32::from(e / 16 % 8).saturating_sub(4),
        },
        gives_up: match c / 4 % 4 {
            0 => Some(Tombstone::DeadLettered),
            1 => Some(Tombstone::Dropped),
            _ => None,
        },
        previous_keys_max: u64::from(a / 4 % 4),
    }
}

/// The deadlines in the state.
pub fn deadlines(name: Name, state: &State) -> Vec<Deadline> {
    let mut all = vec![Deadline::Postponed { name }];
    for (sequence, message) in state.destinations.get(name).into_iter().flat_map(|d| &d.messages) {
        match message.stand {
            Stand::Leased { .. } => all.push(Deadline::Lease { name, sequence: *sequence }),
            Stand::Delayed { .. } => all.push(Deadline::Delay { name, sequence: *sequence }),
            _ => {}
        }
    }
    if let Some(found) =
        state.destinations.get(name).filter(|found| found.definition.rate_burst > 0)
    {
        all.push(if found.granted > 0 {
            Deadline::Rate { name }
        } else {
            Deadline::RateAhead { name }
        });
    }
    let seen = state.seen.keys().filter(|(of, _)| *of == name).take(2);
    all.extend(seen.map(|(_, key)| Deadline::Seen { name, idempotency_key: key.clone() }));
    all
}

pub fn deadline(draw: &Draw, name: Name, state: &State) -> Deadline {
    let mut all = deadlines(name, state);
    match draw.many[0].2 {
        0..12 => Deadline::Owner,
        12..40 if state.calls.contains_key(&draw.caller) => {
            let (caller, upto) = (draw.caller, state.calls[&draw.caller].0);
            Deadline::Calls { caller, upto }
        }
        40..44 => Deadline::ResultsFull {
            name: if draw.many[0].0.is_multiple_of(2) { name } else { "*" },
        },
        _ if state.takeover_wait == Some(Until::Future) => Deadline::TakeoverWait,
        _ => all.swap_remove(draw.many[0].0 as usize % all.len()),
    }
}

/// True if a message is in a state that `stands` accepts.
pub fn has(name: Name, state: &State, stands: fn(&Stand) -> bool) -> bool {
    let mut messages = state.destinations.get(name).into_iter().flat_map(|d| d.messages.values());
    messages.any(|message| stands(&message.stand))
}

/// Among messages in these states whose leases have expired before, the message with the most stalls.
pub fn stalled(name: Name, state: &State, stands: fn(&Stand) -> bool) -> Option<Sequence> {
    let messages = state.destinations.get(name).into_iter().flat_map(|d| &d.messages);
    let stalled = messages.filter(|(_, one)| one.left.stalls > 0 && stands(&one.stand));
    stalled.max_by_key(|(_, one)| one.left.stalls).map(|(sequence, _)| *sequence)
}

pub fn has_letters(name: Name, state: &State) -> bool {
    state.destinations.get(name).is_some_and(|found| !found.letters.is_empty())
}

pub fn has_halted(name: Name, state: &State) -> bool {
    has(name, state, |stand| *stand == Stand::Halted(Stage::Transform))
}

/// A message to damage in Redis.
pub fn to_damage(draw: &Draw, name: Name, state: &State) -> Option<Op> {
    let (at, how, _) = draw.many[0];
    let destination = state.destinations.get(name)?;
    let whole = destination.messages.iter();
    let whole =
        whole.filter(|(_, message)| message.tombstone.is_none() && message.damage.is_none());
    let whole: Vec<(Sequence, bool)> = whole
        .map(|(sequence, message)| (*sequence, message.length_out_of_line().is_some()))
        .collect();
    let (sequence, is_out_of_line) = *whole.get(at as usize % whole.len().max(1))?;
    let damage = match how % 5 {
        _ if is_out_of_line && how < 160 => Damage::NoBody,
        0 | 1 => Damage::Unreadable,
        _ => Damage::Missing,
    };
    Some(Op::Damage { name, sequence, damage })
}

/// A contradiction to create before a repair.
pub fn harm(draw: &Draw, name: Name, state: &State) -> Harm {
    let (at, what, _) = draw.many[0];
    let lives = |found: &&Destination| !found.deleted;
    let Some(destination) = state.destinations.get(name).filter(lives) else {
        return Harm::Nothing;
    };
    let stands = |message: &Message| {
        let stands = matches!(message.stand, Stand::Ready | Stand::Halted(_));
        stands && message.tombstone.is_none() && message.damage.is_none()
    };
    let twice = destination.messages.iter().filter(|(_, message)| stands(message));
    let twice: Vec<Sequence> = twice.map(|(sequence, _)| *sequence).collect();
    // Without a transform, a message that needs no processing would be ready.
    let is_processed = destination.definition.kind != TransformKind::None;
    match what % 8 {
        0 => Harm::Hints,
        1 if is_processed => Harm::Waiting,
        2 => Harm::Counters,
        3 if !twice.is_empty() => Harm::Twice(twice[at as usize % twice.len()]),
        4 => Harm::LeftOver,
        5 => Harm::Letters,
        _ => Harm::Nothing,
    }
}

pub fn has_withdrawals(name: Name, state: &State) -> bool {
    state.destinations.get(name).is_some_and(|found| found.withdrawals() > 0)
}

pub fn is_leased(name: Name, state: &State) -> bool {
    has(name, state, |stand| matches!(stand, Stand::Leased { .. }))
}

/// A head that halted in delivery.
pub fn halted(name: Name, state: &State) -> Option<(Lane, Sequence)> {
    let destination = state.destinations.get(name)?;
    let (sequence, message) = destination
        .messages
        .iter()
        .find(|(_, message)| message.stand == Stand::Halted(Stage::Delivery))?;
    Some((destination.lane_of(*sequence, message), *sequence))
}

/// The lanes that an owner may ask for: in use, or named in a hint.
pub fn lanes_of(known: CatalogEntry, state: &State) -> Vec<Lane> {
    let destination = state.destinations.get(known.name);
    let definition = known.definition;
    let mut lanes: Vec<Lane> = match definition.ordering {
        Ordering::Destination => vec![Lane::Whole],
        Ordering::Key => vec![Lane::Key("a")],
        Ordering::None => vec![Lane::Single(1)],
    };
    let messages = destination.into_iter().flat_map(|found| &found.messages);
    lanes.extend(messages.map(|(sequence, message)| definition.lane_of(*sequence, message.key)));
    let hinted = destination.into_iter().flat_map(|found| found.lanes.keys());
    lanes.extend(hinted.filter_map(|hint| match definition.ordering {
        Ordering::Destination => None,
        Ordering::Key => {
            let known = KEYS.iter().map(|key| key.unwrap_or_default());
            known.into_iter().find(|key| key == hint).map(Lane::Key)
        }
        Ordering::None => hint.parse().ok().map(Lane::Single),
    }));
    lanes.sort_unstable();
    lanes.dedup();
    lanes
}

pub fn how(number: u8) -> Tombstone {
    [Tombstone::Dropped, Tombstone::DeadLettered, Tombstone::Cancelled][number as usize % 3]
}

/// Messages for an operator to withdraw: pending ones, some that have left, some in another lane.
pub fn to_withdraw(many: &[Pick], name: Name, state: &State) -> Vec<(Lane, Sequence)> {
    let Some(destination) = state.destinations.get(name) else { return Vec::new() };
    let definition = destination.definition;
    let has_owner = matches!(state.owner, Some((_, Until::Future)));
    let pick = |&(at, which, key): &Pick| {
        let pending = destination.messages.iter();
        let lives = |m: &Message| m.tombstone.is_none() && (has_owner || m.is_finished());
        let mut pending = pending.filter(|(_, m)| lives(m) || which > 200);
        let count = pending.clone().count();
        match pending.nth(at as usize % count.max(1)) {
            Some((sequence, message)) if which < 240 => {
                (definition.lane_of(*sequence, message.key), *sequence)
            }
            _ => {
                let sequence = 1 + Sequence::from(which) % (destination.last + 1);
                (definition.lane_of(sequence, KEYS[key as usize % KEYS.len()]), sequence)
            }
        }
    };
    many.iter().take(2).map(pick).collect()
}

/// A pending withdrawal; otherwise a message that a policy gives up.
pub fn to_carry_out(
    draw: &Draw,
    name: Name,
    state: &State,
) -> Option<(Tombstone, Vec<(Lane, Sequence)>)> {
    let destination = state.destinations.get(name)?;
    let lane_of = |sequence, key| destination.definition.lane_of(sequence, key);
    let ordered = destination.messages.iter().filter_map(|(sequence, message)| {
        Some((message.withdrawal?, vec![(lane_of(*sequence, message.key), *sequence)]))
    });
    let ordered: Vec<_> = ordered.collect();
    let at = draw.many[0].0 as usize % ordered.len().max(1);
    ordered.into_iter().nth(at).or_else(|| {
        let messages = nonempty(to_withdraw(&draw.many, name, state))?;
        Some((how(draw.many[0].1), messages))
    })
}

/// The head for an operator to retry: usually a halted one, or one in backoff.
pub fn to_retry(draw: &Draw, name: Name, state: &State) -> Option<(Lane, Sequence)> {
    let destination: &Destination = state.destinations.get(name)?;
    let (at, which, _) = draw.many[0];
    let is_postponed = |lane: Lane| {
        let of_lane = lane.name().and_then(|lane| destination.lanes.get(&lane));
        of_lane.or(state.releasable.get(name)).is_some_and(|hint| !hint.is_due())
    };
    let wanted = |lane: Lane, stand: &Stand| match which {
        0..120 => matches!(stand, Stand::Halted(_)),
        120..160 => matches!(stand, Stand::Delayed { .. }),
        160..230 => *stand == Stand::Ready && is_postponed(lane),
        _ => true,
    };
    // Anywhere in a lane.
    if (145..165).contains(&which) {
        let is_delayed = |message: &Message| {
            matches!(message.stand, Stand::Delayed { .. } | Stand::Held { delayed: true })
        };
        let delayed = destination.messages.iter().filter(|(_, message)| is_delayed(message));
        let delayed = nonempty(delayed)?;
        let (sequence, message) = delayed[at as usize % delayed.len()];
        return Some((destination.lane_of(*sequence, message), *sequence));
    }
    let heads = destination.lanes_in_use().into_iter().filter_map(|lane| {
        let (sequence, message) = destination.head(lane)?;
        wanted(lane, &message.stand).then_some((lane, sequence))
    });
    let heads = nonempty(heads)?;
    let (lane, sequence) = heads[at as usize % heads.len()];
    let is_behind = which > 250 && !matches!(lane, Lane::Single(_));
    Some((lane, sequence + u64::from(is_behind)))
}
