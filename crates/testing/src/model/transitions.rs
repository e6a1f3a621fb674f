//! Compares each step with the states and transitions of `domain::State`: messages change their
//! state only as its table allows, and each entry of the table occurs.
//!
//! Redis does not store that a delivery is in progress, so such a message counts as `ready`. A message
//! that awaits its turn in a serial lane counts as `waiting`, or as `delayed` if it is not due yet.

use std::collections::{BTreeMap, BTreeSet};

use domain::{Sequence, Stage, State, Tombstone};

use super::{
    events::{Event, after, arrived},
    op::{Op, Reply},
    state::{Message, Name, Stand, State as Partition},
};

/// The events of one call at one message, in order.
type Path = Vec<Event>;

/// The entries of the table that have occurred, as `state: event`.
#[derive(Debug, Clone, Default)]
pub struct Seen(BTreeSet<String>);

/// All entries of the table.
fn table() -> BTreeSet<String> {
    use State as S;
    let states = [S::Waiting, S::Processing, S::Delayed, S::Ready, S::Delivering, S::Halted];
    let ended = [S::Damaged, S::Delivered, S::Dropped, S::DeadLettered, S::Cancelled];
    let mut events = vec![
        Event::Claim,
        Event::Defer,
        Event::Requeue,
        Event::Reap,
        Event::Fail,
        Event::Due,
        Event::Complete,
        Event::Release,
        Event::Postpone,
        Event::Ack,
        Event::Halt,
        Event::Retry(Stage::Transform),
        Event::Retry(Stage::Delivery),
    ];
    let how = [Tombstone::Dropped, Tombstone::DeadLettered, Tombstone::Cancelled];
    events.extend(how.map(Event::Withdraw));
    let pairs =
        states.into_iter().chain(ended).flat_map(|state| events.iter().map(move |e| (state, *e)));
    pairs.filter(|(state, event)| after(*state, *event).is_some()).map(entry).collect()
}

fn entry((state, event): (State, Event)) -> String {
    format!("{state:?}: {event:?}")
}

impl Seen {
    pub fn add(&mut self, other: Seen) {
        self.0.extend(other.0);
    }

    /// The entries of the table that never occurred.
    pub fn missing(&self) -> Vec<String> {
        table().difference(&self.0).cloned().collect()
    }

    /// Describes a change of a message by this step that its kind of call may not make; `None` if there is none.
    pub fn tell(
        &mut self,
        op: &Op,
        reply: &Reply,
        before: &Partition,
        after: &Partition,
    ) -> Option<String> {
        let paths = paths(op)?;
        let (old, new) = (states(before), states(after));
        for (place, state) in &new {
            if !old.contains_key(place) && !is_arrival(op, *state) {
                return Some(format!("{place:?} begins as {state:?}"));
            }
        }
        for (place, from) in old {
            // A message that has left was accepted by the receiver, or was a tombstone.
            let is_gone = !new.contains_key(&place);
            let to = new.get(&place).copied().unwrap_or(match from.is_settled() {
                true => from,
                false => State::Delivered,
            });
            if is_gone && !matches!(op, Op::Release { .. }) {
                return Some(format!("{place:?} left by another call than a release"));
            }
            if from == to {
                if is_postponed(op, reply, place) {
                    // A repair may have halted the message meanwhile. It stays halted.
                    for path in &paths {
                        self.walk(path, from, to);
                    }
                }
                continue;
            }
            // A repair may have halted the message while its sender held it. The sender still delivers it.
            let from = match (is_gone, from) {
                (true, State::Halted) => State::Ready,
                (_, from) => from,
            };
            if !paths.iter().any(|path| self.walk(path, from, to)) {
                return Some(format!("{place:?} went from {from:?} to {to:?}"));
            }
        }
        None
    }

    /// True if these events lead from one state to the other. If so, notes them.
    fn walk(&mut self, path: &Path, from: State, to: State) -> bool {
        let (mut state, mut entries) = (from, Vec::new());
        for event in path {
            entries.push(entry((state, *event)));
            match after(state, *event) {
                Some(next) => state = next,
                None => return false,
            }
        }
        let leads_there = state == to;
        if leads_there {
            self.0.extend(entries);
        }
        leads_there
    }
}

