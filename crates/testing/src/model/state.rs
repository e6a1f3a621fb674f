//! The state of a partition: destinations, their messages, and the state of each message.
//!
//! The model stores the state of each message once; Redis stores it as membership in several
//! keys. Times are only before or after now. Epochs and versions count from 1. The real ones are
//! times, but only their order matters.

use std::collections::{BTreeMap, BTreeSet};

use domain::{ErrorKind, Ordering, ProcessingOptions, Sequence, Stage, Tombstone, TransformKind};
use store::{Claimers, INLINE_MAX};

/// The destinations of the model.
pub const NAMES: [&str; 4] = ["alpha", "beta", "delta", "gamma"];

pub type Name = &'static str;
/// An ordering key.
pub type Key = Option<&'static str>;

/// A lane: the unit that stays in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lane {
    /// The destination is one lane.
    Whole,
    /// The messages of one ordering key.
    Key(&'static str),
    /// Without ordering, each message is a lane.
    Single(Sequence),
}

impl Lane {
    /// The name in the store.
    pub fn name(self) -> Option<String> {
        match self {
            Lane::Whole => None,
            Lane::Key(key) => Some(key.to_owned()),
            Lane::Single(sequence) => Some(sequence.to_string()),
        }
    }
}

/// A deadline, relative to now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Until {
    Past,
    Future,
}

/// When the head of a lane may be released.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Hint {
    /// Now. In a set of lanes, lower numbers come first, and 0 before all others.
    Now(Sequence),
    /// At the end of a backoff.
    At(Until),
}

