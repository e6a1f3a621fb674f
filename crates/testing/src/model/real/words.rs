//! Translates between the model's types and the store's.

use domain::{
    Arrival, AttemptError, Body, Due, ErrorKind, LeaseToken, Message, OutOfLine, Position, Redrive,
    Source, Stage, Stamped, Tombstone,
};
use store::{
    CallSequence, Completion, INLINE_MAX, Ingested as StoreIngested, LaneRequest as StoreRequest,
    LogEntry, Owner, Settled, StoreError,
};

use super::{LONG, Real};
use crate::model::{
    op::{self, Call, Given, Ingested, LaneRequest, Output, POSITIONS, Refusal, Token},
    state::{Key, Left, Name, Until},
};

/// A time that is not reached while a test runs.
const FAR_MS: u64 = 9_999_999_999_999;

pub fn until(wait: std::time::Duration) -> Until {
    if wait.is_zero() { Until::Past } else { Until::Future }
}

pub fn wait(until: Until) -> std::time::Duration {
    match until {
        Until::Past => std::time::Duration::ZERO,
        Until::Future => LONG,
    }
}

pub fn message(key: Key, body: &str) -> Message {
    Message {
        id: "m".into(),
        key: key.map(str::to_owned),
        headers: Vec::new(),
        body: Body { content_type: "text/plain".into(), bytes: body.to_owned().into() },
        received_ms: 0,
    }
}

impl Real {
    pub(super) fn refusal(&self, error: StoreError) -> Refusal {
        match error {
            StoreError::StaleEpoch(epoch) => Refusal::StaleEpoch(self.epoch(epoch)),
            StoreError::StaleDefinition => Refusal::StaleDefinition,
            StoreError::UnknownDestination => Refusal::UnknownDestination,
            StoreError::StaleCall => Refusal::StaleCall,
            StoreError::LateCall(_) => Refusal::LateCall,
            StoreError::NotOwner => Refusal::NotOwner,
            StoreError::Owned(_) => Refusal::Owned,
            StoreError::TakeoverWait(_) => Refusal::TakeoverWait,
            StoreError::WrongHead => Refusal::WrongHead,
            StoreError::WrongState(_) => Refusal::WrongState,
            StoreError::BeingRemoved => Refusal::BeingRemoved,
            StoreError::OutOfMemory => Refusal::OutOfMemory,
            other => Refusal::Other(other.to_string()),
        }
    }

    /// A caller whose next call has this number.
    pub(super) fn caller(&self, call: &Call) -> CallSequence {
        let caller = self.store.call_sequence(&format!("caller{}", call.caller));
        let is_late = self.late.get(&call.caller).is_some_and(|upto| call.number <= *upto);
        // A late call keeps its old number.
        caller.set_number(if is_late { call.number } else { self.calls_from + call.number });
        caller
    }

    pub(super) fn owner(&self, who: usize, epoch: u64) -> Owner {
        Owner { token: self.owners[who].clone(), epoch: self.actual_epoch(epoch) }
    }

    pub(super) fn token(&self, name: Name, token: &Token) -> LeaseToken {
        LeaseToken {
            destination: name.parse().unwrap(),
            sequence: token.sequence,
            secret: self.secrets.get(&token.secret).unwrap_or(&token.secret).as_str().into(),
            key: token.key.map(str::to_owned),
            claimed_ms: 0,
        }
    }

    pub(super) fn completion(&self, name: Name, token: &Token, output: &Output) -> Completion {
        let position =
            Position { epoch: self.actual_epoch(output.epoch), sequence: token.sequence };
        let (name_of, body) = (name.parse().unwrap(), message(output.key, &output.body));
        // A claimed message is unchanged since its arrival. A repair counts an unreadable message with 0 bytes, but its
        // processor has read it before, and may know of a body out of line.
        let may_be_long = output.accounted_bytes == 0 || output.accounted_bytes > INLINE_MAX as u64;
        let stamped = Stamped {
            tombstone: output.dropped.then_some(Tombstone::Dropped),
            priority: output.priority,
            accounted_bytes: output.accounted_bytes,
            idempotency_key: output.idempotency_key.clone(),
            options: output.options,
            out_of_line: OutOfLine {
                body: may_be_long.then_some(output.accounted_bytes),
                input: None,
            },
            ..Stamped::new(name_of, position, output.previous, body)
        };
        let is_unchanged = output.is_unchanged;
        Completion { token: self.token(name, token), output: stamped, is_unchanged }
    }

