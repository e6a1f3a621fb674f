//! Stamps arrivals.

use domain::{Ordering, TransformKind};

use super::{Answer, current, given, may_leave, notice_server, wait};
use crate::model::{
    op::{Arrival, CatalogEntry, Due, Ingested, Refusal, Reply},
    state::{Destination, Hint, Lane, Left, Message, Name, Seen, Stand, State, Until},
};

/// With `secret`, arrivals are leased under it, if no other message waits.
pub fn ingest(
    state: &mut State,
    known: &CatalogEntry,
    epoch: u64,
    arrivals: &[Arrival],
    secret: Option<String>,
) -> Answer {
    notice_server(state);
    let destination = current(state, known)?;
    let may_begin = destination.waiting.is_empty()
        && destination.paused != "processing"
        && destination.definition.rate_burst == 0;
    let (secret, last) = (secret.filter(|_| may_begin), destination.last);
    let carried = state.carried(known.name);
    if carried != epoch {
        return Err(Refusal::StaleEpoch(carried));
    }
    let mut is_full = false;
    let arrive = |arrival| {
        let result = arrive(state, known.name, epoch, arrival, (is_full, secret.as_deref()));
        // Later arrivals must not overtake a refused one.
        is_full |= result == Ingested::BacklogFull;
        result
    };
    let results = arrivals.iter().map(arrive).collect();
    let destination = current(state, known)?;
    let stamped = destination.messages.range(last + 1..);
    let leased = stamped.filter(|(_, message)| matches!(message.stand, Stand::Leased { .. }));
    let leased = leased.map(|(sequence, message)| given(*sequence, message, Left::default()));
    Ok(Reply::Ingested(results, leased.collect()))
}

/// The message stamped under this key before, if it is still remembered.
fn first_of<'a>(
    destination: &'a Destination,
    seen: Option<&'a Seen>,
    key: &str,
) -> Option<&'a Seen> {
    if destination.definition.has_window {
        return seen.filter(|s| s.until == Until::Future && s.epoch >= destination.born);
    }
    let first = destination.unique.get(key)?;
    // A tombstone is never delivered, so its key is free again.
    let message = destination.messages.get(&first.sequence)?;
    (message.has_record() && message.tombstone.is_none()).then_some(first)
}

