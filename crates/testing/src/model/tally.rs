//! Counts how often the wanted cases of the test occurred.

mod damage;

use std::collections::BTreeMap;

use domain::{Ordering, Stage, Tombstone};
use store::{Status, Withdrawn};

use super::{
    op::{CatalogEntry, Ingested, Op, Refusal, Reply},
    state::{Destination, Lane, Left, Message, Stand, State, Until},
    transitions::Seen,
};

/// Cases that must occur at least once for the test to be meaningful.
pub const WANTED: &[&str] = &[
    "calls together",
    "takeover wait ended by a vouch",
    "vouched for another epoch",
    "stamped",
    "duplicate",
    "duplicate while pending",
    "key stamped again",
    "conflict",
    "backlog full",
    "backlog full of bytes",
    "backlog full of idempotency keys",
    "dead letter gone",
    "dead letter of another destination",
    "previous remembered",
    "previous unknown",
    "delayed at ingest",
    "held at ingest",
    "held and delayed at ingest",
    "redriven",
    "redriven, processed",
    "claimed",
    "leased on arrival",
    "leased on arrival, ordered by key",
    "claimed by priority",
    "mark moved or position known",
    "duplicate by source",
    "source gap",
    "sources full",
    "fewer than asked for",
    "rests",
    "rest over",
    "suspects claimed",
    "suspects passed",
    "stall of its own",
    "checkpoint given",
    "completed",
    "completed, errors kept",
    "completed, unchanged",
    "result kept",
    "no room for a result",
    "dropped",
    "advanced",
    "advanced to delayed",
    "already settled",
    "stale lease",
    "failed and delayed",
    "failed, to wait at once",
    "last attempt, halted",
    "last attempt, left at once",
    "last attempt, could not leave",
    "five errors",
    "handed back",
    "extended",
    "extended with checkpoint",
    "extended too late",
    "extended late, after a checkpoint",
    "asked for later",
    "asked for later too often",
    "lease ran out",
    "crashed too often",
    "delay over",
    "released",
    "released out of order",
    "released alone after a refusal",
    "released anew after a retry",
    "held back by a withdrawal",
    "held back by a halted head",
    "settled",
    "settled dropped",
    "settled dead_lettered",
    "settled cancelled",
    "logged",
    "log made room",
    "key forgotten",
    "postponed",
    "postponed with a withdrawal",
    "halted in delivery",
    "halted before",
    "withdrawn waiting",
    "withdrawn held",
    "withdrawn delayed",
    "withdrawn ready",
    "withdrawn ready, by nobody's owner",
    "withdrawn halted in transform",
    "withdrawn halted in delivery",
    "withdrawn dropped",
    "withdrawn dead_lettered",
    "withdrawn cancelled",
    "ordered from a processor",
    "ordered from a sender",
    "ordered in takeover wait",
    "ordered by the owner in takeover wait",
    "withdrawal carried out",
    "withdrawal ended by a tombstone",
    "nothing to withdraw",
    "retried in transform",
    "retried in delivery",
    "retried, repaired",
    "retried, delayed",
    "retried, postponed",
    "retried, delayed behind its head",
    "retried, delayed before its turn",
    "discarded",
    "paused",
    "partition taken over",
    "removed with messages pending",
    "made again",
    "born above the epoch of the partition",
    "finished while being removed",
    "ended under an old definition",
    "repeated call",
    "repeated call, after others",
    "STALE_CALL",
    "LATE_CALL",
    "STALE_EPOCH",
    "STALE_DEFINITION",
    "UNKNOWN_DESTINATION",
    "NOT_OWNER",
    "TAKEOVER_WAIT",
    "damaged: its record is missing",
    "damaged: its record cannot be read",
    "damaged: its body is missing",
    "damaged, and claimed",
    "damaged, and handed to a sender",
    "damaged, and halted in delivery",
    "damaged, and withdrawn",
    "damaged, and a dead letter",
    "damaged, and retried",
    "damaged, and completed",
    "damaged, and released beside it",
    "damaged, and removed",
    "dead letters full",
    "dead letters too old",
    "dead letters too young",
    "given up",
    "damaged, and not given up",
    "nothing to repair",
    "repaired: damaged",
    "repaired: hint",
    "repaired: nowhere",
];

/// Refusals that must occur.
pub const WANTED_REFUSALS: [&str; 4] = ["WRONG_STATE", "BEING_REMOVED", "WRONG_HEAD", "OOM"];

