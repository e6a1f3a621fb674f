//! The transform that evaluates a `jq` expression. In a child process that can be killed: an
//! expression may run forever and use any amount of memory, and a thread cannot be stopped.

pub mod evaluate;
mod protocol;
mod runner;

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use tokio::{
    sync::Semaphore,
    time::{Instant, timeout_at},
};

use super::{Failure, Output, Transform};
use crate::domain::{self, Body, ErrorKind, Stamped};
use protocol::{Answer, Request, Setup};
use runner::Runner;

pub use runner::{PROGRAM_VARIABLE, Program, is_meant_as_runner};

/// The content type of every output.
const JSON: &str = "application/json";

/// A `jq` expression.
///
/// ```text
/// one output                         deliver it
/// none (empty)                       drop
/// more than one, an error, no JSON   permanent failure
/// timed out, its process died        retry
/// ```
pub struct Jq {
    setup: Setup,
    program: Program,
    timeout: Duration,
    /// As many evaluations at once as CPUs: more would not be faster.
    slots: Semaphore,
    slots_max: usize,
    /// Idle runners. Idle and busy ones together are never more than slots.
    idle: Mutex<Vec<Runner>>,
}

impl Jq {
    /// The expression of this definition. An output longer than `output_bytes_max` is a permanent
    /// failure.
    pub fn new(transform: &domain::Transform, output_bytes_max: usize, program: Program) -> Jq {
        let expression = transform.expression.clone().unwrap_or_default();
        let slots = std::thread::available_parallelism().map_or(2, usize::from).max(2);
        Jq {
            setup: Setup { expression, output_bytes_max },
            program,
            timeout: Duration::from_millis(transform.timeout_ms),
            slots: Semaphore::new(slots),
            slots_max: slots,
            idle: Mutex::default(),
        }
    }

    /// The process ids of the idle runners.
    pub fn idle(&self) -> Vec<u32> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.iter().filter_map(Runner::id).collect()
    }

    async fn started(&self, deadline: Instant) -> Result<Runner, Failure> {
        let setup = protocol::frame(&self.setup).map_err(|error| again(error.to_string()))?;
        match timeout_at(deadline, Runner::start(&self.program, &setup)).await {
            Ok(runner) => runner.map_err(again),
            Err(_) => Err(self.timed_out(&format!(
                "the program that runs expressions did not answer (see {PROGRAM_VARIABLE})"
            ))),
        }
    }

    /// Asks this runner, which is idle afterwards. The inner error says why the runner failed.
    async fn ask(
        &self,
        mut runner: Runner,
        request: &Request,
        deadline: Instant,
    ) -> Result<Result<Answer, String>, Failure> {
        let asked = runner.ask(request, self.setup.output_bytes_max);
        let Ok(answer) = timeout_at(deadline, asked).await else {
            // Dropping the runner kills it.
            return Err(self.timed_out("the expression was still running, and was stopped"));
        };
        if answer.is_ok() {
            self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(runner);
        }
        Ok(answer)
    }

    fn timed_out(&self, what: &str) -> Failure {
        let reason = format!("timed out after {} ms: {what}", self.timeout.as_millis());
        Failure::retryable(reason).with_kind(ErrorKind::Timeout)
    }
}

#[async_trait]
impl Transform for Jq {
    async fn transform(&self, message: &Stamped) -> Result<Output, Failure> {
        let deadline = Instant::now() + self.timeout;
        let Ok(slot) = timeout_at(deadline, self.slots.acquire()).await else {
            return Err(self.timed_out("other evaluations of the expression took all that time"));
        };
        let request = request(message);
        let waiting = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let answer = match waiting {
            Some(runner) => self.ask(runner, &request, deadline).await?.ok(),
            None => None,
        };
        let answer = match answer {
            Some(answer) => answer,
            // An idle runner may have been killed: that is not a failed attempt.
            None => {
                let runner = self.started(deadline).await?;
                self.ask(runner, &request, deadline).await?.map_err(again)?
            }
        };
        drop(slot);
        match answer {
            Answer::Deliver(bytes) => {
                Ok(Output::Deliver(Body { content_type: JSON.into(), bytes }))
            }
            Answer::Drop => Ok(Output::Drop),
            Answer::Failed(reason) => Err(Failure::permanent(reason)),
        }
    }

    fn at_once_max(&self) -> Option<usize> {
        Some(self.slots_max)
    }
}

fn again(reason: String) -> Failure {
    Failure::retryable(reason)
}

fn request(message: &Stamped) -> Request {
    let Stamped { message, position, destination, .. } = message;
    Request {
        body: message.body.bytes.clone(),
        id: message.id.clone(),
        destination: destination.to_string(),
        sequence: position.sequence,
        key: message.key.clone(),
        headers: message.headers.clone(),
    }
}
