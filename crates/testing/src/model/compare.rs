//! Runs one sequence of operations on the model and on the real scripts. After each, the answers
//! and the whole state must be equal.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use domain::{Ordering, Sequence};
use store::Status;

use super::{
    draw::{Draw, Kind},
    generate::CallSequences,
    op::{Ingested, Op, Reply},
    real::{Dump, Real},
    snapshot::{difference, of_model, of_real, touched},
    state::{Lane, Left, Name, State},
    step::step,
    tally::Tally,
};

/// The last settled position of each lane, across removals.
type Settled = BTreeMap<(Name, Lane), (u64, Sequence)>;

/// The most shorter sequences to try after a failure.
const SHORTENED_MAX: usize = 1000;

/// Runs the drawn operations on both sides. Counts them, including those before a failure.
pub async fn compare(
    real: &mut Real,
    draws: &[Draw],
    tally: &mut Tally,
    operations: &AtomicU64,
) -> Result<(), String> {
    real.reset().await;
    let mut both = Both {
        real,
        tally,
        operations,
        state: State::default(),
        callers: CallSequences::default(),
        settled: Settled::new(),
        dump: Dump::default(),
        trace: Vec::new(),
        together: Vec::new(),
        before: State::default(),
    };
    for op in CallSequences::beginning() {
        both.check(&op, false, false).await?;
    }
    for draw in draws {
        let Some((op, memory_full)) = both.callers.resolve(draw, &both.state) else { continue };
        if draw.waits || !both.together.is_empty() {
            both.check_together(op, draw.waits).await?;
        } else {
            both.check(&op, memory_full, draw.kind == Kind::Repeat).await?;
        }
    }
    both.end_together().await
}

/// Removes operations that the failure does not need. Returns the failure of the shortest sequence.
pub async fn shortest(real: &mut Real, mut draws: Vec<Draw>, mut failure: String) -> String {
    let mut length = draws.len() / 2;
    let mut tries = 0;
    while length > 0 {
        let mut at = 0;
        while at < draws.len() && tries < SHORTENED_MAX {
            tries += 1;
            let end = draws.len().min(at + length);
            let fewer = [&draws[..at], &draws[end..]].concat();
            let (mut tally, counted) = (Tally::default(), AtomicU64::new(0));
            match compare(real, &fewer, &mut tally, &counted).await {
                Ok(()) => at = end,
                Err(other) => (draws, failure) = (fewer, other),
            }
        }
        length /= 2;
    }
    failure
}

struct Both<'a> {
    real: &'a mut Real,
    tally: &'a mut Tally,
    operations: &'a AtomicU64,
    state: State,
    callers: CallSequences,
    settled: Settled,
    dump: Dump,
    trace: Vec<(Op, Reply)>,
    /// Operations that have run on the model, and will run on Redis together.
    together: Vec<Op>,
    /// The state before the first operation in `together`.
    before: State,
}

