//! The processes that evaluate expressions, and the number that a destination may use at once.

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use lru::LruCache;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep, timeout_at};

use super::{
    child::COMPILED_MAX,
    protocol::{self, Evaluated, Input, Setup},
    runner::{PROGRAM_VARIABLE, Program, Runner},
};
use shares::{FairShare, Shares};

/// A process that was idle for this time ends.
const IDLE: Duration = Duration::from_secs(60);
/// An expression is quick if its last evaluation took at most this time. Expressions that are not quick get fewer
/// processes.
const QUICK: Duration = Duration::from_secs(5);

/// The time limits of one evaluation.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The limit of all steps together: the wait for a process, its start, and the evaluation.
    pub whole: Duration,
    /// The limit of each of two steps: the wait for a process, and the evaluation. The start of a process has no such
    /// limit.
    pub step: Duration,
}

/// Why there is no result. Another try may succeed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EvaluationError {
    /// A time limit was reached.
    #[error("timed out after {} ms: {what}", limit.as_millis())]
    TimedOut {
        /// The limit.
        limit: Duration,
        /// The step that took the time, as a sentence.
        what: String,
    },
    /// The process could not be started, or died. The text is a sentence.
    #[error("{0}")]
    Broken(String),
}

/// Processes, each of which can evaluate any expression. The first process starts with the first evaluation.
pub(super) struct Pool {
    output_bytes_max: usize,
    program: Program,
    /// Shares the processes among destinations.
    share: FairShare<String>,
    processes_max: usize,
    idle: Mutex<Idle<Runner>>,
}

/// A process, and the expressions that it keeps compiled. This cache drops expressions by the same rule as the process.
struct Process<T> {
    runner: T,
    compiled: LruCache<Arc<str>, ()>,
}

impl<T> Process<T> {
    fn new(runner: T) -> Process<T> {
        Process { runner, compiled: LruCache::new(COMPILED_MAX) }
    }

    fn has_room(&self) -> bool {
        self.compiled.len() < COMPILED_MAX.get()
    }
}

/// Idle processes. Idle and busy processes together are never more than `processes_max`.
struct Idle<T> {
    /// Each process, and when it became idle. The process used last is at the end.
    processes: Vec<(Process<T>, Instant)>,
    /// True while a task runs that ends idle processes.
    is_swept: bool,
}

impl<T> Default for Idle<T> {
    fn default() -> Self {
        Idle { processes: Vec::new(), is_swept: false }
    }
}

impl<T> Idle<T> {
    /// Drops processes that were idle for [`IDLE`]. Dropping a runner kills it.
    fn expire(&mut self, now: Instant) {
        self.processes.retain(|(_, since)| now.duration_since(*since) < IDLE);
    }

    /// Takes a process that keeps this expression compiled, or has room for it. If there is none and one more process
    /// may start, returns `None`: an idle process would have to drop a compiled expression. Otherwise takes the process
    /// that was used last.
    fn take(&mut self, expression: &str, may_be_more: bool) -> Option<Process<T>> {
        let last = |is_fit: &dyn Fn(&Process<T>) -> bool| {
            self.processes.iter().rposition(|(process, _)| is_fit(process))
        };
        let at = last(&|process| process.compiled.contains(expression));
        match at.or_else(|| last(&Process::has_room)) {
            Some(at) => Some(self.processes.remove(at).0),
            None if may_be_more => None,
            None => self.processes.pop().map(|(process, _)| process),
        }
    }
}

/// An expression, and the pool of processes that evaluate it.
pub struct Evaluator {
    expression: Arc<str>,
    /// True if the most recent finished evaluation was quick.
    is_quick: AtomicBool,
    pool: Arc<Pool>,
}

/// The number of evaluations of one destination that run at once: one for each CPU, because more
/// would not be faster.
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

    /// The end of a step that begins now, and the limit from which it follows.
    fn step(&self) -> (Instant, Duration) {
        let end = Instant::now() + self.limits.step;
        match end < self.deadline {
            true => (end, self.limits.step),
            false => (self.deadline, self.limits.whole),
        }
    }
}

impl Pool {
    /// Runs at most `processes` processes. An output longer than `output_bytes_max` is an error.
    pub(super) fn new(output_bytes_max: usize, program: Program, processes: usize) -> Pool {
        let share = FairShare::new("expressions", Shares::new(processes, at_once()));
        Pool { output_bytes_max, program, share, processes_max: processes, idle: Mutex::default() }
    }

    /// The process ids of the idle runners.
    pub(super) fn idle(&self) -> Vec<u32> {
        self.idle.lock().processes.iter().filter_map(|(process, _)| process.runner.id()).collect()
    }

    /// An idle process for this expression. `None`: the caller, which has a place, starts a new process.
    fn take_idle(&self, expression: &str) -> Option<Process<Runner>> {
        let mut idle = self.idle.lock();
        let may_be_more = idle.processes.len() + self.share.taken() <= self.processes_max;
        idle.take(expression, may_be_more)
    }