/// Counts by name.
#[derive(Debug, Default)]
pub struct Tally {
    counts: BTreeMap<&'static str, usize>,
    pub transitions: Seen,
}

impl Tally {
    pub fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    /// Adds the counts of another tally.
    pub fn add(&mut self, other: Tally) {
        for (what, count) in other.counts {
            *self.counts.entry(what).or_default() += count;
        }
        self.transitions.add(other.transitions);
    }

    fn count_if(&mut self, is: bool, what: &'static str) {
        if is {
            self.count(what);
        }
    }

    /// The wanted cases that never occurred.
    pub fn missing(&self) -> Vec<String> {
        let wanted = WANTED.iter().copied().chain(WANTED_REFUSALS);
        let missing = wanted.filter(|what| !self.counts.contains_key(what)).map(str::to_owned);
        missing.chain(self.transitions.missing()).collect()
    }

    /// Counts the effects of an operation.
    pub fn tell(&mut self, op: &Op, reply: &Reply, before: &State, after: &State) {
        match (op, reply) {
            (_, Reply::Refused(refusal)) => self.count(name_of(refusal)),
            (Op::Ingest { known, .. }, Reply::Ingested(results, leased)) => {
                self.count_if(!leased.is_empty(), "leased on arrival");
                let by_key = known.definition.ordering == Ordering::Key;
                self.count_if(by_key && !leased.is_empty(), "leased on arrival, ordered by key");
                let (before, after) = (destination(before, known), destination(after, known));
                if let (Some(before), Some(after)) = (before, after) {
                    self.tell_ingested(op, results, before, after);
                }
            }
            (Op::Claim { known, .. }, Reply::Claimed(given)) => {
                self.count_if(!given.is_empty(), "claimed");
                let with_checkpoint = given.iter().any(|one| one.left.checkpoint.is_some());
                self.count_if(with_checkpoint, "checkpoint given");
                let by_priority = given.windows(2).any(|two| two[0].sequence > two[1].sequence);
                let none = known.definition.ordering == Ordering::None;
                self.count_if(none && by_priority, "claimed by priority");
                let waits = destination(before, known).is_some_and(|d| !d.waiting.is_empty());
                self.count_if(given.is_empty() && waits, "fewer than asked for");
                let is_suspect = given.iter().any(|one| one.left.together > 0);
                self.count_if(is_suspect, "suspects claimed");
                let rests = |state| destination(state, known).is_some_and(|d| d.rest.is_some());
                self.count_if(rests(after) && !rests(before), "rests");
                let delayed = |state| {
                    destination(state, known).map_or(0, |d| {
                        d.count(|message| matches!(message.stand, Stand::Delayed { .. }))
                    })
                };
                self.count_if(delayed(after) > delayed(before), "suspects passed");
            }
            (op, Reply::Statuses(statuses)) => self.tell_statuses(op, statuses, before, after),
            (_, Reply::Reaped { leases, delays, halted }) => {
                let rests = |state: &State| {
                    state.destinations.values().filter(|d| d.rest.is_some()).count()
                };
                self.count_if(rests(after) < rests(before), "rest over");
                self.count_if(*leases > 0, "lease ran out");
                self.count_if(*delays > 0, "delay over");
                self.count_if(*halted > 0, "crashed too often");
                let mut all = after.destinations.values().flat_map(|d| d.messages.values());
                let is_own = |left: &Left| left.stalls_alone > 1 && left.stalls > 2;
                self.count_if(all.any(|message| is_own(&message.left)), "stall of its own");
            }
            (Op::AcquirePartition { who }, _)
                if before.owner.is_some_and(|(owner, _)| owner != *who) =>
            {
                self.count("partition taken over");
            }
            (Op::ResignPartition { vouched: Some(epoch), .. }, _)
                if before.takeover_wait == Some(Until::Future) =>
            {
                let is_other = *epoch != after.epoch;
                self.count_if(is_other, "vouched for another epoch");
                self.count_if(!is_other, "takeover wait ended by a vouch");
            }
            (Op::Release { known, .. }, Reply::Runs { .. }) => {
                let (before, after) = (destination(before, known), destination(after, known));
                if let (Some(before), Some(after)) = (before, after) {
                    self.tell_released(op, reply, before, after);
                }
            }
            (Op::Postpone { refused, .. }, _) => {
                let known = destination(after, &refused.known);
                self.count("postponed");
                self.count_if(
                    known.is_some_and(|d| d.withdrawals() > 0),
                    "postponed with a withdrawal",
                );
            }
            (Op::Halt { .. }, _) => {
                self.count(if before == after { "halted before" } else { "halted in delivery" });
            }
            (Op::Withdraw { known, .. }, Reply::Withdrawn(outcomes)) => {
                if let Some(found) = destination(before, known) {
                    self.tell_withdrawn(op, outcomes, before, found);
                }
            }
            (Op::Retry { known, sequence, repaired, .. }, Reply::Retried { .. }) => {
                let found = destination(before, known).and_then(|d| d.messages.get(sequence));
                self.count_if(repaired.is_some(), "retried, repaired");
                match found.map(|message| &message.stand) {
                    Some(Stand::Halted(Stage::Transform)) => self.count("retried in transform"),
                    Some(Stand::Halted(Stage::Delivery)) => self.count("retried in delivery"),
                    Some(Stand::Held { .. }) => self.count("retried, delayed before its turn"),
                    Some(Stand::Delayed { .. }) => {
                        let leads =
                            destination(before, known).is_some_and(|d| d.is_head(*sequence));
                        self.count_if(!leads, "retried, delayed behind its head");
                        self.count("retried, delayed");
                    }
                    _ => self.count_if(before != after, "retried, postponed"),
                }
            }
            (_, Reply::Discarded(1..)) => self.count("discarded"),
            (_, Reply::Expired(1..)) => self.count("dead letters too old"),
            (Op::Expire { known }, Reply::Expired(0)) => {
                let kept =
                    destination(before, known).is_some_and(|found| !found.letters.is_empty());
                self.count_if(kept, "dead letters too young");
            }
            (_, Reply::Paused { changed: true }) => self.count("paused"),
            (Op::Remove { .. } | Op::EndRemove { .. }, Reply::Removed { purged: 1.. }) => {
                self.count("removed with messages pending");
            }
            (Op::Define { .. }, Reply::Defined { created: true, .. }) if before.revision > 3 => {
                self.count("made again");
                let Op::Define { name, .. } = op else { return };
                self.count_if(
                    after.carried(name) > after.epoch,
                    "born above the epoch of the partition",
                );
            }
            _ => {}
        }
        self.tell_damage(op, reply, before, after);
        self.tell_state(before, after);
    }

