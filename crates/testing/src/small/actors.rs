//! The actors of a small world: each is a small program whose next call depends on earlier answers.
//! They read the state before they call, as real pods poll the hints; reading changes nothing.

use std::collections::BTreeMap;

use domain::{Ordering, Sequence, Tombstone};
use store::Status;

use crate::{
    model::{
        op::{
            Arrival, Call, CatalogEntry, Failure, Given, Gone, Ingested, LaneRequest, Op, Output,
            Refusal, Refused, Reply, Token,
        },
        state::{Lane, NAMES, Server, Stand, State, Until},
    },
    small::journal::{Journal, output_of},
    small::node::World,
};

/// The destination of every small world.
pub const NAME: &str = NAMES[0];

/// The second destination of some worlds, which only an operator changes.
pub const OTHER: &str = NAMES[1];

/// The current definition. Actors remember it until a script refuses it.
pub fn known(state: &State) -> CatalogEntry {
    let found = &state.destinations[NAME];
    CatalogEntry { name: NAME, version: found.version, definition: found.definition }
}

/// The definition that an actor knows after a call with it.
fn known_after(known: CatalogEntry, reply: &Reply) -> Option<CatalogEntry> {
    (*reply != Reply::Refused(Refusal::StaleDefinition)).then_some(known)
}

/// Sends batches one after the other.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Producer {
    pub known: Option<CatalogEntry>,
    pub batches: Vec<Vec<Arrival>>,
    pub calls: u64,
    pub epoch: u64,
    /// The processor of the pod that takes its messages, which processes them on arrival.
    pub processor: Processor,
}

impl Producer {
    pub fn next(&self, at: usize, world: &World, state: &State) -> Option<Op> {
        if !self.processor.holds.is_empty() {
            return self.processor.next(10 + at, world, state);
        }
        let arrivals = self.batches.first()?.clone();
        let call = Call { caller: at, number: 1 + self.calls };
        let known = self.known.unwrap_or_else(|| known(state));
        let leases = world.on_arrival;
        Some(Op::Ingest { call, known, epoch: self.epoch, arrivals, leases })
    }

    pub fn learn(&mut self, op: &Op, reply: &Reply, journal: &mut Journal) -> Option<&'static str> {
        let Op::Ingest { known, .. } = op else { return self.processor.learn(op, reply) };
        self.calls += 1;
        self.known = known_after(*known, reply);
        self.processor.learn(op, reply);
        match reply {
            Reply::Refused(Refusal::StaleDefinition) => {
                return Some("ingest refused: STALE_DEFINITION");
            }
            Reply::Refused(Refusal::StaleEpoch(epoch)) => {
                self.epoch = *epoch;
                return Some("ingest refused: STALE_EPOCH");
            }
            Reply::Ingested(results, leased) => {
                self.batches.remove(0);
                let mut what = (!leased.is_empty()).then_some("leased on arrival");
                for result in results {
                    match result {
                        Ingested::Stamped { epoch, sequence } => {
                            journal.promise((*epoch, *sequence))
                        }
                        Ingested::Duplicate { epoch, sequence } => {
                            journal.promise((*epoch, *sequence));
                            what = Some("duplicate");
                        }
                        Ingested::BacklogFull => what = Some("backlog full"),
                        _ => what = Some("conflict"),
                    }
                }
                return what;
            }
            _ => {}
        }
        None
    }
}

/// True if a producer waits for the first output.
fn is_awaited(op: &Op) -> bool {
    let Op::Complete { items, .. } = op else { return false };
    items.first().is_some_and(|(_, output)| output.options.keep_result)
}

/// Claims messages, and ends their leases.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Processor {
    pub known: Option<CatalogEntry>,
    pub holds: Vec<(Token, Given)>,
    pub calls: u64,
}

