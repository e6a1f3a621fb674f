use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use domain::{Attempts, Body, ErrorKind, Message, Position, Stage, State};

const LAST: Sequence = 20;

fn rules(batch_max: usize) -> Rules {
    Rules {
        release_batch_max: 6,
        batch_max,
        refused_max: batch_max,
        batch_bytes_max: 1 << 20,
        linger: Duration::ZERO,
        is_single: false,
        is_pulled: false,
        log: Some(false),
    }
}

fn at(ms: u64) -> Now {
    // An `Instant` cannot be made from a number, so all tests count from a shared start.
    thread_local!(static START: Instant = Instant::now());
    Now { instant: START.with(|start| *start) + Duration::from_millis(ms), ms }
}

fn message(sequence: Sequence, tombstone: Option<Tombstone>) -> Stamped {
    let message = Message {
        id: sequence.to_string(),
        key: None,
        headers: Vec::new(),
        body: Body { content_type: "text/plain".into(), bytes: Bytes::from_static(b"0123456789") },
        received_ms: 0,
    };
    let position = Position { epoch: 1, sequence };
    Stamped {
        tombstone,
        accounted_bytes: sequence,
        idempotency_key: Some(format!("k{sequence}")),
        ..Stamped::new("erp".parse().unwrap(), position, sequence - 1, message)
    }
}

fn error() -> AttemptError {
    AttemptError::new(Stage::Delivery, ErrorKind::Status, "status 500")
}

fn with(rules: &Rules, messages: &[Stamped]) -> Lane {
    let mut lane = Lane::default();
    let request = lane.request(None, rules).unwrap();
    lane.released(&request, messages.to_vec(), rules, at(0));
    lane
}

fn plain(sequences: std::ops::RangeInclusive<Sequence>) -> Vec<Stamped> {
    sequences.map(|sequence| message(sequence, None)).collect()
}

/// Shorter names for the events.
impl Lane {
    fn accepted(&mut self, accepted: usize, delivery_ms: u64, rules: &Rules, now: Now) {
        self.delivery_ended(Outcome { accepted, delivery_ms, refusal: None }, rules, now);
    }

    fn refused(&mut self, failed: u32, error: AttemptError, disposition: Disposition) {
        let refusal = Some(Refusal::Head { failed, error, disposition });
        self.delivery_ended(Outcome { accepted: 0, delivery_ms: 5, refusal }, &rules(1), at(0));
    }

    fn refused_together(&mut self, count: usize) {
        let refusal = Some(Refusal::Batch { count });
        self.delivery_ended(Outcome { accepted: 0, delivery_ms: 5, refusal }, &rules(1), at(0));
    }

    fn is_done(&self) -> bool {
        self.next() == Next::Drop
    }
}

/// Begins the next delivery, if it is the lane's turn.
fn begin(lane: &mut Lane, rules: &Rules, now: Now) -> Vec<Sequence> {
    if lane.turn(rules, now) != Turn::Yes {
        return Vec::new();
    }
    lane.delivery_begun(rules).iter().map(|message| message.position.sequence).collect()
}

#[test]
fn the_next_is_not_sent_before_the_one_in_flight_is_accepted() {
    let rules = rules(1);
    let mut lane = with(&rules, &plain(1..=2));
    assert_eq!(begin(&mut lane, &rules, at(0)), [1]);
    assert!(begin(&mut lane, &rules, at(0)).is_empty());
    lane.accepted(1, 5, &rules, at(0));
    assert_eq!(begin(&mut lane, &rules, at(0)), [2]);
}

#[test]
fn refused_head_waits_until_everything_before_is_settled() {
    let rules = rules(1);
    for disposition in [
        Disposition::Postpone(Duration::from_millis(5)),
        Disposition::Halt,
        Disposition::Withdraw(Tombstone::DeadLettered, String::new()),
    ] {
        let mut lane = with(&rules, &plain(1..=3));
        begin(&mut lane, &rules, at(0));
        lane.accepted(1, 5, &rules, at(0));
        begin(&mut lane, &rules, at(0));
        lane.refused(1, error(), disposition.clone());
        assert!(begin(&mut lane, &rules, at(0)).is_empty());
        assert_eq!(lane.refused_head(), None);
        let request = lane.request(None, &rules).unwrap();
        assert_eq!((request.settled.upto, request.held_upto, request.limit), (1, 2, 0));
        assert_eq!(lane.refused_head(), None, "the call may not have been carried out");
        lane.released(&request, Vec::new(), &rules, at(0));
        let head = lane.refused_head().unwrap();
        assert_eq!((head.sequence, head.failed, &head.disposition), (2, 1, &disposition));
    }
}