impl Hint {
    pub fn is_due(self) -> bool {
        self != Hint::At(Until::Future)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Definition {
    pub ordering: Ordering,
    pub serial: bool,
    pub kind: TransformKind,
    pub backlog_max: u64,
    /// 0: no limit.
    pub backlog_bytes_max: u64,
    pub idempotency_keys_max: u64,
    /// A repeat under an idempotency key may have another body.
    pub compares_keys: bool,
    pub sources_max: usize,
    /// If false, an idempotency key is remembered only while its message is pending.
    pub has_window: bool,
    pub stalls_max: u32,
    /// How many messages may be claimed at once; 0: the transform has no rate.
    pub rate_burst: u32,
    pub log_max: u64,
    /// 0: no limit.
    pub dead_letters_max: u64,
    /// True if dead letters have an age limit.
    pub letters_age: bool,
    /// The tombstone for exhausted messages, if they do not stay halted.
    pub gives_up: Option<Tombstone>,
    pub previous_keys_max: u64,
}

impl Definition {
    pub fn claimers(&self) -> Claimers {
        match self.kind {
            TransformKind::Worker => Claimers::Worker,
            _ => Claimers::Builtin,
        }
    }

    pub fn lane_of(&self, sequence: Sequence, key: Key) -> Lane {
        match self.ordering {
            Ordering::Destination => Lane::Whole,
            Ordering::Key => Lane::Key(key.unwrap_or_default()),
            Ordering::None => Lane::Single(sequence),
        }
    }

    /// The key in the names of the sets for a message with this ordering key.
    pub fn set_of(&self, key: Key) -> Key {
        (self.ordering == Ordering::Key).then(|| key.unwrap_or_default())
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Stand {
    Waiting,
    /// Awaits its turn in a serial lane; `delayed` if it is not due yet either.
    Held {
        delayed: bool,
    },
    Leased {
        secret: String,
        until: Until,
    },
    Delayed {
        until: Until,
    },
    Ready,
    Halted(Stage),
}

/// The stored attempts. Only the kinds of errors, newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Left {
    pub failed: u32,
    pub stalls: u32,
    pub checkpoint: Option<String>,
    pub errors: Vec<ErrorKind>,
    /// The number of suspects that may be in processing together with it; 0 if it is not a suspect.
    pub together: u32,
    pub stalls_alone: u32,
    /// True if the time of the checkpoint is known.
    pub saved: bool,
    pub asked_later: u32,
    pub waits_for_later: bool,
}

impl Left {
    pub fn note(&mut self, kind: ErrorKind) {
        self.errors.insert(0, kind);
        if self.errors.len() > 5 {
            // The first error of the current count stays.
            self.errors.remove(if self.failed + self.stalls > 5 { 4 } else { 5 });
        }
    }
}

/// Manual damage to a message in Redis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Damage {
    /// Its record is missing.
    Missing,
    /// Its record cannot be read.
    Unreadable,
    /// The record is whole, but the body, stored out of line, is missing.
    NoBody,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Message {
    pub epoch: u64,
    /// `None` if it is no longer known.
    pub previous: Option<Sequence>,
    pub key: Key,
    pub body: String,
    pub priority: u8,
    /// Its accounted bytes.
    pub accounted_bytes: u64,
    /// Set if the key is forgotten together with the message.
    pub idempotency_key: Option<String>,
    pub options: ProcessingOptions,
    pub tombstone: Option<Tombstone>,
    pub left: Left,
    /// The kind of a pending withdrawal.
    pub withdrawal: Option<Tombstone>,
    pub stand: Stand,
    /// The damage in Redis. The model still knows the whole message.
    pub damage: Option<Damage>,
}

impl Message {
    /// True if its processing is finished, or it is a tombstone.
    pub fn is_finished(&self) -> bool {
        matches!(self.stand, Stand::Ready | Stand::Halted(Stage::Delivery))
    }

    pub fn is_halted(&self) -> bool {
        matches!(self.stand, Stand::Halted(_))
    }

    /// True if Redis has a record of the message, readable or not.
    pub fn has_record(&self) -> bool {
        self.damage != Some(Damage::Missing)
    }

    /// True if Redis can read no part of the message.
    pub fn is_unreadable(&self) -> bool {
        matches!(self.damage, Some(Damage::Missing | Damage::Unreadable))
    }

    /// True if the message must be halted. A damaged tombstone is not halted: it only holds its position.
    pub fn is_damaged(&self) -> bool {
        self.damage.is_some() && self.tombstone.is_none()
    }

    /// The length of its body, if it is stored out of line.
    pub fn length_out_of_line(&self) -> Option<usize> {
        let is_out_of_line = self.tombstone.is_none() && self.body.len() > INLINE_MAX;
        (is_out_of_line && self.damage != Some(Damage::NoBody)).then_some(self.body.len())
    }

    /// True if it may be released when its turn comes.
    pub fn may_leave(&self) -> bool {
        self.stand == Stand::Ready
    }
}

/// A dead letter.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Letter {
    pub stage: Stage,
    pub was_halted: bool,
    pub reason: &'static str,
    /// It exceeds every age limit.
    pub is_old: bool,
    /// The message when it became a dead letter.
    pub message: Message,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Destination {
    pub version: u64,
    pub definition: Definition,
    /// The versions that are kept, the newest first.
    pub versions: Vec<u64>,
    pub paused: &'static str,
    /// The epoch in which the destination was created. Its messages never carry a lower one.
    pub born: u64,
    pub deleted: bool,
    pub last: Sequence,
    pub delivered: u64,
    pub dropped: u64,
    pub dead_lettered: u64,
    pub cancelled: u64,
    pub discarded: u64,
    pub expired: u64,
    /// The accounted bytes of damaged messages that have left. Redis could not know these numbers.
    pub lost_bytes: i64,
    /// The lengths of bodies that no record refers to any more.
    pub left_bodies: BTreeMap<Sequence, usize>,
    pub messages: BTreeMap<Sequence, Message>,
    /// The waiting messages, in the order in which they will be claimed.
    pub waiting: Vec<Sequence>,
    /// How many claimed messages the rate still counts. The interval is longer than the test.
    pub granted: u32,
    /// The end of its rest, if it rests because of its rate.
    pub rest: Option<Until>,
    /// With several lanes: the lanes that may have a releasable head, and the earliest time.
    pub lanes: BTreeMap<String, Hint>,
    /// Idempotency keys that Redis remembers while their messages are pending.
    pub unique: BTreeMap<String, Seen>,
    /// The mark of each source.
    pub sources: BTreeMap<u8, usize>,
    /// The number of idempotency keys stamped with a window. The window is longer than the test.
    pub remembered: u64,
    pub letters: BTreeMap<Sequence, Letter>,
    /// The outcomes of the last messages, oldest first.
    pub log: Vec<(Sequence, Option<Tombstone>)>,
    /// The last sequences of the most recently used keys without pending messages.
    pub previous: BTreeMap<&'static str, Sequence>,
    /// True if no key was forgotten. All other keys then had no message yet.
    pub all_keys_known: bool,
}

impl Destination {
    pub fn pending(&self) -> u64 {
        self.messages.len() as u64
    }

    pub fn bytes(&self) -> u64 {
        let charged = self.messages.values().map(|message| message.accounted_bytes).sum::<u64>();
        charged.saturating_add_signed(self.lost_bytes)
    }

    pub fn withdrawals(&self) -> u64 {
        self.messages.values().filter(|message| message.withdrawal.is_some()).count() as u64
    }

    pub fn lane_of(&self, sequence: Sequence, message: &Message) -> Lane {
        self.definition.lane_of(sequence, message.key)
    }

    /// The messages of a lane, in order.
    pub fn lane(&self, lane: Lane) -> impl DoubleEndedIterator<Item = (Sequence, &Message)> {
        let all = self.messages.iter().map(|(sequence, message)| (*sequence, message));
        all.filter(move |(sequence, message)| self.lane_of(*sequence, message) == lane)
    }

    pub fn head(&self, lane: Lane) -> Option<(Sequence, &Message)> {
        self.lane(lane).next()
    }

    pub fn is_head(&self, sequence: Sequence) -> bool {
        let Some(message) = self.messages.get(&sequence) else { return false };
        self.head(self.lane_of(sequence, message)).is_some_and(|(head, _)| head == sequence)
    }

    /// The first unfinished message of a lane.
    pub fn unfinished(&self, lane: Lane) -> Option<Sequence> {
        self.lane(lane).find(|(_, message)| !message.is_finished()).map(|(sequence, _)| sequence)
    }

    pub fn lanes_in_use(&self) -> BTreeSet<Lane> {
        self.messages.iter().map(|(sequence, message)| self.lane_of(*sequence, message)).collect()
    }

    pub fn count(&self, is: impl Fn(&Message) -> bool) -> u64 {
        self.messages.values().filter(|message| is(message)).count() as u64
    }
}

/// The message stamped under an idempotency key.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Seen {
    pub epoch: u64,
    pub sequence: Sequence,
    pub body: String,
    pub until: Until,
}

/// The server identity that the partition stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Server {
    /// No identity: it was lost.
    Unknown,
    /// This server.
    This,
    /// Another server: this server may have lost data.
    Other,
}

/// The kept answer to a caller's last call.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Kept {
    Whole(super::op::Reply),
    /// The messages of a claim. A repeated call reads their content again.
    Claimed {
        name: Name,
        sequences: Vec<Sequence>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct State {
    pub server: Server,
    pub epoch: u64,
    /// The highest epoch that a message of a removed destination may have carried.
    pub removed_epoch: u64,
    /// The highest epoch ever. Redis may lose this number, but its clock gives a higher one.
    pub epoch_max: u64,
    pub takeover_wait: Option<Until>,
    /// True if the length of an owner's lease is stored.
    pub lease_noted: bool,
    pub owner: Option<(usize, Until)>,
    pub destinations: BTreeMap<Name, Destination>,
    pub seen: BTreeMap<(Name, String), Seen>,
    /// The results that producers wait for, as text. The time that they are kept is longer than the test.
    pub results: BTreeMap<(Name, Sequence), String>,
    /// The destinations whose results have no room; `*`: none has.
    pub results_full: BTreeSet<Name>,
    pub active_builtin: BTreeSet<Name>,
    pub active_worker: BTreeSet<Name>,
    pub releasable: BTreeMap<Name, Hint>,
    /// Destinations whose withdrawals the owner must carry out.
    pub withdrawing: BTreeSet<Name>,
    pub calls: BTreeMap<usize, (u64, Kept)>,
    /// For each caller, the last call whose time is over. Redis has forgotten its answer.
    pub late: BTreeMap<usize, u64>,
    /// The index of all destinations: version, what is paused, and the number of changes.
    pub index: BTreeMap<Name, (u64, &'static str)>,
    pub revision: u64,
    /// The last change of each name; the removed names; the last forgotten change.
    pub changes: BTreeMap<Name, u64>,
    pub removed: BTreeMap<Name, u64>,
    /// The versions of the definitions of removed destinations.
    pub removed_definitions: BTreeMap<Name, u64>,
    pub floor: u64,
    /// The last version of any definition.
    pub version: u64,
}

/// A new deployment.
impl Default for State {
    fn default() -> State {
        State {
            server: Server::This,
            epoch: 1,
            removed_epoch: 0,
            epoch_max: 1,
            takeover_wait: None,
            lease_noted: false,
            owner: None,
            destinations: BTreeMap::new(),
            seen: BTreeMap::new(),
            results: BTreeMap::new(),
            results_full: BTreeSet::new(),
            active_builtin: BTreeSet::new(),
            active_worker: BTreeSet::new(),
            releasable: BTreeMap::new(),
            withdrawing: BTreeSet::new(),
            calls: BTreeMap::new(),
            late: BTreeMap::new(),
            index: BTreeMap::new(),
            revision: 0,
            changes: BTreeMap::new(),
            removed: BTreeMap::new(),
            removed_definitions: BTreeMap::new(),
            floor: 0,
            version: 0,
        }
    }
}

impl State {
    /// Sets the index entry of a name: version and what is paused.
    pub fn note_change(&mut self, name: Name, entry: (u64, &'static str)) {
        self.revision += 1;
        self.changes.insert(name, self.revision);
        self.index.insert(name, entry);
        self.removed.remove(name);
    }

    /// Removes a name. Forgets the oldest removed name if there are too many.
    pub fn note_removal(&mut self, name: Name, removed_max: usize) {
        self.revision += 1;
        self.changes.insert(name, self.revision);
        self.index.remove(name);
        self.removed.insert(name, self.revision);
        let oldest = self.removed.iter().min_by_key(|(_, revision)| **revision);
        if let Some((name, revision)) = oldest.map(|(name, revision)| (*name, *revision))
            && self.removed.len() > removed_max
        {
            self.removed.remove(name);
            self.changes.remove(name);
            self.floor = revision;
        }
    }

    /// Raises the epoch above every earlier one.
    pub fn raise_epoch(&mut self) {
        self.epoch_max += 1;
        self.epoch = self.epoch_max;
    }

    /// The epoch that the messages of a destination carry.
    pub fn carried(&self, name: Name) -> u64 {
        self.destinations.get(name).map_or(self.epoch, |found| found.born.max(self.epoch))
    }

    pub fn active(&mut self, claimers: Claimers) -> &mut BTreeSet<Name> {
        match claimers {
            Claimers::Builtin => &mut self.active_builtin,
            Claimers::Worker => &mut self.active_worker,
        }
    }
}
