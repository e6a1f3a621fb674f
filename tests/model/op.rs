//! What can be asked of a partition, and what it may answer.

use std::collections::BTreeSet;

use reseq::{
    domain::{Sequence, Tombstone},
    store::{INLINE_MAX, Status, Withdrawn},
};

use super::state::{Damage, Definition, Key, Lane, Left, Name, Until};

/// A call that must not be carried out twice: who makes it, and the how-manieth it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Call {
    pub caller: usize,
    pub number: u64,
}

impl Call {
    /// What stands for the secret of the leases that this call claims.
    pub fn secret(&self) -> String {
        format!("caller{}.{}", self.caller, self.number)
    }
}

/// A destination as the caller knows it; not necessarily as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CatalogEntry {
    pub name: Name,
    pub version: u64,
    pub definition: Definition,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Arrival {
    pub key: Key,
    pub idempotency_key: Option<String>,
    pub body: String,
    /// The bytes that it counts for.
    pub accounted_bytes: u64,
    pub due: Option<Due>,
    pub priority: Option<u8>,
    pub redrive: Option<Redrive>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Due {
    After(Until),
    At(Until),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Redrive {
    pub letter: Sequence,
    /// The epoch of its place: it may be of an earlier destination of this name.
    pub epoch: u64,
    /// It is not processed again.
    pub processed: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Token {
    pub sequence: Sequence,
    pub secret: String,
    pub key: Key,
}

/// What processing made of a message; the rest as the claim told it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Output {
    pub epoch: u64,
    pub previous: Option<Sequence>,
    pub key: Key,
    pub priority: u8,
    pub accounted_bytes: u64,
    pub idempotency_key: Option<String>,
    pub body: String,
    pub dropped: bool,
    /// It says nothing but that the message is as it was.
    pub is_unchanged: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Failure {
    pub token: Token,
    pub wait: Until,
    pub is_final: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LaneRequest {
    pub lane: Lane,
    pub settled_to: Sequence,
    /// What has left: the tombstones of each kind, the bytes, the rest of what the owner knows.
    pub settled: Vec<Gone>,
    pub in_hand: Sequence,
    pub want: usize,
}

/// A message that has left.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Gone {
    pub sequence: Sequence,
    pub tombstone: Option<Tombstone>,
    pub accounted_bytes: u64,
    pub idempotency_key: Option<String>,
    /// Its body is stored apart from its record.
    pub is_apart: bool,
    /// It could not be read: it is never delivered.
    pub is_damaged: bool,
}

impl Gone {
    /// A message that was released and has left.
    pub fn of(message: &Given) -> Gone {
        Gone {
            sequence: message.sequence,
            tombstone: message.tombstone,
            accounted_bytes: message.accounted_bytes,
            idempotency_key: message.idempotency_key.clone(),
            is_apart: message.tombstone.is_none() && message.body.len() > INLINE_MAX,
            is_damaged: message.is_damaged,
        }
    }
}

/// A deadline that passes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Deadline {
    Lease {
        name: Name,
        sequence: Sequence,
    },
    Delay {
        name: Name,
        sequence: Sequence,
    },
    Postponed {
        name: Name,
    },
    Owner,
    TakeoverWait,
    Seen {
        name: Name,
        idempotency_key: String,
    },
    /// A dead letter gets too old.
    Letter {
        name: Name,
        sequence: Sequence,
    },
}

/// A lane's head and what came of the attempt at its delivery.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Refused {
    pub who: usize,
    pub epoch: u64,
    pub known: CatalogEntry,
    pub lane: Lane,
    pub sequence: Sequence,
    pub attempts: u32,
}

/// What is done by hand just before a repair, so that sets and records disagree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Harm {
    Nothing,
    /// No hint says any more that there is anything to do.
    Hints,
    /// What waits is listed nowhere.
    Waiting,
    /// Counters count something else.
    Counters,
    /// A message stands among the delayed, too.
    Twice(Sequence),
    /// Traces of messages that are not there, and a body of one.
    LeftOver,
    /// Dead letters that are there are not listed, and the other way round.
    Letters,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Op {
    Ingest {
        call: Call,
        known: CatalogEntry,
        epoch: u64,
        arrivals: Vec<Arrival>,
    },
    Claim {
        call: Call,
        known: CatalogEntry,
        min: usize,
        max: usize,
    },
    Complete {
        call: Call,
        known: CatalogEntry,
        items: Vec<(Token, Output)>,
    },
    Fail {
        call: Call,
        known: CatalogEntry,
        items: Vec<Failure>,
    },
    Requeue {
        call: Call,
        known: CatalogEntry,
        tokens: Vec<Token>,
    },
    /// Each with its checkpoint, if any.
    Extend {
        known: CatalogEntry,
        items: Vec<(Token, Option<String>)>,
    },
    /// With all leases and delays of the destination as hints, over or not.
    Reap {
        known: CatalogEntry,
    },
    /// A look for what is over.
    Overdue,
    AcquirePartition {
        who: usize,
    },
    ResignPartition {
        who: usize,
        /// It vouches that no sender from before this epoch sends any more.
        vouched: Option<u64>,
    },
    Release {
        who: usize,
        epoch: u64,
        known: CatalogEntry,
        lanes: Vec<LaneRequest>,
    },
    Postpone {
        refused: Refused,
        wait: Until,
    },
    Halt {
        refused: Refused,
    },
    /// By a stranger, or by who takes itself for the owner.
    Withdraw {
        who: Option<usize>,
        known: CatalogEntry,
        how: Tombstone,
        /// Failed attempts at delivery, if that is the reason.
        failed: Option<u32>,
        messages: Vec<(Lane, Sequence)>,
    },
    Retry {
        known: CatalogEntry,
        lane: Lane,
        sequence: Sequence,
        repaired: Option<String>,
    },
    Discard {
        known: CatalogEntry,
        letters: Vec<Sequence>,
    },
    /// Dead letters go that are too old.
    Expire {
        known: CatalogEntry,
    },
    /// What is to become of messages whose attempts at processing are used up.
    GiveUp {
        known: CatalogEntry,
    },
    /// By hand, in Redis.
    Damage {
        name: Name,
        sequence: Sequence,
        damage: Damage,
    },
    /// After this harm: a look that changes nothing, a repair, and another look that finds nothing.
    Repair {
        known: CatalogEntry,
        harm: Harm,
    },
    /// `""`, `"ingest"`, `"delivery"` or both.
    Pause {
        name: Name,
        paused: &'static str,
    },
    Define {
        name: Name,
        definition: Definition,
    },
    /// The first step of a removal that then breaks off.
    BeginRemove {
        name: Name,
    },
    /// The last step of a removal that had broken off, or was slow, after its first.
    EndRemove {
        name: Name,
    },
    Remove {
        name: Name,
        purge: bool,
    },
    /// Removed with what is pending, and made again at once.
    Remake {
        name: Name,
        definition: Definition,
    },
    /// Another server process answers from here on.
    Restart,
    /// Redis forgets which epoch it is.
    LoseEpoch,
    Pass(Deadline),
    ScriptFlush,
}

impl Op {
    pub fn call(&self) -> Option<Call> {
        match self {
            Op::Ingest { call, .. }
            | Op::Claim { call, .. }
            | Op::Complete { call, .. }
            | Op::Fail { call, .. }
            | Op::Requeue { call, .. } => Some(*call),
            _ => None,
        }
    }

    /// The same under the number before.
    pub fn late(mut self) -> Op {
        match &mut self {
            Op::Ingest { call, .. }
            | Op::Claim { call, .. }
            | Op::Complete { call, .. }
            | Op::Fail { call, .. }
            | Op::Requeue { call, .. } => call.number -= 1,
            _ => {}
        }
        self
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ingested {
    Stamped { epoch: u64, sequence: Sequence },
    Duplicate { epoch: u64, sequence: Sequence },
    Conflict,
    BacklogFull,
    Gone,
}

/// A message as a processor or the sender gets it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Given {
    pub sequence: Sequence,
    pub epoch: u64,
    pub previous: Option<Sequence>,
    pub key: Key,
    pub body: String,
    pub priority: u8,
    pub accounted_bytes: u64,
    pub idempotency_key: Option<String>,
    pub tombstone: Option<Tombstone>,
    pub left: Left,
    pub is_damaged: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Run {
    pub wait: Until,
    pub messages: Vec<Given>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Refusal {
    StaleEpoch(u64),
    StaleDefinition,
    UnknownDestination,
    StaleCall,
    NotOwner,
    Owned,
    TakeoverWait,
    WrongHead,
    WrongState,
    OutOfMemory,
    /// Nothing that the model knows.
    Other(String),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Reply {
    Ingested(Vec<Ingested>),
    Claimed(Vec<Given>),
    Statuses(Vec<Status>),
    Reaped {
        leases: usize,
        delays: usize,
        halted: usize,
    },
    /// Sequences of leases and of delays that are over, by destination.
    Overdue(Vec<(Name, Vec<Sequence>, Vec<Sequence>)>),
    Owned {
        epoch: u64,
        takeover_wait: Until,
    },
    Resigned {
        was_owned: bool,
        epoch: u64,
    },
    Runs {
        withdrawals: u64,
        runs: Vec<Run>,
    },
    Withdrawn(Vec<Withdrawn>),
    /// True if it waits to be processed now; false if it is ready.
    Retried {
        waits: bool,
    },
    Discarded(u64),
    Expired(u64),
    GivenUp(usize),
    /// The kinds of what was found, and repaired.
    Repaired(BTreeSet<String>),
    Paused {
        changed: bool,
    },
    Defined {
        version: u64,
        changed: bool,
        created: bool,
    },
    Removed {
        purged: u64,
    },
    Done,
    Refused(Refusal),
}