#[test]
fn fetch_behind_a_refused_head_grows_as_deliveries_succeed() {
    let refused =
        || Stamped { attempts: Attempts { failed: 2, ..Attempts::default() }, ..message(1, None) };
    let of_one = rules(1);
    let mut lane = with(&of_one, &[refused()]);
    let (mut wants, mut next) = (Vec::new(), 2);
    for _ in 0..3 {
        assert_eq!(begin(&mut lane, &of_one, at(0)).len(), 1);
        assert_eq!(lane.request(None, &of_one), None, "nothing before it is accepted");
        lane.accepted(1, 5, &of_one, at(0));
        let request = lane.request(None, &of_one).unwrap();
        let last = next + request.limit as Sequence - 1;
        lane.released(&request, plain(next..=last), &of_one, at(0));
        wants.push(request.limit);
        next = last + 1;
    }
    assert_eq!(wants, [2, 3, 3], "twice as much in hand each time, up to a run of 6");
    // After a refusal, a batch does not wait for more messages.
    let lingering = Rules { linger: Duration::from_secs(1), ..rules(3) };
    assert_eq!(begin(&mut with(&lingering, &[refused()]), &lingering, at(0)), [1]);
    assert!(begin(&mut with(&lingering, &plain(1..=1)), &lingering, at(0)).is_empty());
}

#[test]
fn tombstones_are_settled_by_kind_without_being_sent() {
    let rules = rules(3);
    let kinds = [
        Tombstone::Dropped,
        Tombstone::DeadLettered,
        Tombstone::Cancelled,
        Tombstone::DeadLettered,
    ];
    let mut messages: Vec<Stamped> =
        (1..).zip(kinds).map(|(sequence, kind)| message(sequence, Some(kind))).collect();
    messages.insert(2, message(10, None));
    for (at, message) in messages.iter_mut().enumerate() {
        message.position.sequence = at as Sequence + 1;
    }
    let mut lane = with(&rules, &messages);
    assert_eq!(begin(&mut lane, &rules, at(7)), [3]);
    let before = lane.request(None, &rules).unwrap().settled;
    assert_eq!((before.upto, before.dropped, before.dead_lettered, before.cancelled), (2, 1, 1, 0));
    assert_eq!(before.log[1].1.outcome, State::DeadLettered);
    lane.accepted(1, 30, &rules, at(9));
    assert!(begin(&mut lane, &rules, at(9)).is_empty());
    // The first call is not answered, and is repeated without a change.
    assert_eq!(lane.request(None, &rules).unwrap().settled, before);
    let request = lane.request(None, &rules).unwrap();
    lane.released(&request, Vec::new(), &rules, at(9));
    let after = lane.request(None, &rules).unwrap().settled;
    assert_eq!((after.upto, after.dropped, after.dead_lettered, after.cancelled), (5, 0, 1, 1));
    assert_eq!((after.bytes, after.idempotency_keys.len()), (10 + 3 + 4, 3));
    let outcomes: Vec<_> =
        after.log.iter().map(|(sequence, e)| (*sequence, e.outcome, e.delivery_ms)).collect();
    let expected =
        [(3, State::Delivered, 30), (4, State::Cancelled, 0), (5, State::DeadLettered, 0)];
    assert_eq!(outcomes, expected);
}

#[test]
fn draining_lane_settles_what_was_delivered_and_drops_rest() {
    let rules = rules(1);
    let mut lane = with(&rules, &plain(1..=2));
    begin(&mut lane, &rules, at(0));
    lane.draining();
    assert!(!lane.is_done(), "one is in flight");
    lane.accepted(1, 5, &rules, at(0));
    let request = lane.request(None, &rules).unwrap();
    assert_eq!((request.settled.upto, request.held_upto, request.limit), (1, 0, 0));
    lane.released(&request, Vec::new(), &rules, at(0));
    assert!(lane.is_done());
    let mut new = Lane::default();
    new.draining();
    assert!(new.is_done(), "nothing was asked for yet");
}