fn arrive(
    state: &mut State,
    name: Name,
    epoch: u64,
    arrival: &Arrival,
    (is_full, secret): (bool, Option<&str>),
) -> Ingested {
    let Some(destination) = state.destinations.get_mut(name) else { unreachable!("it was found") };
    let definition = destination.definition;
    let first = arrival.idempotency_key.as_ref().and_then(|key| {
        let seen = state.seen.get(&(name, key.clone()));
        Some(first_of(destination, seen, key)?.clone())
    });
    let is_same =
        first.as_ref().is_some_and(|first| definition.compares_keys || first.body == arrival.body);
    let mark = arrival.source.and_then(|source| destination.sources.get(&source.name).copied());
    let is_known = mark.zip(arrival.source).is_some_and(|(mark, from)| from.position <= mark);
    if is_known && !is_same {
        return Ingested::Duplicate { epoch: 0, sequence: 0 };
    }
    if let Some(source) = arrival.source.filter(|_| !is_known) {
        if source.after.is_some() && source.after != mark {
            return Ingested::SourceGap(mark);
        }
        if mark.is_none() && destination.sources.len() >= definition.sources_max {
            return Ingested::SourcesFull;
        }
        if is_full {
            // A mark must not move past a refused message.
            return Ingested::BacklogFull;
        }
        if source.skips {
            destination.sources.insert(source.name, source.position);
            return Ingested::Duplicate { epoch: 0, sequence: 0 };
        }
    }
    if let Some(first) = first {
        let (epoch, sequence) = (first.epoch, first.sequence);
        if let Some(source) = arrival.source.filter(|_| is_same && !is_known) {
            destination.sources.insert(source.name, source.position);
        }
        return if is_same { Ingested::Duplicate { epoch, sequence } } else { Ingested::Conflict };
    }
    if let Some(redrive) = &arrival.redrive
        && (redrive.epoch < destination.born || !destination.letters.contains_key(&redrive.letter))
    {
        return Ingested::Gone;
    }
    let no_room = destination.pending() >= definition.backlog_max
        || definition.backlog_bytes_max > 0
            && destination.bytes() > 0
            && destination.bytes() + arrival.accounted_bytes > definition.backlog_bytes_max;
    let no_keys = definition.has_window
        && arrival.idempotency_key.is_some()
        && destination.remembered >= definition.idempotency_keys_max;
    if is_full || no_room || no_keys {
        return Ingested::BacklogFull;
    }
    if let Some(redrive) = &arrival.redrive {
        destination.letters.remove(&redrive.letter);
    }
    if let Some(source) = arrival.source {
        destination.sources.insert(source.name, source.position);
    }
    destination.last += 1;
    let sequence = destination.last;
    let lane = definition.lane_of(sequence, arrival.key);
    let previous = match definition.ordering {
        Ordering::Destination => Some(sequence - 1),
        Ordering::Key => {
            let pending = destination.lane(lane).next_back().map(|(sequence, _)| sequence);
            let remembered = destination.previous.get(arrival.key.unwrap_or_default()).copied();
            pending.or(remembered).or(destination.all_keys_known.then_some(0))
        }
        Ordering::None => Some(0),
    };
    let idempotency_key = arrival.idempotency_key.clone().filter(|_| !definition.has_window);
    let message = Message {
        epoch,
        previous,
        key: arrival.key,
        body: arrival.body.clone(),
        priority: priority(arrival, definition.ordering),
        accounted_bytes: arrival.accounted_bytes,
        idempotency_key,
        options: arrival.options,
        tombstone: None,
        left: Left::default(),
        withdrawal: None,
        stand: Stand::Ready,
        damage: None,
    };
    let is_busy = destination.unfinished(lane).is_some();
    destination.messages.insert(sequence, message);
    remember(
        state,
        name,
        arrival,
        Seen { epoch, sequence, body: arrival.body.clone(), until: Until::Future },
    );
    stand(state, name, (lane, sequence), arrival, is_busy, secret);
    Ingested::Stamped { epoch, sequence }
}

fn priority(arrival: &Arrival, ordering: Ordering) -> u8 {
    let asked = arrival.priority.filter(|_| ordering == Ordering::None);
    asked.unwrap_or(domain::message::PRIORITY_DEFAULT)
}

fn remember(state: &mut State, name: Name, arrival: &Arrival, first: Seen) {
    let Some(destination) = state.destinations.get_mut(name) else { return };
    match &arrival.idempotency_key {
        Some(key) if destination.definition.has_window => {
            destination.remembered += 1;
            state.seen.insert((name, key.clone()), first);
        }
        Some(key) => {
            destination.unique.insert(key.clone(), first);
        }
        None => {}
    }
}

/// Adds a new message to its state: waiting, leased, delayed, awaiting turn or ready.
fn stand(
    state: &mut State,
    name: Name,
    (lane, sequence): (Lane, u64),
    arrival: &Arrival,
    is_busy: bool,
    secret: Option<&str>,
) {
    let Some(destination) = state.destinations.get_mut(name) else { return };
    let definition = destination.definition;
    let is_processed = arrival.redrive.is_some_and(|redrive| redrive.processed);
    let is_finished = is_processed || definition.kind == TransformKind::None;
    let delayed = matches!(arrival.due, Some(Due::After(Until::Future) | Due::At(Until::Future)));
    if is_finished && !delayed {
        if destination.is_head(sequence) {
            may_leave(state, name, lane, Hint::Now(sequence));
        }
        return;
    }
    let is_held = definition.serial && is_busy;
    let Some(message) = destination.messages.get_mut(&sequence) else { return };
    match (is_held, delayed, secret) {
        (true, ..) => message.stand = Stand::Held { delayed },
        (_, true, _) => message.stand = Stand::Delayed { until: Until::Future },
        (.., Some(secret)) => {
            message.stand = Stand::Leased { secret: secret.to_owned(), until: Until::Future };
        }
        _ => wait(state, name, &[sequence]),
    }
}