impl Processor {
    pub fn next(&self, at: usize, world: &World, state: &State) -> Option<Op> {
        let call = Call { caller: 10 + at, number: 1 + self.calls };
        let known = self.known.unwrap_or_else(|| known(state));
        let Some((_, first)) = self.holds.first() else {
            let has_work = state.active_builtin.contains(NAME);
            return has_work.then_some(Op::Claim { call, known, min: 1, max: world.claim });
        };
        let tokens = || self.holds.iter().map(|(token, _)| token.clone());
        let is_first = first.left.failed == 0 && first.left.asked_later == 0;
        if let Some(wait) = world.fails.filter(|_| first.sequence == 1 && is_first) {
            let fail = |token| Failure { token, wait, is_later: world.asks_later };
            return Some(Op::Fail { call, known, items: tokens().map(fail).collect() });
        }
        if world.hands_back && at == 0 && self.calls == 1 {
            return Some(Op::Requeue { call, known, tokens: tokens().collect() });
        }
        let complete = |(token, given): &(Token, Given)| {
            let output = Output {
                epoch: given.epoch,
                previous: given.previous,
                key: given.key,
                priority: given.priority,
                accounted_bytes: given.accounted_bytes,
                idempotency_key: given.idempotency_key.clone(),
                options: given.options,
                body: output_of(&given.body),
                dropped: world.drops == Some(given.sequence),
                is_unchanged: false,
            };
            (token.clone(), output)
        };
        Some(Op::Complete { known, items: self.holds.iter().map(complete).collect() })
    }

    pub fn learn(&mut self, op: &Op, reply: &Reply) -> Option<&'static str> {
        self.calls += 1;
        if let Op::Claim { known, .. } = op {
            self.known = known_after(*known, reply);
        }
        match (op, reply) {
            (Op::Claim { call, known, .. }, Reply::Claimed(given))
            | (Op::Ingest { call, known, .. }, Reply::Ingested(_, given)) => {
                let token = |one: &Given| {
                    let key = known.definition.set_of(one.key);
                    Token { sequence: one.sequence, secret: call.secret(), key }
                };
                self.holds = given.iter().map(|one| (token(one), one.clone())).collect();
                given.is_empty().then_some("claimed nothing")
            }
            (op, Reply::Statuses(statuses)) => {
                self.holds.clear();
                let is_complete = matches!(op, Op::Complete { .. });
                match statuses.first() {
                    Some(Status::StaleLease) if is_complete => Some("stale lease completed"),
                    Some(Status::StaleLease) => Some("stale lease ended otherwise"),
                    Some(Status::Settled) => Some("completed what was settled"),
                    Some(Status::Ok) if is_awaited(op) => Some("result kept"),
                    Some(Status::Withdrawn) => Some("left at its last attempt"),
                    _ => (!is_complete).then_some("failed or handed back"),
                }
            }
            _ => {
                self.holds.clear();
                None
            }
        }
    }

    pub fn holds(&self, sequence: Sequence, secret: &str) -> bool {
        self.holds.iter().any(|(token, _)| token.sequence == sequence && token.secret == secret)
    }
}

/// A sender's part of a lane; its first `passed` messages have left.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Hand {
    pub messages: Vec<Given>,
    pub passed: usize,
}

impl Hand {
    /// Passes tombstones at the front at once.
    fn pass(&mut self) {
        while self.messages.get(self.passed).is_some_and(|next| next.tombstone.is_some()) {
            self.passed += 1;
        }
    }
}

/// Acquires the partition, and delivers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Sender {
    pub known: Option<CatalogEntry>,
    /// The epoch in which it acquired the partition; `None` if it does not believe it is the owner.
    pub epoch: Option<u64>,
    pub hands: BTreeMap<Lane, Hand>,
    pub in_takeover_wait: bool,
    pub has_tried: bool,
    pub attempts: u32,
    /// The epoch that it learned while it believed that it was the owner. It has stopped since.
    pub vouches_for: Option<u64>,
}

/// The next action of a sender.
#[derive(Debug, Clone)]
pub enum Next {
    Call(Op),
    /// Delivers the front of a lane; the receiver accepts it.
    Deliver(Lane),
}