    fn tell_state(&mut self, before: &State, after: &State) {
        for (name, destination) in &after.destinations {
            let old = before.destinations.get(name);
            for (sequence, message) in &destination.messages {
                self.count_if(message.left.errors.len() == 5, "five errors");
                let stood = old.and_then(|old| old.messages.get(sequence)).map(|m| &m.stand);
                if matches!(stood, Some(Stand::Held { .. })) {
                    self.count_if(message.stand == Stand::Waiting, "advanced");
                    let delayed = matches!(message.stand, Stand::Delayed { .. });
                    self.count_if(delayed, "advanced to delayed");
                }
            }
        }
    }

    fn tell_ingested(
        &mut self,
        op: &Op,
        results: &[Ingested],
        before: &Destination,
        after: &Destination,
    ) {
        let Op::Ingest { arrivals, .. } = op else { return };
        let definition = after.definition;
        for (arrival, result) in arrivals.iter().zip(results) {
            self.count(match result {
                Ingested::Stamped { .. } => "stamped",
                Ingested::Duplicate { sequence: 0, .. }
                    if arrival.source.is_some_and(|source| source.skips) =>
                {
                    "mark moved or position known"
                }
                Ingested::Duplicate { sequence: 0, .. } => "duplicate by source",
                Ingested::SourceGap(_) => "source gap",
                Ingested::SourcesFull => "sources full",
                Ingested::Duplicate { .. } if !definition.has_window => "duplicate while pending",
                Ingested::Duplicate { .. } => "duplicate",
                Ingested::Conflict => "conflict",
                Ingested::BacklogFull
                    if definition.has_window
                        && arrival.idempotency_key.is_some()
                        && after.remembered >= definition.idempotency_keys_max =>
                {
                    "backlog full of idempotency keys"
                }
                Ingested::BacklogFull if after.pending() < definition.backlog_max => {
                    "backlog full of bytes"
                }
                Ingested::BacklogFull => "backlog full",
                Ingested::Gone if arrival.redrive.is_some_and(|r| r.epoch < after.born) => {
                    "dead letter of another destination"
                }
                Ingested::Gone => "dead letter gone",
            });
            let Ingested::Stamped { sequence, .. } = result else { continue };
            let previous = after.messages.get(sequence).and_then(|message| message.previous);
            let is_remembered = |last: &u64| previous == Some(*last);
            self.count_if(previous.is_none(), "previous unknown");
            self.count_if(before.previous.values().any(is_remembered), "previous remembered");
            match after.messages.get(sequence).map(|message| &message.stand) {
                Some(Stand::Delayed { .. }) => self.count("delayed at ingest"),
                Some(Stand::Held { delayed: true }) => self.count("held and delayed at ingest"),
                Some(Stand::Held { .. }) => self.count("held at ingest"),
                _ => {}
            }
            self.count_if(arrival.redrive.is_some_and(|r| !r.processed), "redriven");
            self.count_if(arrival.redrive.is_some_and(|r| r.processed), "redriven, processed");
            let is_unique = arrival.idempotency_key.is_some() && !definition.has_window;
            self.count_if(is_unique && before.log.len() > 1, "key stamped again");
        }
    }