#[test]
fn a_batch_is_limited_in_number_and_in_bytes() {
    let mut rules = rules(4);
    let mut lane = with(&rules, &plain(1..=6));
    rules.batch_bytes_max = 25;
    assert_eq!(begin(&mut lane, &rules, at(0)), [1, 2]);
    lane.accepted(2, 5, &rules, at(0));
    rules.batch_bytes_max = 1;
    assert_eq!(begin(&mut lane, &rules, at(0)), [3], "one is always sent");
    lane.accepted(1, 5, &rules, at(0));
    rules.batch_bytes_max = 1000;
    assert_eq!(begin(&mut lane, &rules, at(0)), [4, 5, 6]);
}

#[test]
fn a_batch_that_is_not_full_waits_and_asks_for_more() {
    let rules = Rules { linger: Duration::from_millis(40), ..rules(3) };
    let mut lane = with(&rules, &plain(1..=2));
    assert_eq!(lane.turn(&rules, at(5)), Turn::At(at(15).instant));
    assert!(lane.request(None, &rules).is_none(), "it was just asked");
    assert_eq!(lane.turn(&rules, at(15)), Turn::At(at(25).instant));
    let request = lane.request(None, &rules).unwrap();
    assert_eq!((request.held_upto, request.limit), (2, 4));
    lane.released(&request, plain(3..=3), &rules, at(16));
    assert_eq!(begin(&mut lane, &rules, at(16)), [1, 2, 3], "full");

    let mut lane = with(&rules, &plain(1..=2));
    assert_eq!(lane.turn(&rules, at(39)), Turn::At(at(40).instant));
    assert_eq!(begin(&mut lane, &rules, at(40)), [1, 2], "it has waited long enough");
}

#[test]
fn what_was_not_accepted_of_a_batch_goes_with_the_next() {
    let rules = rules(3);
    let mut lane = with(&rules, &plain(1..=6));
    assert_eq!(begin(&mut lane, &rules, at(0)), [1, 2, 3]);
    lane.accepted(2, 5, &rules, at(0));
    assert_eq!(begin(&mut lane, &rules, at(0)), [3, 4, 5]);
    lane.refused_together(3);
    for sequence in 3..=5 {
        assert_eq!(begin(&mut lane, &rules, at(0)), [sequence]);
        lane.accepted(1, 5, &rules, at(0));
    }
    assert_eq!(begin(&mut lane, &rules, at(0)), [6]);
}

#[test]
fn the_refused_of_a_window_is_the_head_also_behind_a_tombstone() {
    let rules = rules(3);
    let tombstone = message(2, Some(Tombstone::Cancelled));
    let mut lane = with(&rules, &[message(1, None), tombstone, message(3, None), message(4, None)]);
    assert_eq!(begin(&mut lane, &rules, at(0)), [1, 3, 4]);
    let head = Refusal::Head { failed: 1, error: error(), disposition: Disposition::Halt };
    let outcome = Outcome { accepted: 1, delivery_ms: 5, refusal: Some(head) };
    lane.delivery_ended(outcome, &rules, at(0));
    let request = lane.request(None, &rules).unwrap();
    assert_eq!((request.settled.upto, request.settled.cancelled, request.held_upto), (2, 1, 3));
    lane.released(&request, Vec::new(), &rules, at(0));
    assert_eq!(lane.refused_head().map(|head| head.sequence), Some(3));
}

#[test]
fn withdrawal_truncates_queue_unless_message_is_in_flight() {
    let rules = rules(2);
    let mut lane = with(&rules, &plain(1..=6));
    begin(&mut lane, &rules, at(0));
    let mut apply_withdrawal = |sequence| lane.withdrawn(sequence, Tombstone::Cancelled, "test");
    assert!(
        !apply_withdrawal(2) && apply_withdrawal(4) && apply_withdrawal(6) && apply_withdrawal(9)
    );
    let request = lane.request(None, &rules).unwrap();
    assert_eq!((request.held_upto, request.limit), (3, 3));
    // A withdrawal truncates the queue while a call is in flight: the messages of its answer would leave a gap.
    assert!(lane.withdrawn(3, Tombstone::Cancelled, "test"));
    lane.released(&request, plain(4..=6), &rules, at(0));
    assert_eq!(lane.request(None, &rules).unwrap().held_upto, 2);
    lane.refused(1, error(), Disposition::Postpone(Duration::ZERO));
    assert!(!lane.withdrawn(1, Tombstone::Cancelled, "test"));
    let disposition = Disposition::Withdraw(Tombstone::Cancelled, "test".into());
    assert_eq!(lane.refused_head().unwrap().disposition, disposition, "it is not tried again");
}

