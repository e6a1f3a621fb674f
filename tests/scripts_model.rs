//! Random operations on the reference model of one partition and on the real scripts in a real
//! Redis: after each, the answers and the whole state must be the same.
//!
//! `RESEQ_MODEL_CASES` sets how many sequences of operations are tried; `RESEQ_MODEL_SEED` (in
//! hex, as a failure prints it) which.

mod model;
mod scripts;
mod support;

use std::collections::BTreeMap;

use model::{
    draw::{Draw, Kind, draws},
    generate::Callers,
    op::{Op, Reply},
    real::Real,
    snapshot::{difference, of_model, of_real},
    state::{Lane, Name, State},
    step::step,
    tally::Tally,
};
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};
use reseq::domain::Sequence;

/// Sequences of operations, unless told otherwise.
const CASES: u32 = 240;
/// How often so many are tried, at the most, until every case that is wanted has come up.
const ROUNDS_MAX: u128 = 4;
/// The most operations of one sequence.
const OPS_MAX: usize = 200;

/// The last place settled in each lane, over all removals.
type Settled = BTreeMap<(Name, Lane), (u64, Sequence)>;

#[test]
fn the_scripts_do_and_answer_what_the_model_says() {
    let cases = std::env::var("RESEQ_MODEL_CASES").ok().and_then(|text| text.parse().ok());
    let seed = std::env::var("RESEQ_MODEL_SEED").ok();
    let seed =
        seed.and_then(|text| u128::from_str_radix(&text, 16).ok()).unwrap_or_else(rand::random);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let real = std::cell::RefCell::new(runtime.block_on(Real::start()));
    let tally = std::cell::RefCell::new(Tally::default());
    let is_whole = cases.is_none_or(|cases| cases >= CASES);
    // Some cases are rare: where one has not come up yet, it gets further chances.
    for round in 0..ROUNDS_MAX {
        let seed = seed.wrapping_add(round);
        let mut runner = runner(seed, cases.unwrap_or(CASES));
        let result = runner.run(&draws(OPS_MAX), |draws| {
            let (mut real, mut tally) = (real.borrow_mut(), tally.borrow_mut());
            runtime.block_on(run(&mut real, &draws, &mut tally)).map_err(TestCaseError::fail)
        });
        if let Err(failure) = result {
            panic!("RESEQ_MODEL_SEED={seed:x}\n{failure}");
        }
        if !is_whole || tally.borrow().missing().is_empty() {
            break;
        }
    }
    let tally = tally.into_inner();
    println!("{tally:#?}");
    if is_whole {
        let missing = tally.missing();
        assert!(missing.is_empty(), "{missing:?} never happened; seed {seed:x}\n{tally:#?}");
    }
}

fn runner(seed: u128, cases: u32) -> TestRunner {
    let config =
        Config { cases, failure_persistence: None, max_shrink_iters: 1000, ..Config::default() };
    let mut bytes = [0; 32];
    bytes[..16].copy_from_slice(&seed.to_be_bytes());
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes))
}

async fn run(real: &mut Real, draws: &[Draw], tally: &mut Tally) -> Result<(), String> {
    real.reset().await;
    let mut world = World {
        real,
        tally,
        state: State::default(),
        callers: Callers::default(),
        settled: Settled::new(),
        digest: String::new(),
        trace: Vec::new(),
    };
    for op in Callers::beginning() {
        world.check(&op, false, false).await?;
    }
    for draw in draws {
        if let Some((op, memory_full)) = world.callers.resolve(draw, &world.state) {
            world.check(&op, memory_full, draw.kind == Kind::Repeat).await?;
        }
    }
    Ok(())
}

struct World<'a> {
    real: &'a mut Real,
    tally: &'a mut Tally,
    state: State,
    callers: Callers,
    settled: Settled,
    digest: String,
    trace: Vec<String>,
}

impl World<'_> {
    /// Carries out an operation on both sides and compares.
    async fn check(&mut self, op: &Op, memory_full: bool, repeat: bool) -> Result<(), String> {
        let before = self.state.clone();
        let expected = step(&mut self.state, op, memory_full);
        self.trace.push(format!("{op:?} -> {expected:?}"));
        let fail =
            |trace: &[String], what: String| Err(format!("{what}\nafter\n{}", trace.join("\n")));
        let found = self.real.apply(op, memory_full, &self.state).await;
        if found != expected {
            return fail(&self.trace, format!("answered {found:?}"));
        }
        let snapshot = of_real(self.real).await;
        if let Some(lines) = difference(&of_model(&self.state), &snapshot) {
            return fail(&self.trace, lines);
        }
        if let Some(broken) = self.state.broken_invariant() {
            return fail(&self.trace, broken);
        }
        if let Some(broken) = self.broken_order(op, &expected, &before) {
            return fail(&self.trace, broken);
        }
        let digest = self.real.digest().await;
        let changed = digest != self.digest;
        let refused = matches!(expected, Reply::Refused(_)) && before == self.state;
        if (refused || repeat && !memory_full && before.epoch == self.state.epoch) && changed {
            return fail(&self.trace, "a refused or repeated call changed something".to_owned());
        }
        self.digest = digest;
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

    /// What is handed out is the front of its lane; what is settled goes up, over all removals.
    fn broken_order(&mut self, op: &Op, reply: &Reply, before: &State) -> Option<String> {
        let (Op::Release { known, lanes, .. }, Reply::Runs { runs, .. }) = (op, reply) else {
            return None;
        };
        for (request, run) in lanes.iter().zip(runs) {
            let destination = self.state.destinations.get(known.name)?;
            let lane = destination.lane(request.lane).map(|(sequence, _)| sequence);
            let front = lane.filter(|sequence| *sequence > request.in_hand);
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