    fn tell_released(&mut self, op: &Op, reply: &Reply, before: &Destination, after: &Destination) {
        let (Op::Release { lanes, .. }, Reply::Runs { runs, .. }) = (op, reply) else { return };
        for (request, run) in lanes.iter().zip(runs) {
            let handed_out = run.messages.first();
            self.count_if(handed_out.is_some(), "released");
            let lowest = after.messages.keys().next();
            let out_of_order = matches!(request.lane, Lane::Single(_))
                && handed_out.is_some_and(|one| lowest.is_some_and(|l| *l < one.sequence));
            self.count_if(out_of_order, "released out of order");
            let was_refused = handed_out.is_some_and(|one| one.left.failed > 0);
            let mut others = after.lane(request.lane).skip(1);
            let is_alone = run.messages.len() == 1
                && request.limit > 1
                && others.next().is_some_and(|(_, next)| next.may_leave());
            self.count_if(was_refused && is_alone, "released alone after a refusal");
            let again =
                |one: &super::op::Given| one.left.failed == 0 && !one.left.errors.is_empty();
            self.count_if(handed_out.is_some_and(again), "released anew after a retry");
            let mut behind = after.lane(request.lane);
            let next = behind.find(|(at, _)| *at > request.held_upto).map(|(_, message)| message);
            let stopped = handed_out.is_none() && request.limit > 0 && run.wait == Until::Past;
            let has_withdrawal = |m: &Message| m.may_leave() && m.withdrawal.is_some();
            self.count_if(stopped && next.is_some_and(has_withdrawal), "held back by a withdrawal");
            let halted = |m: &Message| m.stand == Stand::Halted(Stage::Delivery);
            self.count_if(stopped && next.is_some_and(halted), "held back by a halted head");
        }
        self.count_if(before.pending() != after.pending(), "settled");
        self.count_if(before.dropped != after.dropped, "settled dropped");
        self.count_if(before.dead_lettered != after.dead_lettered, "settled dead_lettered");
        self.count_if(before.cancelled != after.cancelled, "settled cancelled");
        self.count_if(before.unique.len() > after.unique.len(), "key forgotten");
        self.count_if(before.log != after.log, "logged");
        let gone = before.log.first().is_some_and(|first| !after.log.contains(first));
        self.count_if(gone, "log made room");
    }

    fn tell_withdrawn(
        &mut self,
        op: &Op,
        outcomes: &[Withdrawn],
        before: &State,
        found: &Destination,
    ) {
        let Op::Withdraw { who, how, messages, .. } = op else { return };
        let in_takeover_wait = before.takeover_wait == Some(Until::Future);
        for ((_, sequence), outcome) in messages.iter().zip(outcomes) {
            let message = found.messages.get(sequence);
            let Some(message) = message.filter(|_| *outcome != Withdrawn::Settled) else {
                let ends = message.is_some_and(|m| m.tombstone.is_some() && m.withdrawal.is_some());
                self.count(if ends {
                    "withdrawal ended by a tombstone"
                } else {
                    "nothing to withdraw"
                });
                continue;
            };
            self.count(match (outcome, &message.stand, who) {
                (Withdrawn::Withdrawing, Stand::Leased { .. }, _) => "ordered from a processor",
                (Withdrawn::Withdrawing, _, Some(_)) => "ordered by the owner in takeover wait",
                (Withdrawn::Withdrawing, ..) if in_takeover_wait => "ordered in takeover wait",
                (Withdrawn::Withdrawing, ..) => "ordered from a sender",
                (_, Stand::Waiting, _) => "withdrawn waiting",
                (_, Stand::Held { .. }, _) => "withdrawn held",
                (_, Stand::Delayed { .. }, _) => "withdrawn delayed",
                (_, Stand::Halted(Stage::Transform), _) => "withdrawn halted in transform",
                (_, Stand::Halted(Stage::Delivery), _) => "withdrawn halted in delivery",
                (_, _, None) => "withdrawn ready, by nobody's owner",
                _ => "withdrawn ready",
            });
            if *outcome == Withdrawn::Done {
                self.count_if(
                    message.withdrawal.is_some() && who.is_some(),
                    "withdrawal carried out",
                );
                self.count(match how {
                    Tombstone::Dropped => "withdrawn dropped",
                    Tombstone::DeadLettered => "withdrawn dead_lettered",
                    Tombstone::Cancelled => "withdrawn cancelled",
                });
            }
        }
    }