    fn put_back(self: &Arc<Self>, process: Process<Runner>) {
        let mut idle = self.idle.lock();
        idle.processes.push((process, Instant::now()));
        if !std::mem::replace(&mut idle.is_swept, true) {
            tokio::spawn(sweep(Arc::downgrade(self)));
        }
    }

    async fn started(&self, clock: &Clock) -> Result<Runner, EvaluationError> {
        let setup = protocol::frame(&Setup { output_bytes_max: self.output_bytes_max });
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
}

/// Ends processes that are idle for long. Returns when no process is idle.
async fn sweep(pool: Weak<Pool>) {
    loop {
        sleep(IDLE).await;
        let Some(pool) = pool.upgrade() else { return };
        let mut idle = pool.idle.lock();
        idle.expire(Instant::now());
        if idle.processes.is_empty() {
            idle.is_swept = false;
            return;
        }
    }
}

impl Evaluator {
    pub(super) fn new(expression: &str, pool: Arc<Pool>) -> Evaluator {
        Evaluator { expression: expression.into(), is_quick: AtomicBool::new(false), pool }
    }

    /// Evaluates the expression. Dropping this future early kills the process.
    pub async fn evaluate(
        &self,
        input: &Input,
        limits: Limits,
    ) -> Result<Evaluated, EvaluationError> {
        let clock = Clock::start(limits);
        let (end, limit) = clock.step();
        let is_heavy = !self.is_quick.load(Ordering::Relaxed);
        let place = self.pool.share.take_as(&input.destination, is_heavy);
        let Ok(_place) = timeout_at(end, place).await else {
            let what = "it waited all that time for one of the processes that run expressions";
            return Err(timed_out(limit, what));
        };
        if let Some(process) = self.pool.take_idle(&self.expression)
            && let Ok(answer) = self.ask(process, input, &clock).await?
        {
            return Ok(answer);
        }
        // The idle runner may have been killed: use a new one instead of failing.
        let process = Process::new(self.pool.started(&clock).await?);
        self.ask(process, input, &clock).await?.map_err(EvaluationError::Broken)
    }

    /// Asks this process to evaluate, and puts it back as idle. The inner error says why the runner failed.
    async fn ask(
        &self,
        mut process: Process<Runner>,
        input: &Input,
        clock: &Clock,
    ) -> Result<Result<Evaluated, String>, EvaluationError> {
        let (end, limit) = clock.step();
        process.compiled.put(self.expression.clone(), ());
        let asked = process.runner.ask(&self.expression, input, self.pool.output_bytes_max);
        let begun = Instant::now();
        let answer = timeout_at(end, asked).await;
        self.is_quick.store(answer.is_ok() && begun.elapsed() <= QUICK, Ordering::Relaxed);
        let Ok(answer) = answer else {
            // Dropping the runner kills it.
            return Err(timed_out(limit, "the expression was still running, and was stopped"));
        };
        if answer.is_ok() {
            self.pool.put_back(process);
        }
        Ok(answer)
    }
}

fn timed_out(limit: Duration, what: impl Into<String>) -> EvaluationError {
    EvaluationError::TimedOut { limit, what: what.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_is_idle_for_long_goes_and_one_that_was_used_stays() {
        let (begun, mut idle) = (Instant::now(), Idle::default());
        let numbers = |idle: &Idle<i32>| {
            idle.processes.iter().map(|(process, _)| process.runner).collect::<Vec<_>>()
        };
        idle.processes = vec![(Process::new(1), begun), (Process::new(2), begun + IDLE / 2)];
        idle.expire(begun + IDLE / 2);
        assert_eq!(numbers(&idle), [1, 2]);
        idle.expire(begun + IDLE);
        assert_eq!(numbers(&idle), [2]);
        idle.expire(begun + IDLE / 2 + IDLE);
        assert!(numbers(&idle).is_empty());
    }

    /// Takes a process for this expression, and puts it back. Returns the number of the process.
    fn took(idle: &mut Idle<i32>, expression: usize, may_be_more: bool) -> Option<i32> {
        let process = idle.take(&expression.to_string(), may_be_more)?;
        let number = process.runner;
        idle.processes.push((process, Instant::now()));
        Some(number)
    }

    #[test]
    fn expression_goes_to_its_compiled_process_or_gets_a_new_one() {
        let (mut idle, max) = (Idle::default(), COMPILED_MAX.get());
        for (number, expressions) in [(1, 0..max), (2, max..2 * max - 1)] {
            let mut process = Process::new(number);
            for one in expressions {
                process.compiled.put(one.to_string().into(), ());
            }
            idle.processes.push((process, Instant::now()));
        }
        assert_eq!(took(&mut idle, max, true), Some(2));
        assert_eq!(took(&mut idle, 0, true), Some(1));
        assert_eq!(took(&mut idle, 9 * max, true), Some(2), "it has room");
        let (full, _) = idle.processes.last_mut().unwrap();
        full.compiled.put("one more".into(), ());
        assert_eq!(took(&mut idle, 9 * max, true), None, "a new one is started");
        assert_eq!(took(&mut idle, 9 * max, false), Some(2), "no more may be started");
    }
}
