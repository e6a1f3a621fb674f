//! What a partition is: destinations, their messages, and where each message stands.
//!
//! The model says of each message where it is, once; Redis keeps that as membership in several
//! keys. Time is only before or after now. Epochs and versions are counted from 1: the real ones
//! are instants, of which only the order matters.

use std::collections::{BTreeMap, BTreeSet};

use reseq::{
    domain::{ErrorKind, Ordering, Sequence, Stage, Tombstone, TransformKind},
    store::{Claimers, INLINE_MAX},
};

/// The destinations of the model.
pub const NAMES: [&str; 4] = ["alpha", "beta", "delta", "gamma"];

pub type Name = &'static str;
/// An ordering key.
pub type Key = Option<&'static str>;

/// What must stay in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lane {
    /// The destination is one lane.
    Whole,
    /// The messages of one ordering key.
    Key(&'static str),
    /// Nothing is in order: each message is a lane.
    Single(Sequence),
}

impl Lane {
    /// As the store names it.
    pub fn name(self) -> Option<String> {
        match self {
            Lane::Whole => None,
            Lane::Key(key) => Some(key.to_owned()),
            Lane::Single(sequence) => Some(sequence.to_string()),
        }
    }
}

/// A deadline, seen from now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Until {
    Past,
    Future,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Definition {
    pub ordering: Ordering,
    pub serial: bool,
    pub kind: TransformKind,
    pub backlog_max: u64,
    /// 0: no limit.
    pub backlog_bytes_max: u64,
    /// False: an idempotency key is remembered while its message is pending.
    pub has_window: bool,
    pub attempts_max: u32,
    pub stalls_max: u32,
    pub log_max: u64,
    /// 0: no limit.
    pub dead_letters_max: u64,
    /// Dead letters that are too old go.
    pub letters_age: bool,
    /// As what messages leave whose attempts are used up, if they do not stay halted.
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

    /// The key of the sets that a message with this ordering key stands in.
    pub fn set_of(&self, key: Key) -> Key {
        (self.ordering == Ordering::Key).then(|| key.unwrap_or_default())
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Stand {
    Waiting,
    /// Behind another of its serial lane; if delayed, its time has not come either.
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

/// What attempts left behind. Of errors only the kinds, the latest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Left {
    pub failed: u32,
    pub stalls: u32,
    pub checkpoint: Option<String>,
    pub errors: Vec<ErrorKind>,
}

impl Left {
    pub fn note(&mut self, kind: ErrorKind) {
        self.errors.insert(0, kind);
        self.errors.truncate(5);
    }
}

/// What was done to a message by hand, in Redis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Damage {
    /// Its record is missing.
    Missing,
    /// Its record cannot be read.
    Unreadable,
    /// Its record is whole; its body, which is stored apart, is missing.
    NoBody,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Message {
    pub epoch: u64,
    /// None if it is not known any more.
    pub previous: Option<Sequence>,
    pub key: Key,
    pub body: String,
    pub priority: u8,
    /// The bytes that it counts for.
    pub accounted_bytes: u64,
    /// Where it is forgotten together with the message.
    pub idempotency_key: Option<String>,
    pub tombstone: Option<Tombstone>,
    pub left: Left,
    /// How it is to leave when it comes out of the hand it is in.
    pub order: Option<Tombstone>,
    pub stand: Stand,
    /// What Redis does not hold of it. All else stays known here.
    pub damage: Option<Damage>,
}

impl Message {
    /// True if its processing has finished, or it is a tombstone.
    pub fn is_finished(&self) -> bool {
        matches!(self.stand, Stand::Ready | Stand::Halted(Stage::Delivery))
    }

    pub fn is_halted(&self) -> bool {
        matches!(self.stand, Stand::Halted(_))
    }

    /// True if Redis has a record of it, whatever the record says.
    pub fn has_record(&self) -> bool {
        self.damage != Some(Damage::Missing)
    }

    /// True if nothing can be read of it.
    pub fn is_unreadable(&self) -> bool {
        matches!(self.damage, Some(Damage::Missing | Damage::Unreadable))
    }

    /// True if it is to be halted: of what is damaged a tombstone keeps only its place.
    pub fn is_damaged(&self) -> bool {
        self.damage.is_some() && self.tombstone.is_none()
    }

    /// The length of its body, if Redis holds it apart from the record.
    pub fn length_apart(&self) -> Option<usize> {
        let is_apart = self.tombstone.is_none() && self.body.len() > INLINE_MAX;
        (is_apart && self.damage != Some(Damage::NoBody)).then_some(self.body.len())
    }

    /// True if it may be handed to a sender when its turn comes.
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
    /// It is older than any destination keeps dead letters.
    pub is_old: bool,
    /// As it was when it was set aside.
    pub message: Message,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Destination {
    pub version: u64,
    pub definition: Definition,
    pub paused: &'static str,
    /// The epoch in which it was made: its messages carry no lower one.
    pub born: u64,
    pub deleted: bool,
    pub last: Sequence,
    pub delivered: u64,
    pub dropped: u64,
    pub dead_lettered: u64,
    pub cancelled: u64,
    pub discarded: u64,
    pub expired: u64,
    /// What damaged messages counted for that have left: nobody could tell.
    pub lost_bytes: i64,
    /// The lengths of bodies that no record names any more.
    pub left_bodies: BTreeMap<Sequence, usize>,
    pub messages: BTreeMap<Sequence, Message>,
    /// Those that are waiting, in the order in which they will be claimed.
    pub waiting: Vec<Sequence>,
    /// Where there are several lanes: which may have a head to release, and not before when.
    pub lanes: BTreeMap<String, Until>,
    /// Idempotency keys that are remembered while their messages are pending.
    pub unique: BTreeMap<String, Seen>,
    pub letters: BTreeMap<Sequence, Letter>,
    /// What became of the last messages, the oldest first.
    pub log: Vec<(Sequence, Option<Tombstone>)>,
    /// The last sequences of the keys that were used last and have nothing pending.
    pub previous: BTreeMap<&'static str, Sequence>,
    /// No key was forgotten, so one that is not among them had no message yet.
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
        self.messages.values().filter(|message| message.order.is_some()).count() as u64
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

    /// The first message of a lane that is not finished.
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

/// What was stamped under an idempotency key.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Seen {
    pub epoch: u64,
    pub sequence: Sequence,
    pub body: String,
    pub until: Until,
}

/// The identity of the Redis server, as it is noted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Server {
    /// None is noted any more: what was noted was forgotten.
    Unknown,
    /// The one that answers.
    This,
    /// Another one: this one may have forgotten something.
    Other,
}

/// The answer that is kept of a caller's last call.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Kept {
    Whole(super::op::Reply),
    /// Of a claim, which messages; what they hold is read again.
    Claimed {
        name: Name,
        sequences: Vec<Sequence>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct State {
    pub server: Server,
    pub epoch: u64,
    /// The highest epoch that a message of a removed destination can have carried.
    pub removed_epoch: u64,
    /// The highest epoch that there ever was. Redis may forget it; its clock does not.
    pub epoch_max: u64,
    pub takeover_wait: Option<Until>,
    /// The length of an owner's lease is noted.
    pub lease_noted: bool,
    pub owner: Option<(usize, Until)>,
    pub destinations: BTreeMap<Name, Destination>,
    pub seen: BTreeMap<(Name, String), Seen>,
    pub active_builtin: BTreeSet<Name>,
    pub active_worker: BTreeSet<Name>,
    pub releasable: BTreeMap<Name, Until>,
    pub calls: BTreeMap<usize, (u64, Kept)>,
    /// The index of all destinations: their versions, what is paused, and how often it has changed.
    pub index: BTreeMap<Name, (u64, &'static str)>,
    pub revision: u64,
    /// Which name changed last at which revision; those that are gone; and the last that is forgotten.
    pub changes: BTreeMap<Name, u64>,
    pub removed: BTreeMap<Name, u64>,
    pub floor: u64,
    /// The last version that was given to a definition.
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
            active_builtin: BTreeSet::new(),
            active_worker: BTreeSet::new(),
            releasable: BTreeMap::new(),
            calls: BTreeMap::new(),
            index: BTreeMap::new(),
            revision: 0,
            changes: BTreeMap::new(),
            removed: BTreeMap::new(),
            floor: 0,
            version: 0,
        }
    }
}

impl State {
    /// The index holds this of a name from now on: its version and what is paused.
    pub fn note_change(&mut self, name: Name, entry: (u64, &'static str)) {
        self.revision += 1;
        self.changes.insert(name, self.revision);
        self.index.insert(name, entry);
        self.removed.remove(name);
    }

    /// A name is gone. With more removed names than may be remembered, the oldest is forgotten.
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

    /// Goes up above every epoch that there ever was.
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
