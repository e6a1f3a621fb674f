//! What a partition is: destinations, their messages, and where each message stands.
//!
//! The model says of each message where it is, once; Redis keeps that as membership in several
//! keys. Time is only before or after now. Epochs and versions are counted from 1: the real ones
//! are instants, of which only the order matters.

use std::collections::{BTreeMap, BTreeSet};

use reseq::{
    domain::{Ordering, Sequence, TransformKind},
    store::Claimers,
};

/// The destinations of the model.
pub const NAMES: [&str; 3] = ["alpha", "beta", "gamma"];

pub type Name = &'static str;
/// A lane's key; none for the destination's own lane.
pub type Lane = Option<&'static str>;

/// A deadline, seen from now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Until {
    Past,
    Future,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Definition {
    pub ordering: Ordering,
    pub kind: TransformKind,
    pub max_backlog: u64,
}

impl Definition {
    pub fn claimers(&self) -> Claimers {
        match self.kind {
            TransformKind::Worker => Claimers::Worker,
            _ => Claimers::Builtin,
        }
    }

    pub fn lane_of(&self, key: Lane) -> Lane {
        match self.ordering {
            Ordering::Destination => None,
            Ordering::Key => Some(key.unwrap_or_default()),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stand {
    Waiting,
    Leased { secret: String, until: Until },
    Delayed { until: Until },
    Ready,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    pub epoch: u64,
    pub previous: Sequence,
    pub key: Lane,
    pub body: String,
    pub tombstone: bool,
    pub attempts: u64,
    pub stand: Stand,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destination {
    pub version: u64,
    pub definition: Definition,
    /// The epoch in which it was made.
    pub born: u64,
    pub deleted: bool,
    pub last: Sequence,
    pub delivered: u64,
    pub dropped: u64,
    pub messages: BTreeMap<Sequence, Message>,
    /// Those that are waiting, in the order in which they will be claimed.
    pub waiting: Vec<Sequence>,
    /// Where lanes are keys: which may have a head to release, and not before when.
    pub lanes: BTreeMap<&'static str, Until>,
}

impl Destination {
    pub fn pending(&self) -> u64 {
        self.messages.len() as u64
    }

    /// The messages of a lane, in order.
    pub fn lane(&self, lane: Lane) -> impl DoubleEndedIterator<Item = (Sequence, &Message)> {
        let of_lane = move |message: &Message| self.definition.lane_of(message.key) == lane;
        let all = self.messages.iter().map(|(sequence, message)| (*sequence, message));
        all.filter(move |(_, message)| of_lane(message))
    }

    pub fn head(&self, lane: Lane) -> Option<(Sequence, &Message)> {
        self.lane(lane).next()
    }

    pub fn lanes_in_use(&self) -> BTreeSet<Lane> {
        self.messages.values().map(|message| self.definition.lane_of(message.key)).collect()
    }

    pub fn count(&self, is: impl Fn(&Stand) -> bool) -> u64 {
        self.messages.values().filter(|message| is(&message.stand)).count() as u64
    }
}

/// What was stamped under an idempotency key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    pub epoch: u64,
    pub sequence: Sequence,
    pub body: String,
    pub until: Until,
}

/// The identity of the Redis server, as it is noted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Server {
    #[default]
    Unknown,
    /// The one that answers.
    This,
    /// Another one: this one may have forgotten something.
    Other,
}

/// The answer that is kept of a caller's last call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kept {
    Whole(super::op::Reply),
    /// Of a claim, which messages; what they hold is read again.
    Claimed {
        name: Name,
        sequences: Vec<Sequence>,
    },
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct State {
    pub server: Server,
    pub epoch: u64,
    pub quarantine: Option<Until>,
    pub owner: Option<(usize, Until)>,
    pub destinations: BTreeMap<Name, Destination>,
    pub seen: BTreeMap<(Name, String), Seen>,
    pub active_builtin: BTreeSet<Name>,
    pub active_worker: BTreeSet<Name>,
    pub releasable: BTreeMap<Name, Until>,
    pub calls: BTreeMap<usize, (u64, Kept)>,
    /// The index of all destinations: their versions, and how often it has changed.
    pub index: BTreeMap<Name, u64>,
    pub revision: u64,
    /// The last version that was given to a definition.
    pub version: u64,
}

impl State {
    pub fn active(&mut self, claimers: Claimers) -> &mut BTreeSet<Name> {
        match claimers {
            Claimers::Builtin => &mut self.active_builtin,
            Claimers::Worker => &mut self.active_worker,
        }
    }

    /// What must hold in every state; the first that does not.
    pub fn broken_invariant(&self) -> Option<String> {
        for (name, destination) in &self.destinations {
            let waiting: BTreeSet<Sequence> = destination.waiting.iter().copied().collect();
            let standing = destination.messages.iter();
            let standing = standing.filter(|(_, message)| message.stand == Stand::Waiting);
            if destination.waiting.len() != waiting.len()
                || !standing.map(|(sequence, _)| sequence).eq(&waiting)
            {
                return Some(format!("{name}: each waiting message is to be claimed once"));
            }
            if destination.messages.keys().any(|&sequence| sequence > destination.last) {
                return Some(format!("{name}: a message has a number that was not stamped"));
            }
            let settled = destination.last - destination.pending();
            if settled != destination.delivered + destination.dropped {
                return Some(format!("{name}: ingested is not pending + settled"));
            }
            if !destination.deleted
                && let Some(hint) = self.missing_hint(name, destination)
            {
                return Some(format!("{name}: {hint}"));
            }
        }
        None
    }

    /// Hints may name too many, never too few.
    fn missing_hint(&self, name: Name, destination: &Destination) -> Option<String> {
        let active = match destination.definition.claimers() {
            Claimers::Builtin => &self.active_builtin,
            Claimers::Worker => &self.active_worker,
        };
        if !destination.waiting.is_empty() && !active.contains(name) {
            return Some("its claimers are not told that messages wait".to_owned());
        }
        for lane in destination.lanes_in_use() {
            if destination.head(lane).is_none_or(|(_, head)| head.stand != Stand::Ready) {
                continue;
            }
            let of_destination = self.releasable.get(name);
            let of_lane = match lane {
                None => of_destination,
                Some(key) => destination.lanes.get(key),
            };
            match (of_destination, of_lane) {
                (Some(looked_at), Some(not_before)) if looked_at <= not_before => {}
                _ => return Some(format!("the owner is not told that lane {lane:?} may move")),
            }
        }
        None
    }
}
