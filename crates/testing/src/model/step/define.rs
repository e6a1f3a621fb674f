//! Creates, changes, pauses and removes destinations.

use domain::Ordering;
use store::Claimers;

use super::{Answer, notice_server};
use crate::model::{
    op::{Refusal, Reply},
    state::{Definition, Destination, Message, Name, State},
};

/// The most versions of a definition that are kept.
const VERSIONS_MAX: usize = 20;

pub fn define(state: &mut State, name: Name, definition: Definition) -> Answer {
    notice_server(state);
    let known = state.destinations.get(name);
    let created = known.is_none();
    if let Some(known) = known {
        if known.deleted {
            return Err(Refusal::BeingRemoved);
        }
        if known.definition == definition {
            let version = known.version;
            return Ok(Reply::Defined { version, changed: false, created });
        }
        let of_lanes = |definition: &Definition| (definition.ordering, definition.serial);
        if of_lanes(&known.definition) != of_lanes(&definition) && known.pending() > 0 {
            return Err(Refusal::WrongState);
        }
    }
    state.version += 1;
    let (version, born) = (state.version, state.epoch.max(state.removed_epoch + 1));
    state.epoch_max = state.epoch_max.max(if created { born } else { 0 });
    let is_by_key = definition.ordering == Ordering::Key;
    let destination = state.destinations.entry(name).or_insert_with(|| Destination {
        version,
        definition,
        versions: Vec::new(),
        paused: "",
        born,
        deleted: false,
        last: 0,
        delivered: 0,
        dropped: 0,
        dead_lettered: 0,
        cancelled: 0,
        discarded: 0,
        expired: 0,
        lost_bytes: 0,
        left_bodies: Default::default(),
        messages: Default::default(),
        waiting: Vec::new(),
        granted: 0,
        rest: None,
        lanes: Default::default(),
        unique: Default::default(),
        sources: Default::default(),
        remembered: 0,
        letters: Default::default(),
        log: Vec::new(),
        previous: Default::default(),
        all_keys_known: is_by_key,
    });
    if destination.definition.ordering != definition.ordering {
        destination.previous.clear();
        destination.all_keys_known = is_by_key && destination.last == 0;
    }
    destination.version = version;
    destination.definition = definition;
    destination.versions.insert(0, version);
    destination.versions.truncate(VERSIONS_MAX);
    let paused = destination.paused;
    let has_waiting = !destination.waiting.is_empty();
    let other = match definition.claimers() {
        Claimers::Builtin => Claimers::Worker,
        Claimers::Worker => Claimers::Builtin,
    };
    state.active(other).remove(name);
    if has_waiting {
        state.active(definition.claimers()).insert(name);
    }
    state.note_change(name, (version, paused));
    Ok(Reply::Defined { version, changed: true, created })
}

pub fn pause(state: &mut State, name: Name, paused: &'static str) -> Answer {
    let destination = state.destinations.get_mut(name).filter(|found| !found.deleted);
    let destination = destination.ok_or(Refusal::UnknownDestination)?;
    if destination.paused == paused {
        return Ok(Reply::Paused { changed: false });
    }
    state.version += 1;
    destination.version = state.version;
    destination.paused = paused;
    let version = state.version;
    state.note_change(name, (version, paused));
    Ok(Reply::Paused { changed: true })
}

pub fn begin_remove(state: &mut State, name: Name, purge: bool) -> Answer {
    let destination = state.destinations.get_mut(name).ok_or(Refusal::UnknownDestination)?;
    let purged = destination.pending();
    if !purge && (purged > 0 || !destination.letters.is_empty()) {
        return Err(Refusal::WrongState);
    }
    destination.deleted = true;
    state.active_builtin.remove(name);
    state.active_worker.remove(name);
    state.releasable.remove(name);
    state.withdrawing.remove(name);
    Ok(Reply::Removed { purged })
}

/// A removal scans for keys only if the destination ever had a message.
pub fn forget_idempotency_keys(state: &mut State, name: Name) {
    if state.destinations.get(name).is_some_and(|found| found.last > 0) {
        state.seen.retain(|(of, _), _| *of != name);
        state.results.retain(|(of, _), _| *of != name);
    }
}

/// The most removed names in the index when scripts are called one by one: so few that the index forgets some.
pub const FORGETTING: usize = 1;

/// Removes all messages, and forgets the destination.
pub fn end_remove(state: &mut State, name: Name, removed_max: usize) -> Answer {
    let destination = state.destinations.remove(name).ok_or(Refusal::UnknownDestination)?;
    notice_server(state);
    // A new destination of this name counts from 1 again.
    let carried = destination.born.max(state.epoch);
    state.removed_epoch = state.removed_epoch.max(carried);
    state.active_builtin.remove(name);
    state.active_worker.remove(name);
    state.releasable.remove(name);
    state.withdrawing.remove(name);
    if let Some((version, _)) = state.index.get(name) {
        state.removed_definitions.insert(name, *version);
    }
    state.note_removal(name, removed_max);
    let purged = destination.count(Message::has_record);
    Ok(Reply::Removed { purged })
}