#[test]
fn one_message_lane_asks_once_and_ends_when_it_is_settled() {
    let rules =
        Rules { release_batch_max: 1, is_single: true, linger: Duration::from_secs(1), ..rules(9) };
    let mut lane = with(&rules, &plain(7..=7));
    assert_eq!(begin(&mut lane, &rules, at(0)), [7]);
    lane.accepted(1, 5, &rules, at(0));
    let request = lane.request(Some("7"), &rules).unwrap();
    assert_eq!((request.settled.upto, request.held_upto, request.limit), (7, 0, 0));
    lane.released(&request, Vec::new(), &rules, at(0));
    assert!(lane.is_done());
    assert!(with(&rules, &[]).is_done(), "the name was an old one");
}

#[test]
fn a_damaged_head_halts_and_what_is_before_it_is_sent_first() {
    let rules = rules(3);
    let damaged = Stamped { damaged: Some("no record".into()), ..message(2, None) };
    let mut lane = with(&rules, &[message(1, None), damaged, message(3, None)]);
    assert_eq!(begin(&mut lane, &rules, at(0)), [1], "a batch ends before it");
    lane.accepted(1, 5, &rules, at(0));
    assert_eq!(lane.turn(&rules, at(0)), Turn::No);
    assert_eq!(lane.next(), Next::Continue, "the first is not settled yet");
    let request = lane.request(None, &rules).unwrap();
    assert_eq!((request.settled.upto, request.held_upto, request.limit), (1, 2, 0));
    lane.released(&request, Vec::new(), &rules, at(0));
    assert_eq!(lane.next(), Next::Resolve);
    let head = lane.refused_head().unwrap();
    assert_eq!((head.sequence, &head.disposition), (2, &Disposition::Halt));
    assert_eq!(head.error.kind, ErrorKind::Damaged);
}

#[test]
fn lane_that_delivered_much_yields_but_sends_what_it_holds() {
    let rules = Rules { linger: Duration::from_secs(1), ..rules(2) };
    let mut lane = with(&rules, &plain(1..=3));
    assert_eq!(begin(&mut lane, &rules, at(0)), [1, 2]);
    lane.others_wait(1);
    lane.accepted(2, 5, &rules, at(0));
    assert_eq!(lane.turn(&rules, at(0)), Turn::At(at(250).instant), "it had not delivered enough");
    lane.others_wait(2);
    assert_eq!(begin(&mut lane, &rules, at(0)), [3], "nothing more comes to fill the batch");
    lane.accepted(1, 5, &rules, at(0));
    let request = lane.request(None, &rules).unwrap();
    assert_eq!((request.settled.upto, request.limit), (3, 0));
    lane.released(&request, Vec::new(), &rules, at(0));
    assert_eq!((lane.next(), lane.is_yielding()), (Next::Drop, true));
}

/// The events of a lane, in the order in which its destination may cause them.
#[derive(Debug, Clone, Copy)]
enum Step {
    Begin,
    Accept(usize),
    /// The receiver accepts this many messages, and refuses the next one in one of three ways.
    Refuse(usize, u8),
    RefuseTogether,
    Ask,
    Answer,
    /// The call fails, before or after it was carried out.
    Fail(bool),
    Finish(Sequence),
    /// An operator requests to withdraw the message.
    RequestWithdrawal(Sequence),
    ApplyWithdrawal,
    Tick(u64),
    /// The partition is given back. The next lane belongs to the next owner.
    Drain,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => Just(Step::Begin),
        4 => (1usize..5).prop_map(Step::Accept),
        1 => (0usize..3, 0u8..3).prop_map(|(accepted, kind)| Step::Refuse(accepted, kind)),
        1 => Just(Step::RefuseTogether),
        3 => Just(Step::Ask),
        3 => Just(Step::Answer),
        1 => any::<bool>().prop_map(Step::Fail),
        4 => (1..=LAST).prop_map(Step::Finish),
        1 => (1..=LAST).prop_map(Step::RequestWithdrawal),
        1 => Just(Step::ApplyWithdrawal),
        1 => (1u64..30).prop_map(Step::Tick),
        1 => Just(Step::Drain),
    ];
    prop::collection::vec(step, 0..500)
}