impl Sender {
    pub fn next(&self, at: usize, world: &World, state: &State) -> Option<Next> {
        if let Some(epoch) = self.vouches_for {
            return Some(Next::Call(Op::ResignPartition { who: at, vouched: Some(epoch) }));
        }
        let Some(epoch) = self.epoch else { return self.take(at, world, state) };
        let known = self.known.unwrap_or_else(|| known(state));
        if state.takeover_wait == Some(Until::Future) && self.in_takeover_wait {
            // When the sender renews its lease, it learns the new epoch.
            let is_stale = state.server != Server::This || state.epoch != epoch;
            let renews = world.vouches && is_stale;
            return renews.then_some(Next::Call(Op::AcquirePartition { who: at }));
        }
        let unsettled = self.hands.values().any(|hand| hand.passed > 0);
        let next = self.hands.iter().find(|(_, hand)| hand.passed < hand.messages.len());
        // The messages before a damaged one must be settled before it is halted.
        let is_next_damaged = next.is_some_and(|(_, hand)| hand.messages[hand.passed].is_damaged);
        let settles_first = unsettled && (world.settles_each || is_next_damaged);
        if let Some((lane, hand)) = next.filter(|_| !settles_first) {
            let message = &hand.messages[hand.passed];
            let is_refused = message.sequence == 1 && message.left.errors.is_empty();
            let refuses = world.refuses.filter(|_| is_refused);
            // An unreadable message is halted.
            let Some(how) = refuses.or(message.is_damaged.then_some(None)) else {
                return Some(Next::Deliver(*lane));
            };
            let (lane, sequence, attempts) = (*lane, message.sequence, self.attempts + 1);
            let refused = Refused { who: at, epoch, known, lane, sequence, attempts };
            return Some(Next::Call(match how {
                Some(wait) => Op::Postpone { refused, wait },
                None => Op::Halt { refused },
            }));
        }
        let destination = &state.destinations[NAME];
        let is_hinted = state.releasable.get(NAME).is_some_and(|hint| hint.is_due());
        let lanes = self.requests(world, state, is_hinted);
        let ordered = destination.messages.iter().filter(|(_, message)| {
            message.withdrawal.is_some() && !matches!(message.stand, Stand::Leased { .. })
        });
        let mut ordered =
            ordered.filter(|_| state.withdrawing.contains(NAME) && self.hands.is_empty());
        if let Some((sequence, message)) = ordered.next() {
            let how = message.withdrawal.unwrap_or(Tombstone::Cancelled);
            let messages = vec![(destination.lane_of(*sequence, message), *sequence)];
            let op = Op::Withdraw { who: Some(at), known, how, failed: None, messages };
            return Some(Next::Call(op));
        }
        if lanes.is_empty() {
            return None;
        }
        Some(Next::Call(Op::Release { who: at, epoch, known, lanes }))
    }

    fn take(&self, at: usize, world: &World, state: &State) -> Option<Next> {
        let is_free = state.owner.is_none_or(|(who, until)| who == at || until == Until::Past);
        let tries_anyway = world.covets && !self.has_tried;
        (is_free || tries_anyway).then_some(Next::Call(Op::AcquirePartition { who: at }))
    }

    /// The request for each lane that it holds, or that the hints name.
    fn requests(&self, world: &World, state: &State, is_hinted: bool) -> Vec<LaneRequest> {
        let destination = &state.destinations[NAME];
        let of_single = |name: &String| name.parse().map(Lane::Single).unwrap_or(Lane::Whole);
        let of_key = |name: &String| {
            let all = destination.messages.values().filter_map(|message| message.key);
            Lane::Key(all.into_iter().find(|key| key == name).unwrap_or_default())
        };
        let past = destination.lanes.iter().filter(|(_, until)| until.is_due());
        let mut lanes: Vec<Lane> = match destination.definition.ordering {
            _ if !is_hinted => Vec::new(),
            Ordering::Destination => vec![Lane::Whole],
            Ordering::Key => past.map(|(name, _)| of_key(name)).collect(),
            Ordering::None => past.map(|(name, _)| of_single(name)).collect(),
        };
        lanes.retain(|lane| self.hands.get(lane).is_none_or(|hand| hand.messages.is_empty()));
        // Withdrawals keep the hint. If no head may be released, another call finds no new message.
        let may_leave =
            |lane: Lane| destination.head(lane).is_some_and(|(_, head)| head.may_leave());
        lanes.retain(|lane| destination.withdrawals() == 0 || may_leave(*lane));
        let all = self.hands.iter().map(|(lane, hand)| request(*lane, hand, world.limit));
        let new = lanes.into_iter().map(|lane| request(lane, &Hand::default(), world.limit));
        all.chain(new).collect()
    }

    /// The receiver accepts the front of a lane. True if the receiver had accepted the message before.
    pub fn deliver(&mut self, lane: Lane, journal: &mut Journal) -> Result<bool, String> {
        let Some(hand) = self.hands.get_mut(&lane) else { return Err("nothing in hand".into()) };
        let is_repeat = journal.receive(lane, &hand.messages[hand.passed])?;
        hand.passed += 1;
        hand.pass();
        Ok(is_repeat)
    }