    pub(super) fn ingested(&self, result: StoreIngested) -> Ingested {
        let position = |position: Position| (self.epoch(position.epoch), position.sequence);
        match result {
            StoreIngested::Stamped(at) => {
                let (epoch, sequence) = position(at);
                Ingested::Stamped { epoch, sequence }
            }
            StoreIngested::Duplicate(at, _) if at.sequence == 0 => {
                Ingested::Duplicate { epoch: 0, sequence: 0 }
            }
            StoreIngested::Duplicate(at, _) => {
                let (epoch, sequence) = position(at);
                Ingested::Duplicate { epoch, sequence }
            }
            StoreIngested::Conflict => Ingested::Conflict,
            StoreIngested::BacklogFull => Ingested::BacklogFull,
            StoreIngested::Gone => Ingested::Gone,
            StoreIngested::SourceGap(mark) => {
                let of = |mark: String| {
                    POSITIONS.iter().position(|one| *one == mark).expect("a position")
                };
                Ingested::SourceGap(mark.map(of))
            }
            StoreIngested::SourcesFull => Ingested::SourcesFull,
            StoreIngested::Damaged => panic!("no idempotency key is damaged here"),
        }
    }

    pub fn given(&self, message: &Stamped) -> Given {
        let keys = ["a", "b", "{x}:y"];
        let key = message.message.key.as_deref();
        let attempts = &message.attempts;
        Given {
            sequence: message.position.sequence,
            epoch: self.epoch(message.position.epoch),
            previous: message.previous,
            key: key.map(|key| *keys.iter().find(|known| **known == key).unwrap_or(&"?")),
            body: String::from_utf8_lossy(&message.message.body.bytes).into_owned(),
            priority: message.priority,
            accounted_bytes: message.accounted_bytes,
            idempotency_key: message.idempotency_key.clone(),
            options: message.options,
            tombstone: message.tombstone,
            is_damaged: message.damaged.is_some() && message.tombstone.is_none(),
            left: Left {
                failed: attempts.failed,
                stalls: attempts.stalls,
                checkpoint: attempts.checkpoint.clone(),
                errors: attempts.errors.iter().map(|(_, error)| error.kind).collect(),
                together: attempts.together,
                stalls_alone: attempts.stalls_alone,
                saved: attempts.checkpoint_ms > 0,
                asked_later: attempts.asked_later,
                waits_for_later: attempts.waits_for_later,
            },
        }
    }
}

pub fn error(stage: Stage, kind: ErrorKind) -> AttemptError {
    AttemptError::new(stage, kind, "said no")
}

pub fn arrival(arrival: &op::Arrival, name: Name, letter_epoch: u64) -> Arrival {
    let plain = message(arrival.key, &arrival.body);
    let redrive = arrival.redrive.map(|redrive| {
        let position = Position { epoch: letter_epoch, sequence: redrive.letter };
        let stamped = Stamped {
            accounted_bytes: arrival.accounted_bytes,
            ..Stamped::new(name.parse().unwrap(), position, 0, plain.clone())
        };
        let processed = redrive.processed.then(|| Box::new(stamped));
        Redrive { letter: position, processed }
    });
    Arrival {
        idempotency_key: arrival.idempotency_key.clone(),
        due: arrival.due.map(|due| match due {
            op::Due::After(until) => Due::After(wait(until).as_millis() as u64),
            op::Due::At(Until::Past) => Due::At(1),
            op::Due::At(Until::Future) => Due::At(FAR_MS),
        }),
        priority: arrival.priority,
        options: arrival.options,
        source: arrival.source.map(source).map(Box::new),
        redrive,
        ..Arrival::of(plain)
    }
}

fn source(source: op::Source) -> Source {
    let position = |at: usize| POSITIONS[at].to_owned();
    Source {
        name: format!("source {}", source.name),
        position: position(source.position),
        after: source.after.map(position),
        skip: source.skips,
    }
}

pub fn request(request: &LaneRequest, with_log: bool) -> StoreRequest {
    let count = |what| request.settled.iter().filter(|gone| gone.tombstone == Some(what)).count();
    let entries = request.settled.iter().filter(|_| with_log).map(|gone| {
        let stamped = message(None, "");
        let position = Position { epoch: 1, sequence: gone.sequence };
        let stamped = Stamped {
            tombstone: gone.tombstone,
            ..Stamped::new("any".parse().unwrap(), position, 0, stamped)
        };
        (gone.sequence, LogEntry::of(&stamped, 0, 0, false))
    });
    let settled = Settled {
        upto: request.settled_to,
        count: request.settled.len(),
        dropped: count(Tombstone::Dropped) as u64,
        dead_lettered: count(Tombstone::DeadLettered) as u64,
        cancelled: count(Tombstone::Cancelled) as u64,
        bytes: request.settled.iter().map(|gone| gone.accounted_bytes).sum(),
        log: entries.collect(),
        bodies: request
            .settled
            .iter()
            .filter(|gone| gone.is_out_of_line)
            .map(|gone| gone.sequence.to_string())
            .collect(),
        idempotency_keys: request
            .settled
            .iter()
            .filter_map(|gone| gone.idempotency_key.clone())
            .collect(),
    };
    let (held_upto, limit) = (request.held_upto, request.limit);
    StoreRequest { key: request.lane.name(), settled, held_upto, limit }
}