/// One lane from the view of Redis and the receiver.
#[derive(Default)]
struct World {
    finished: BTreeSet<Sequence>,
    tombstones: BTreeMap<Sequence, Tombstone>,
    withdrawals: BTreeSet<Sequence>,
    /// The messages that left, in the order in which the calls settled them.
    log: Vec<(Sequence, State)>,
    counts: (u64, u64, u64, u64),
    keys: Vec<String>,
    accepted: BTreeSet<Sequence>,
    in_flight: Vec<Sequence>,
    asked: Option<LaneRequest>,
    is_draining: bool,
    ms: u64,
}

impl World {
    fn new() -> World {
        let kinds =
            [(7, Tombstone::Dropped), (8, Tombstone::DeadLettered), (14, Tombstone::Cancelled)];
        World { tombstones: kinds.into(), ..World::default() }
    }

    fn settled(&self) -> Sequence {
        self.log.last().map_or(0, |(sequence, _)| *sequence)
    }

    /// Like `release.lua`: a repeated call settles nothing.
    fn carry_out(&mut self, request: &LaneRequest) -> Vec<Stamped> {
        let settled = &request.settled;
        if settled.upto > self.settled() {
            let told: Vec<Sequence> = settled.log.iter().map(|(sequence, _)| *sequence).collect();
            let gone: Vec<Sequence> = (self.settled() + 1..=settled.upto).collect();
            assert_eq!(told, gone, "each is told once");
            self.log.extend(settled.log.iter().map(|(sequence, entry)| (*sequence, entry.outcome)));
            self.counts.0 += settled.dropped;
            self.counts.1 += settled.dead_lettered;
            self.counts.2 += settled.cancelled;
            self.counts.3 += settled.bytes;
            self.keys.extend(settled.idempotency_keys.iter().cloned());
            self.withdrawals.retain(|sequence| *sequence > settled.upto);
        }
        let from = request.held_upto.max(self.settled()) + 1;
        let run = (from..=LAST)
            .take_while(|s| self.finished.contains(s) && !self.withdrawals.contains(s));
        let tombstone = |s: &Sequence| self.tombstones.get(s).copied();
        run.take(request.limit).map(|s| message(s, tombstone(&s))).collect()
    }

    fn withdraw(&mut self, sequence: Sequence, how: Tombstone) {
        assert!(!self.accepted.contains(&sequence) && !self.in_flight.contains(&sequence));
        assert!(sequence > self.settled());
        self.withdrawals.remove(&sequence);
        self.finished.insert(sequence);
        self.tombstones.entry(sequence).or_insert(how);
    }

    fn begin(&mut self, lane: &mut Lane, rules: &Rules) {
        let batch = begin(lane, rules, at(self.ms));
        let Some(&first) = batch.first() else { return };
        assert!(batch.len() <= rules.batch_max && batch.is_sorted());
        let has_left = |s: &Sequence| self.accepted.contains(s) || self.tombstones.contains_key(s);
        assert!((1..first).all(|s| has_left(&s)), "{batch:?} overtakes");
        assert!(!batch.iter().any(has_left), "{batch:?} was accepted, or is not to be sent");
        let gaps = (first..*batch.last().unwrap()).filter(|s| !batch.contains(s));
        assert!(gaps.into_iter().all(|s| self.tombstones.contains_key(&s)));
        self.in_flight = batch;
    }

    fn accept(&mut self, lane: &mut Lane, count: usize, rules: &Rules) {
        let in_flight = std::mem::take(&mut self.in_flight);
        let count = count.min(in_flight.len());
        self.accepted.extend(&in_flight[..count]);
        lane.accepted(count, 5, rules, at(self.ms));
        // Withdrawn messages must not be sent next. The next `ApplyWithdrawal` carries the withdrawals out.
        for sequence in &self.withdrawals {
            lane.withdrawn(*sequence, Tombstone::Cancelled, "requested");
        }
    }

    fn refuse(&mut self, lane: &mut Lane, accepted: usize, kind: u8, rules: &Rules) {
        let in_flight = std::mem::take(&mut self.in_flight);
        let accepted = accepted.min(in_flight.len() - 1);
        self.accepted.extend(&in_flight[..accepted]);
        let head = in_flight[accepted];
        let disposition = match kind {
            _ if self.withdrawals.contains(&head) => {
                Disposition::Withdraw(Tombstone::Cancelled, "requested".into())
            }
            0 => Disposition::Postpone(Duration::ZERO),
            1 => Disposition::Halt,
            _ => Disposition::Withdraw(Tombstone::DeadLettered, "used up".into()),
        };
        let refusal = Some(Refusal::Head { failed: 1, error: error(), disposition });
        let outcome = Outcome { accepted, delivery_ms: 5, refusal };
        lane.delivery_ended(outcome, rules, at(self.ms));
    }