/// The transitions that one call of this kind may cause; `None` if the call is not a transition
/// of a message: manual damage and repair, and the removal of a destination.
fn paths(op: &Op) -> Option<Vec<Path>> {
    use Event as E;
    // The next message of a serial lane gets its turn. Until then it was not due, or no call moved it.
    let turn = vec![E::Due];
    Some(match op {
        Op::Damage { .. } | Op::Repair { .. } => return None,
        Op::Remove { .. } | Op::EndRemove { .. } | Op::Remake { .. } => return None,
        // A claim halts damaged messages at once, even a repeated claim.
        Op::Claim { .. } => {
            vec![vec![E::Claim], vec![E::Defer], vec![E::Claim, E::Halt], vec![E::Halt]]
        }
        Op::Complete { .. } => {
            let dropped = E::Withdraw(Tombstone::Dropped);
            vec![vec![E::Complete], vec![E::Complete, dropped], turn]
        }
        Op::Fail { known, .. } => {
            let leaves = known.definition.gives_up.map(|how| vec![E::Halt, E::Withdraw(how)]);
            let stays = [vec![E::Fail], vec![E::Fail, E::Due], vec![E::Halt], turn];
            stays.into_iter().chain(leaves).collect()
        }
        Op::Requeue { .. } => vec![vec![E::Requeue]],
        Op::Reap { .. } => vec![vec![E::Reap], vec![E::Due], vec![E::Halt]],
        Op::Release { .. } => vec![vec![E::Release, E::Ack], vec![E::Release, E::Halt]],
        Op::Postpone { .. } => vec![vec![E::Release, E::Postpone]],
        Op::Halt { .. } => vec![vec![E::Release, E::Halt]],
        Op::Withdraw { how, .. } => vec![vec![E::Withdraw(*how)], turn],
        Op::GiveUp { known } => match known.definition.gives_up {
            Some(how) => vec![vec![E::Withdraw(how)], turn],
            None => Vec::new(),
        },
        Op::Retry { .. } => {
            let stages = [Stage::Transform, Stage::Delivery];
            let retried = stages.map(|stage| vec![E::Retry(stage)]);
            // A retry sends a head in backoff again at once.
            retried.into_iter().chain([turn]).collect()
        }
        _ => Vec::new(),
    })
}

fn is_arrival(op: &Op, state: State) -> bool {
    let first = [(true, false), (true, true), (false, false)];
    let mut first = first
        .into_iter()
        .map(|(needs_processing, is_delayed)| arrived(needs_processing, is_delayed));
    let Op::Ingest { leases, .. } = op else { return false };
    // What is leased on arrival is claimed in the call that stamps it.
    *leases && state == State::Processing || first.any(|first| first == state)
}

/// True if the message was just postponed, which does not change its state.
fn is_postponed(op: &Op, reply: &Reply, (name, sequence): (Name, Sequence)) -> bool {
    let Op::Postpone { refused, .. } = op else { return false };
    !matches!(reply, Reply::Refused(_))
        && (refused.known.name, refused.sequence) == (name, sequence)
}

/// Each pending message's state.
fn states(partition: &Partition) -> BTreeMap<(Name, Sequence), State> {
    let all = partition.destinations.iter().flat_map(|(name, destination)| {
        let of =
            |(sequence, message): (&Sequence, &Message)| ((*name, *sequence), state_of(message));
        destination.messages.iter().map(of)
    });
    all.collect()
}

fn state_of(message: &Message) -> State {
    match (&message.stand, message.tombstone) {
        (_, Some(how)) => how.into(),
        (Stand::Waiting | Stand::Held { delayed: false }, _) => State::Waiting,
        (Stand::Delayed { .. } | Stand::Held { delayed: true }, _) => State::Delayed,
        (Stand::Leased { .. }, _) => State::Processing,
        (Stand::Ready, _) => State::Ready,
        (Stand::Halted(_), _) => State::Halted,
    }
}
