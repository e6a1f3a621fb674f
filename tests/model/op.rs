//! What can be asked of a partition, and what it may answer.

use reseq::{domain::Sequence, store::Status};

use super::state::{Definition, Lane, Name, Until};

/// A call that must not be carried out twice: who makes it, and the how-manieth it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    pub name: Name,
    pub version: u64,
    pub definition: Definition,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrival {
    pub key: Lane,
    pub idempotency_key: Option<String>,
    pub body: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    pub sequence: Sequence,
    pub secret: String,
    pub key: Lane,
}

/// What processing made of a message; its place and its key as the claim told them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    pub epoch: u64,
    pub previous: Sequence,
    pub key: Lane,
    pub body: String,
    pub tombstone: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneRequest {
    pub lane: Lane,
    pub settled_to: Sequence,
    pub tombstones: u64,
    pub in_hand: Sequence,
    pub want: usize,
}

/// A deadline that passes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Deadline {
    Lease { name: Name, sequence: Sequence },
    Delay { name: Name, sequence: Sequence },
    Postponed { name: Name },
    Owner,
    Quarantine,
    Seen { name: Name, idempotency_key: String },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    Ingest {
        call: Call,
        known: Known,
        epoch: u64,
        arrivals: Vec<Arrival>,
    },
    Claim {
        call: Call,
        known: Known,
        max: usize,
    },
    Complete {
        call: Call,
        known: Known,
        items: Vec<(Token, Output)>,
    },
    Fail {
        call: Call,
        known: Known,
        items: Vec<(Token, Until)>,
    },
    Unclaim {
        call: Call,
        known: Known,
        tokens: Vec<Token>,
    },
    Extend {
        known: Known,
        tokens: Vec<Token>,
    },
    /// With all leases and delays of the destination as hints, over or not.
    Reap {
        known: Known,
    },
    /// A look for what is over.
    Overdue,
    Own {
        who: usize,
    },
    Disown {
        who: usize,
    },
    Release {
        who: usize,
        epoch: u64,
        known: Known,
        lanes: Vec<LaneRequest>,
    },
    Postpone {
        who: usize,
        epoch: u64,
        known: Known,
        lane: Lane,
        sequence: Sequence,
        attempts: u64,
        wait: Until,
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
    /// Another server process answers from here on.
    Restart,
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
            | Op::Unclaim { call, .. } => Some(*call),
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
            | Op::Unclaim { call, .. } => call.number -= 1,
            _ => {}
        }
        self
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ingested {
    Stamped { epoch: u64, sequence: Sequence },
    Duplicate { epoch: u64, sequence: Sequence },
    Conflict,
    BacklogFull,
}

/// A message as a processor or the sender gets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given {
    pub sequence: Sequence,
    pub epoch: u64,
    pub previous: Sequence,
    pub key: Lane,
    pub body: String,
    pub tombstone: bool,
    pub attempts: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    pub wait: Until,
    pub messages: Vec<Given>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    StaleEpoch(u64),
    StaleDefinition,
    UnknownDestination,
    StaleCall,
    NotOwner,
    Owned,
    Quarantine,
    WrongHead,
    WrongState,
    OutOfMemory,
    /// Nothing that the model knows.
    Other(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    Ingested(Vec<Ingested>),
    Claimed(Vec<Given>),
    Statuses(Vec<Status>),
    Reaped {
        leases: usize,
        delays: usize,
    },
    /// Sequences of leases and of delays that are over, by destination.
    Overdue(Vec<(Name, Vec<Sequence>, Vec<Sequence>)>),
    Owned {
        epoch: u64,
        quarantine: Until,
    },
    Disowned(bool),
    Runs(Vec<Run>),
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