    fn tell_statuses(&mut self, op: &Op, statuses: &[Status], before: &State, after: &State) {
        let (Op::Complete { known, .. }
        | Op::Fail { known, .. }
        | Op::Requeue { known, .. }
        | Op::Extend { known, .. }) = op
        else {
            return;
        };
        let found = destination(after, known);
        if statuses.contains(&Status::Ok) {
            let is_ending = found.is_some_and(|found| found.deleted);
            self.count_if(is_ending, "finished while being removed");
            let is_old = found.is_some_and(|found| found.version != known.version);
            self.count_if(is_old, "ended under an old definition");
        }
        for (at, status) in statuses.iter().enumerate() {
            let what = match (status, op) {
                (Status::StaleLease, _) => "stale lease",
                (Status::Settled, _) => "already settled",
                (_, Op::Complete { items, .. }) if items[at].1.dropped => "dropped",
                (_, Op::Complete { items, .. }) => {
                    let old = destination(before, known);
                    let old = old.and_then(|old| old.messages.get(&items[at].0.sequence));
                    let kept = old.is_some_and(|message| !message.left.errors.is_empty());
                    self.count_if(kept, "completed, errors kept");
                    self.count_if(items[at].1.is_unchanged, "completed, unchanged");
                    let (token, output) = &items[at];
                    let is_kept = after.results.contains_key(&(known.name, token.sequence));
                    let is_wanted = output.options.keep_result;
                    self.count_if(is_wanted && is_kept, "result kept");
                    self.count_if(is_wanted && !is_kept, "no room for a result");
                    "completed"
                }
                (Status::Withdrawn, _) => "last attempt, left at once",
                (Status::Halted, Op::Fail { items, known, .. }) => {
                    let gives_up = known.definition.gives_up.is_some();
                    self.count_if(gives_up, "last attempt, could not leave");
                    self.count_if(items[at].is_later, "asked for later too often");
                    "last attempt, halted"
                }
                (_, Op::Fail { items, .. }) if items[at].is_later => "asked for later",
                (_, Op::Fail { items, .. }) if items[at].wait == Some(Until::Past) => {
                    "failed, to wait at once"
                }
                (_, Op::Fail { .. }) => "failed and delayed",
                (_, Op::Requeue { .. }) => "handed back",
                (Status::AttemptTimeout, _) => "extended too late",
                (_, Op::Extend { items, .. }) if items[at].checkpoint.is_some() => {
                    "extended with checkpoint"
                }
                (_, Op::Extend { items, .. })
                    if items[at].is_long_ago
                        && known.definition.kind == domain::TransformKind::Worker =>
                {
                    "extended late, after a checkpoint"
                }
                _ => "extended",
            };
            self.count(what);
        }
    }
}

fn destination<'a>(state: &'a State, known: &CatalogEntry) -> Option<&'a Destination> {
    state.destinations.get(known.name)
}

fn name_of(refusal: &Refusal) -> &'static str {
    match refusal {
        Refusal::StaleEpoch(_) => "STALE_EPOCH",
        Refusal::StaleDefinition => "STALE_DEFINITION",
        Refusal::UnknownDestination => "UNKNOWN_DESTINATION",
        Refusal::StaleCall => "STALE_CALL",
        Refusal::LateCall => "LATE_CALL",
        Refusal::NotOwner => "NOT_OWNER",
        Refusal::Owned => "OWNED",
        Refusal::TakeoverWait => "TAKEOVER_WAIT",
        Refusal::WrongHead => "WRONG_HEAD",
        Refusal::WrongState => "WRONG_STATE",
        Refusal::BeingRemoved => "BEING_REMOVED",
        Refusal::OutOfMemory => "OOM",
        Refusal::Other(_) => "other",
    }
}