impl Both<'_> {
    /// Runs an operation on both sides and compares.
    async fn check(&mut self, op: &Op, memory_full: bool, repeat: bool) -> Result<(), String> {
        let before = self.state.clone();
        let expected = self.step(op, memory_full);
        // A repeated claim halts messages that were damaged meanwhile.
        let must_change_nothing = before == self.state
            && (matches!(expected, Reply::Refused(_)) || repeat && !memory_full);
        let digest = if must_change_nothing { Some(self.real.digest().await) } else { None };
        let found = self.real.apply(op, memory_full, &self.state).await;
        if found != expected {
            return self.fail(format!("answered {found:?}"));
        }
        if let Some(digest) = digest
            && self.real.digest().await != digest
        {
            return self.fail("a refused or repeated call changed something".to_owned());
        }
        self.compare_states(&before).await?;
        self.check_step(op, &expected, &before)?;
        if repeat {
            self.tally.count("repeated call");
            if self.trace.len() > 1
                && self.trace[self.trace.len() - 2] != self.trace[self.trace.len() - 1]
            {
                self.tally.count("repeated call, after others");
            }
        }
        self.tally.tell(op, &expected, &before, &self.state);
        self.callers.learn(op, &expected, &self.state);
        Ok(())
    }

    /// Runs an operation on the model, and later on Redis, together with the operations after it.
    /// Each call must get the same answer as if they ran one by one.
    async fn check_together(&mut self, op: Op, waits: bool) -> Result<(), String> {
        let is_other = |first: &Op| is_ingest(first) != is_ingest(&op);
        if self.together.first().is_some_and(is_other) || !self.real.can_begin(&op) {
            self.end_together().await?;
        }
        if !may_go_together(&op) {
            self.end_together().await?;
            return self.check(&op, false, false).await;
        }
        let before = self.state.clone();
        let expected = self.step(&op, false);
        self.check_step(&op, &expected, &before)?;
        self.tally.tell(&op, &expected, &before, &self.state);
        self.callers.learn(&op, &expected, &self.state);
        let has_new_epoch = before.epoch != self.state.epoch;
        if self.together.is_empty() {
            self.before = before;
        }
        let is_last = self.may_be_repeated(&op, &expected);
        self.together.push(op);
        if !waits || has_new_epoch || is_last {
            self.end_together().await?;
        }
        Ok(())
    }

    /// True if the call may leave a fast path. It is then repeated, and so runs after the others.
    fn may_be_repeated(&self, op: &Op, expected: &Reply) -> bool {
        let (Op::Ingest { known, .. } | Op::Complete { known, .. } | Op::Release { known, .. }) =
            op
        else {
            return false;
        };
        let is_one_lane = known.definition.ordering == Ordering::Destination;
        match (op, expected) {
            (Op::Ingest { .. }, Reply::Ingested(all, _)) => {
                is_one_lane && !all.iter().all(|one| matches!(one, Ingested::Stamped { .. }))
            }
            (Op::Complete { .. }, Reply::Statuses(all)) if all[..] == [Status::Ok] => {
                let found = self.state.destinations.get(known.name);
                let mut messages = found.iter().flat_map(|found| found.messages.values());
                is_one_lane && messages.any(|message| message.left != Left::default())
            }
            (Op::Release { .. }, _) => known.definition.ordering != Ordering::Key,
            _ => is_one_lane,
        }
    }

    /// Runs the collected operations on Redis, and compares.
    async fn end_together(&mut self) -> Result<(), String> {
        let (ops, before) = (std::mem::take(&mut self.together), std::mem::take(&mut self.before));
        if ops.is_empty() {
            return Ok(());
        }
        let found = self.real.apply_together(&ops, &self.state).await;
        let expected = self.trace[self.trace.len() - ops.len()..].iter().map(|(_, reply)| reply);
        if !found.iter().eq(expected) {
            return self.fail(format!("the last {}, together, answered {found:?}", ops.len()));
        }
        self.compare_states(&before).await?;
        // The first operation runs alone.
        if ops.len() > 2 {
            self.tally.count("calls together");
        }
        Ok(())
    }

    /// Runs an operation on the model.
    fn step(&mut self, op: &Op, memory_full: bool) -> Reply {
        self.operations.fetch_add(1, Relaxed);
        let expected = step(&mut self.state, op, memory_full);
        self.trace.push((op.clone(), expected.clone()));
        expected
    }

    fn fail<T>(&self, what: String) -> Result<T, String> {
        let lines = self.trace.iter().map(|(op, reply)| format!("\n{op:?} -> {reply:?}"));
        Err(format!("{what}\nafter{}", lines.collect::<String>()))
    }

    /// Compares the whole states.
    async fn compare_states(&mut self, before: &State) -> Result<(), String> {
        let dump = self.real.dump().await;
        // Destinations that neither side has changed were equal before.
        let names = touched((before, &self.dump), (&self.state, &dump));
        let snapshot = of_real(self.real, &dump, &names).await;
        if let Some(lines) = difference(&of_model(&self.state, &names), &snapshot) {
            return self.fail(lines);
        }
        self.dump = dump;
        Ok(())
    }

    /// Checks the rules that must hold after each operation.
    fn check_step(&mut self, op: &Op, expected: &Reply, before: &State) -> Result<(), String> {
        let broken = self.state.broken_invariant();
        let broken =
            broken.or_else(|| self.tally.transitions.tell(op, expected, before, &self.state));
        let broken = broken.or_else(|| self.broken_order(op, expected, before));
        broken.map_or(Ok(()), |broken| self.fail(broken))
    }

    /// Checks that each run is the front of its lane, and that settled positions ascend, across
    /// removals.
    fn broken_order(&mut self, op: &Op, reply: &Reply, before: &State) -> Option<String> {
        let (Op::Release { known, lanes, .. }, Reply::Runs { runs, .. }) = (op, reply) else {
            return None;
        };
        for (request, run) in lanes.iter().zip(runs) {
            let destination = self.state.destinations.get(known.name)?;
            let lane = destination.lane(request.lane).map(|(sequence, _)| sequence);
            let front = lane.filter(|sequence| *sequence > request.held_upto);
            if !front.take(run.messages.len()).eq(run.messages.iter().map(|m| m.sequence)) {
                return Some("what was handed out is not the front of its lane".to_owned());
            }
            let old = before.destinations.get(known.name)?;
            let gone =
                old.lane(request.lane).filter(|(at, _)| !destination.messages.contains_key(at));
            let last = self.settled.entry((known.name, request.lane)).or_default();
            for (sequence, message) in gone {
                if matches!(request.lane, Lane::Single(_)) {
                    continue;
                }
                if (message.epoch, sequence) <= *last {
                    return Some(format!("{sequence} was settled after {last:?}"));
                }
                *last = (message.epoch, sequence);
            }
        }
        None
    }
}

fn is_ingest(op: &Op) -> bool {
    matches!(op, Op::Ingest { .. })
}

/// True if the call of the operation may run as a block, together with others.
fn may_go_together(op: &Op) -> bool {
    is_ingest(op) || matches!(op, Op::Claim { .. } | Op::Complete { .. } | Op::Release { .. })
}
