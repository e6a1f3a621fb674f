//! The processes that evaluate one expression.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::{
    sync::Semaphore,
    time::{Instant, timeout_at},
};

use super::{
    protocol::{self, Evaluated, Input, Setup},
    runner::{PROGRAM_VARIABLE, Program, Runner},
};

/// The time limits of one evaluation.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// For everything: to wait for a process, to start one, and to evaluate.
    pub whole: Duration,
    /// To wait for a process, and again to evaluate. Starting a process does not count.
    pub step: Duration,
}

/// Why there is no result. Another try may have one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EvaluationError {
    /// The time was over.
    #[error("timed out after {} ms: {what}", limit.as_millis())]
    TimedOut {
        /// The limit.
        limit: Duration,
        /// What took the time, as a sentence.
        what: String,
    },
    /// The process could not be started, or died. The text is a sentence.
    #[error("{0}")]
    Broken(String),
}

/// An expression, and the processes that evaluate it. No process runs before the first evaluation.
pub struct Evaluator {
    setup: Setup,
    program: Program,
    slots: Semaphore,
    /// Idle runners. Idle and busy ones together are never more than slots.
    idle: Mutex<Vec<Runner>>,
}

/// How many evaluations of one expression run at once: as many as CPUs, because more would not be
/// faster.
pub fn at_once() -> usize {
    std::thread::available_parallelism().map_or(2, usize::from).max(2)
}

/// The deadlines of one evaluation that has begun.
struct Clock {
    limits: Limits,
    deadline: Instant,
}

impl Clock {
    fn start(limits: Limits) -> Clock {
        Clock { limits, deadline: Instant::now() + limits.whole }
    }

    /// The end of a step that begins now, and the limit that sets it.
    fn step(&self) -> (Instant, Duration) {
        let end = Instant::now() + self.limits.step;
        match end < self.deadline {
            true => (end, self.limits.step),
            false => (self.deadline, self.limits.whole),
        }
    }
}

impl Evaluator {
    /// For this expression. An output longer than `output_bytes_max` is none.
    pub fn new(expression: String, output_bytes_max: usize, program: Program) -> Evaluator {
        Evaluator {
            setup: Setup { expression, output_bytes_max },
            program,
            slots: Semaphore::new(at_once()),
            idle: Mutex::default(),
        }
    }

    /// The process ids of the idle runners.
    pub fn idle(&self) -> Vec<u32> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.iter().filter_map(Runner::id).collect()
    }

    /// Evaluates the expression. If this is dropped early, the process is killed.
    pub async fn evaluate(
        &self,
        input: &Input,
        limits: Limits,
    ) -> Result<Evaluated, EvaluationError> {
        let clock = Clock::start(limits);
        let (end, limit) = clock.step();
        let Ok(_slot) = timeout_at(end, self.slots.acquire()).await else {
            let what = "other evaluations of the expression took all that time";
            return Err(timed_out(limit, what));
        };
        let waiting = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        if let Some(runner) = waiting
            && let Ok(answer) = self.ask(runner, input, &clock).await?
        {
            return Ok(answer);
        }
        // An idle runner may have been killed: that is not a failure.
        let runner = self.started(&clock).await?;
        self.ask(runner, input, &clock).await?.map_err(EvaluationError::Broken)
    }

    async fn started(&self, clock: &Clock) -> Result<Runner, EvaluationError> {
        let setup = protocol::frame(&self.setup);
        let setup = setup.map_err(|error| EvaluationError::Broken(error.to_string()))?;
        match timeout_at(clock.deadline, Runner::start(&self.program, &setup)).await {
            Ok(runner) => runner.map_err(EvaluationError::Broken),
            Err(_) => {
                let what = format!(
                    "the program that runs expressions did not answer (see {PROGRAM_VARIABLE})"
                );
                Err(timed_out(clock.limits.whole, what))
            }
        }
    }

    /// Asks this runner, which is idle afterwards. The inner error says why the runner failed.
    async fn ask(
        &self,
        mut runner: Runner,
        input: &Input,
        clock: &Clock,
    ) -> Result<Result<Evaluated, String>, EvaluationError> {
        let (end, limit) = clock.step();
        let asked = runner.ask(input, self.setup.output_bytes_max);
        let Ok(answer) = timeout_at(end, asked).await else {
            // Dropping the runner kills it.
            return Err(timed_out(limit, "the expression was still running, and was stopped"));
        };
        if answer.is_ok() {
            self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(runner);
        }
        Ok(answer)
    }
}

fn timed_out(limit: Duration, what: impl Into<String>) -> EvaluationError {
    EvaluationError::TimedOut { limit, what: what.into() }
}