    fn apply_withdrawal(&mut self, lane: &mut Lane) {
        for sequence in self.withdrawals.clone() {
            if lane.withdrawn(sequence, Tombstone::Cancelled, "requested") {
                self.withdraw(sequence, Tombstone::Cancelled);
            }
        }
    }

    fn step(&mut self, lane: &mut Option<Lane>, rules: &Rules, step: Step) {
        let held = lane.get_or_insert_with(Lane::default);
        let is_sending = !self.in_flight.is_empty();
        match step {
            Step::Begin if !self.is_draining => self.begin(held, rules),
            Step::Accept(count) if is_sending => self.accept(held, count, rules),
            Step::Refuse(accepted, kind) if is_sending => self.refuse(held, accepted, kind, rules),
            Step::RefuseTogether if self.in_flight.len() > 1 => {
                held.refused_together(self.in_flight.len());
                self.in_flight.clear();
                for sequence in &self.withdrawals {
                    held.withdrawn(*sequence, Tombstone::Cancelled, "requested");
                }
            }
            Step::Ask if self.asked.is_none() => self.asked = held.request(None, rules),
            Step::Answer => {
                if let Some(request) = self.asked.take() {
                    let released = self.carry_out(&request);
                    held.released(&request, released, rules, at(self.ms));
                }
            }
            Step::Fail(was_carried_out) => {
                if let Some(request) = self.asked.take().filter(|_| was_carried_out) {
                    self.carry_out(&request);
                }
            }
            Step::Finish(sequence) => drop(self.finished.insert(sequence)),
            Step::RequestWithdrawal(sequence)
                if sequence > self.settled() && !self.tombstones.contains_key(&sequence) =>
            {
                self.withdrawals.insert(sequence);
            }
            Step::ApplyWithdrawal if self.asked.is_none() => self.apply_withdrawal(held),
            Step::Tick(ms) => self.ms += ms,
            Step::Drain => {
                held.draining();
                self.is_draining = true;
            }
            _ => {}
        }
        if self.asked.is_some() {
            return;
        }
        let ended = held.refused_head().cloned();
        if let Some(Refused { sequence, disposition: Disposition::Withdraw(how, _), .. }) = ended {
            self.withdraw(sequence, how);
        }
        if held.refused_head().is_some() || held.is_done() {
            *lane = None;
            self.is_draining = false;
        }
    }

    fn check(&self) {
        let all: Vec<Sequence> = (1..=LAST).collect();
        let outcome = |s: &Sequence| self.tombstones.get(s).map_or(State::Delivered, |&t| t.into());
        let expected: Vec<_> = all.iter().map(|s| (*s, outcome(s))).collect();
        assert_eq!(self.log, expected);
        let count = |kind| self.tombstones.values().filter(|held| **held == kind).count() as u64;
        let counts = (
            count(Tombstone::Dropped),
            count(Tombstone::DeadLettered),
            count(Tombstone::Cancelled),
            all.iter().sum(),
        );
        assert_eq!(self.counts, counts);
        assert_eq!(self.keys, all.iter().map(|s| format!("k{s}")).collect::<Vec<_>>());
        let delivered = all.iter().filter(|s| !self.tombstones.contains_key(s));
        assert_eq!(self.accepted, delivered.copied().collect());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn messages_leave_once_and_in_order_whatever_happens(
        steps in steps(),
        batch_max in 1usize..5,
        linger_ms in prop_oneof![Just(0u64), Just(40)],
    ) {
        let rules = Rules { linger: Duration::from_millis(linger_ms), ..rules(batch_max) };
        let mut world = World::new();
        let mut lane = None;
        for step in steps {
            world.step(&mut lane, &rules, step);
        }
        // Every message is finished, and the receiver accepts: all must leave within a bounded number of steps.
        for sequence in 1..=LAST {
            world.step(&mut lane, &rules, Step::Finish(sequence));
        }
        for _ in 0..200 {
            let round =
                [Step::Accept(5), Step::Begin, Step::Ask, Step::Answer, Step::ApplyWithdrawal, Step::Tick(15)];
            for step in round {
                world.step(&mut lane, &rules, step);
            }
        }
        world.check();
    }
}
