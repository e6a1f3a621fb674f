//! The operations on a partition, and their possible answers.

use std::collections::BTreeSet;

use domain::{ProcessingOptions, Sequence, Tombstone};
use store::{INLINE_MAX, Status, Withdrawn};

use super::state::{Damage, Definition, Key, Lane, Left, Name, Until};

/// A call that must not run twice: its caller and its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Call {
    pub caller: usize,
    pub number: u64,
}

impl Call {
    /// The secret that the model gives to the leases of this claim.
    pub fn secret(&self) -> String {
        format!("caller{}.{}", self.caller, self.number)
    }
}

/// The caller's view of a destination, which may be outdated.
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
    /// Its accounted bytes.
    pub accounted_bytes: u64,
    pub due: Option<Due>,
    pub priority: Option<u8>,
    pub redrive: Option<Redrive>,
    pub options: ProcessingOptions,
    pub source: Option<Source>,
}

/// Where a message comes from. Positions are indexes of [`POSITIONS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Source {
    pub name: u8,
    pub position: usize,
    pub after: Option<usize>,
    pub skips: bool,
}

/// In the order of their bytes.
pub const POSITIONS: [&str; 8] = ["1", "10", "2", "A", "a", "aa", "ab", "b"];

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Due {
    After(Until),
    At(Until),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Redrive {
    pub letter: Sequence,
    /// The epoch of its position, perhaps of an earlier destination of this name.
    pub epoch: u64,
    /// True if the message is not processed again.
    pub processed: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Token {
    pub sequence: Sequence,
    pub secret: String,
    pub key: Key,
}

/// The output of processing. The other fields are as the claim returned them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Output {
    pub epoch: u64,
    pub previous: Option<Sequence>,
    pub key: Key,
    pub priority: u8,
    pub accounted_bytes: u64,
    pub idempotency_key: Option<String>,
    pub options: ProcessingOptions,
    pub body: String,
    pub dropped: bool,
    /// True if the output equals the input.
    pub is_unchanged: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Failure {
    pub token: Token,
    /// `None`: it was the last attempt.
    pub wait: Option<Until>,
    /// True if the processor asks for the message later.
    pub is_later: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Extension {
    pub token: Token,
    pub checkpoint: Option<String>,
    /// True if the message was claimed longer ago than an attempt may take.
    pub is_long_ago: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LaneRequest {
    pub lane: Lane,
    pub settled_to: Sequence,
    /// The messages that left, with what the owner knows about them.
    pub settled: Vec<Gone>,
    pub held_upto: Sequence,
    pub limit: usize,
}

/// A message that has left.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Gone {
    pub sequence: Sequence,
    pub tombstone: Option<Tombstone>,
    pub accounted_bytes: u64,
    pub idempotency_key: Option<String>,
    /// Its body is stored out of line from its record.
    pub is_out_of_line: bool,
    /// It was unreadable, so it is never delivered.
    pub is_damaged: bool,
}

impl Gone {
    /// A released message that has left.
    pub fn of(message: &Given) -> Gone {
        Gone {
            sequence: message.sequence,
            tombstone: message.tombstone,
            accounted_bytes: message.accounted_bytes,
            idempotency_key: message.idempotency_key.clone(),
            is_out_of_line: message.tombstone.is_none() && message.body.len() > INLINE_MAX,
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
    /// The calls of a caller up to this number must no longer run.
    Calls {
        caller: usize,
        upto: u64,
    },
    Owner,
    TakeoverWait,
    Seen {
        name: Name,
        idempotency_key: String,
    },
    /// The time that claims have used of a rate.
    Rate {
        name: Name,
    },
    /// The clock steps back, so that claims seem to have used more than a rate allows.
    RateAhead {
        name: Name,
    },
    /// So many bytes of results are kept that there is no room for more: of a destination, or (`*`) of all.
    ResultsFull {
        name: Name,
    },
    /// A dead letter exceeds the age limit.
    Letter {
        name: Name,
        sequence: Sequence,
    },
}

/// A lane's head and the result of its delivery attempt.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Refused {
    pub who: usize,
    pub epoch: u64,
    pub known: CatalogEntry,
    pub lane: Lane,
    pub sequence: Sequence,
    pub attempts: u32,
}

/// Manual changes in Redis before a repair, to create contradictions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Harm {
    Nothing,
    /// Removes all hints.
    Hints,
    /// Removes all waiting messages from the list.
    Waiting,
    /// Changes the counters.
    Counters,
    /// Also adds a message to the delayed messages.
    Twice(Sequence),
    /// Adds traces of messages that do not exist.
    LeftOver,
    /// Removes list entries of dead letters, and adds entries for missing ones.
    Letters,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Op {
    Ingest {
        call: Call,
        known: CatalogEntry,
        epoch: u64,
        arrivals: Vec<Arrival>,
        /// The caller processes at once what nobody waits before.
        leases: bool,
    },
    Claim {
        call: Call,
        known: CatalogEntry,
        min: usize,
        max: usize,
    },
    Complete {
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
    /// Extends each lease, with its checkpoint if there is one.
    Extend {
        known: CatalogEntry,
        items: Vec<Extension>,
    },
    /// Reaps with all leases and delays of the destination as hints, expired or not.
    Reap {
        known: CatalogEntry,
    },
    /// A query of expired leases and delays.
    Overdue,
    AcquirePartition {
        who: usize,
    },
    ResignPartition {
        who: usize,
        /// Vouches that no sender from before this epoch still sends.
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
    /// Withdrawn by an operator (`None`), or by a caller that believes it is the owner.
    Withdraw {
        who: Option<usize>,
        known: CatalogEntry,
        how: Tombstone,
        /// Failed delivery attempts, if that is the reason.
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
    /// Removes dead letters that exceed the age limit.
    Expire {
        known: CatalogEntry,
    },
    /// Applies `on_exhausted` to messages that used up their processing attempts.
    GiveUp {
        known: CatalogEntry,
    },
    /// Manual damage in Redis.
    Damage {
        name: Name,
        sequence: Sequence,
        damage: Damage,
    },
    /// Does this harm, then a dry run that changes nothing, a repair, and a dry run that finds nothing.
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
    /// The first step of an interrupted removal.
    BeginRemove {
        name: Name,
    },
    /// The last step of a removal that was interrupted or slow after its first.
    EndRemove {
        name: Name,
    },
    Remove {
        name: Name,
        purge: bool,
    },
    /// Removes the destination with all pending messages, and creates it again at once.
    Remake {
        name: Name,
        definition: Definition,
    },
    /// Another server process answers from here on.
    Restart,
    /// Redis loses the stored epoch.
    LoseEpoch,
    Pass(Deadline),
    ScriptFlush,
}

impl Op {
    pub fn call(&self) -> Option<Call> {
        match self {
            Op::Ingest { call, .. }
            | Op::Claim { call, .. }
            | Op::Fail { call, .. }
            | Op::Requeue { call, .. } => Some(*call),
            _ => None,
        }
    }

    /// The same operation with the previous call number.
    pub fn late(mut self) -> Op {
        match &mut self {
            Op::Ingest { call, .. }
            | Op::Claim { call, .. }
            | Op::Fail { call, .. }
            | Op::Requeue { call, .. } => call.number -= 1,
            _ => {}
        }
        self
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ingested {
    Stamped {
        epoch: u64,
        sequence: Sequence,
    },
    Duplicate {
        epoch: u64,
        sequence: Sequence,
    },
    Conflict,
    BacklogFull,
    Gone,
    /// With the mark of its source.
    SourceGap(Option<usize>),
    SourcesFull,
}

/// A message as a processor or sender receives it.
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
    pub options: ProcessingOptions,
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
    LateCall,
    NotOwner,
    Owned,
    TakeoverWait,
    WrongHead,
    WrongState,
    BeingRemoved,
    OutOfMemory,
    /// An answer that the model does not know.
    Other(String),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Reply {
    /// With the messages that were leased on arrival.
    Ingested(Vec<Ingested>, Vec<Given>),
    Claimed(Vec<Given>),
    Statuses(Vec<Status>),
    Reaped {
        leases: usize,
        delays: usize,
        halted: usize,
    },
    /// Sequences of expired leases and delays, by destination.
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
        withdrawals: Vec<(Sequence, Tombstone)>,
        runs: Vec<Run>,
    },
    Withdrawn(Vec<Withdrawn>),
    /// True if the message now waits for processing; false if it is ready.
    Retried {
        waits: bool,
    },
    Discarded(u64),
    Expired(u64),
    GivenUp(usize),
    /// The kinds of problems found and repaired.
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
