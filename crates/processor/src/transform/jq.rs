//! The transform that evaluates a `jq` expression.

use std::time::Duration;

use async_trait::async_trait;

use super::{Failure, Output, Transform};
use domain::{Body, ErrorKind, Stamped};
use jq::{Evaluated, EvaluationError, Evaluators, Input, Limits, Program, at_once};

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
    /// All destinations share the processes: otherwise each quiet destination would start its own.
    evaluators: Evaluators,
    expression: String,
    limits: Limits,
}

impl Jq {
    /// The expression of this definition. An output longer than `output_bytes_max` is a permanent
    /// failure.
    pub fn new(transform: &domain::Transform, output_bytes_max: usize, program: Program) -> Jq {
        Jq::sharing(transform, Evaluators::new(output_bytes_max, program))
    }

    /// The same, with evaluators that other destinations use too.
    pub(super) fn sharing(transform: &domain::Transform, evaluators: Evaluators) -> Jq {
        let expression = transform.expression.clone().unwrap_or_default();
        let timeout = Duration::from_millis(transform.timeout_ms);
        Jq { evaluators, expression, limits: Limits { whole: timeout, step: timeout } }
    }

    /// The process ids of the idle runners.
    pub fn idle(&self) -> Vec<u32> {
        self.evaluators.idle()
    }
}

#[async_trait]
impl Transform for Jq {
    async fn transform(&self, message: &Stamped) -> Result<Output, Failure> {
        let evaluator = self.evaluators.of(&self.expression);
        match evaluator.evaluate(&input(message), self.limits).await? {
            Evaluated::One(bytes) => Ok(Output::Deliver(Body { content_type: JSON.into(), bytes })),
            Evaluated::None => Ok(Output::Drop),
            Evaluated::Several => Err(Failure::permanent(
                "the expression makes more than one output; collect them into an array, as in \
                 [.items[]]",
            )),
            Evaluated::Failed(reason) => Err(Failure::permanent(reason)),
        }
    }

    fn at_once_max(&self) -> Option<usize> {
        Some(at_once())
    }
}

impl From<EvaluationError> for Failure {
    fn from(error: EvaluationError) -> Failure {
        let failure = Failure::retryable(error.to_string());
        match error {
            EvaluationError::TimedOut { .. } => failure.with_kind(ErrorKind::Timeout),
            EvaluationError::Broken(_) => failure,
        }
    }
}

fn input(message: &Stamped) -> Input {
    let Stamped { message, position, destination, .. } = message;
    Input {
        body: message.body.bytes.clone(),
        id: Some(message.id.clone()),
        destination: destination.to_string(),
        sequence: Some(position.sequence),
        key: message.key.clone(),
        headers: message.headers.clone(),
    }
}