    pub fn learn(&mut self, op: &Op, reply: &Reply, vouches: bool) -> Option<&'static str> {
        if let Op::Release { known, .. }
        | Op::Postpone { refused: Refused { known, .. }, .. }
        | Op::Halt { refused: Refused { known, .. } }
        | Op::Withdraw { known, .. } = op
        {
            self.known = known_after(*known, reply);
        }
        match (op, reply) {
            (_, Reply::Refused(Refusal::StaleDefinition)) => {
                // The destination was created again, so the held messages do not belong to it.
                self.hands.clear();
                Some("refused: STALE_DEFINITION")
            }
            (Op::AcquirePartition { .. }, Reply::Owned { epoch, .. })
                if self.epoch.is_some_and(|before| before != *epoch) =>
            {
                self.told_of(*epoch, vouches);
                Some("refused: STALE_EPOCH")
            }
            (Op::AcquirePartition { .. }, Reply::Owned { epoch, takeover_wait }) => {
                self.epoch = Some(*epoch);
                self.in_takeover_wait = *takeover_wait == Until::Future;
                None
            }
            (Op::AcquirePartition { .. }, _) => {
                self.has_tried = true;
                self.stop();
                Some("refused: OWNED")
            }
            (_, Reply::Refused(Refusal::TakeoverWait)) => {
                self.in_takeover_wait = true;
                Some("refused: TAKEOVER_WAIT")
            }
            (Op::ResignPartition { .. }, _) => {
                self.vouches_for = None;
                None
            }
            (_, Reply::Refused(refusal)) => {
                match refusal {
                    Refusal::StaleEpoch(epoch) => self.told_of(*epoch, vouches),
                    _ => self.stop(),
                }
                match refusal {
                    Refusal::NotOwner => Some("refused: NOT_OWNER"),
                    Refusal::StaleEpoch(_) => Some("refused: STALE_EPOCH"),
                    Refusal::WrongHead => Some("refused: WRONG_HEAD"),
                    _ => Some("refused otherwise"),
                }
            }
            (Op::Release { lanes, .. }, Reply::Runs { runs, .. }) => {
                self.in_takeover_wait = false;
                for (request, run) in lanes.iter().zip(runs) {
                    let hand = self.hands.entry(request.lane).or_default();
                    hand.messages.drain(..hand.passed);
                    hand.passed = 0;
                    hand.messages.extend(run.messages.iter().cloned());
                    hand.pass();
                }
                self.hands.retain(|_, hand| !hand.messages.is_empty());
                None
            }
            (Op::Postpone { refused, .. } | Op::Halt { refused }, _) => {
                let hand = self.hands.get(&refused.lane);
                let head = hand.and_then(|hand| hand.messages.get(hand.passed));
                let was_damaged = head.is_some_and(|head| head.is_damaged);
                self.attempts = refused.attempts;
                self.hands.remove(&refused.lane);
                Some(if was_damaged { "halted as damaged" } else { "delivery refused" })
            }
            (Op::Withdraw { .. }, Reply::Withdrawn(_)) => Some("withdrawal carried out"),
            _ => None,
        }
    }

    /// The sender learns of another epoch than the one in which its messages were released.
    fn told_of(&mut self, epoch: u64, vouches: bool) {
        // In a takeover wait, an earlier sender may still be sending.
        let may_vouch = vouches && !self.in_takeover_wait;
        self.vouches_for = self.epoch.filter(|_| may_vouch).map(|_| epoch);
        self.stop();
    }

    /// The sender no longer believes that it is the owner, and drops its messages.
    pub fn stop(&mut self) {
        self.epoch = None;
        self.hands.clear();
    }
}

fn request(lane: Lane, hand: &Hand, limit: usize) -> LaneRequest {
    let (passed, left) = hand.messages.split_at(hand.passed);
    LaneRequest {
        lane,
        settled_to: passed.last().map_or(0, |one| one.sequence),
        settled: passed.iter().map(Gone::of).collect(),
        held_upto: left.last().map_or(0, |one| one.sequence),
        limit: if left.is_empty() { limit } else { 0 },
    }
}
