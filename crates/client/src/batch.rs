//! Sends a batch. The answer has one result for each line, in order.

use std::time::Duration;

use anyhow::{Context, ensure};
use reqwest::{Response, header};
use serde::Deserialize;

use super::service::{Problem, Refused, Service, Unreachable, retry_after};

/// The failure of a whole batch: no message is known to be accepted.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The service refused the batch.
    #[error(transparent)]
    Refused(Refused),
    /// There was no complete answer. The service may have stored the messages.
    #[error(transparent)]
    Unanswered(Unreachable),
}

/// The answer to a batch.
pub struct Posted {
    /// The result of each message; or the failure of the whole batch.
    pub results: Result<Vec<Result<Deliveries, Problem>>, Failure>,
    /// The wait that the service asks for.
    pub wait: Option<Duration>,
}

impl Service {
    /// Sends `count` messages, each an object on a line of its own.
    pub async fn post_batch(&self, lines: Vec<u8>, count: usize) -> anyhow::Result<Posted> {
        let unanswered = |error| Posted { results: Err(Failure::Unanswered(error)), wait: None };
        let answer = match self.post("/v1/messages", "application/x-ndjson", lines).await {
            Ok(answer) => answer,
            Err(error) => return Ok(unanswered(error)),
        };
        let wait = retry_after(&answer);
        // If no message was accepted, the answer has the status of the first line, but still a result for each line.
        if !answer.status().is_success() && !has_results(&answer) {
            let failure = match self.refusal(answer).await.downcast::<Refused>() {
                Ok(refused) => Failure::Refused(refused),
                Err(error) => Failure::Unanswered(error.downcast::<Unreachable>()?),
            };
            return Ok(Posted { results: Err(failure), wait });
        }
        let text = match answer.text().await {
            Ok(text) => text,
            Err(error) => return Ok(unanswered(self.unreachable(error))),
        };
        Ok(Posted { results: Ok(parse_results(&text, count)?), wait })
    }
}

/// True if the answer has a result for each message.
fn has_results(answer: &Response) -> bool {
    let content_type = answer.headers().get(header::CONTENT_TYPE);
    content_type.is_some_and(|value| value.as_bytes().starts_with(b"application/x-ndjson"))
}

/// The copies of an accepted message.
#[derive(Debug, Deserialize)]
pub struct Deliveries {
    /// One delivery for each destination.
    pub deliveries: Vec<Delivery>,
}

/// A message's position at one destination.
#[derive(Debug, Deserialize)]
pub struct Delivery {
    /// The destination.
    pub destination: String,
    /// The sequence of the message at this destination.
    pub sequence: u64,
    /// True if the message had been stored before.
    #[serde(default)]
    pub duplicate: bool,
}

/// A line of the answer. If it has a status, it is a problem. Such a line may also list deliveries: the copies that
/// were stored.
#[derive(Deserialize)]
struct BatchLine {
    status: Option<u16>,
    #[serde(default)]
    code: String,
    #[serde(default)]
    detail: String,
    mark: Option<String>,
    #[serde(default)]
    deliveries: Vec<Delivery>,
}

/// Parses the results of `count` messages.
fn parse_results(text: &str, count: usize) -> anyhow::Result<Vec<Result<Deliveries, Problem>>> {
    let one = |line: &str| -> anyhow::Result<_> {
        let line: BatchLine = serde_json::from_str(line)
            .with_context(|| format!("the service answered {line:?}, which is no result"))?;
        Ok(match line.status {
            Some(status) => {
                Err(Problem { status, code: line.code, detail: line.detail, mark: line.mark })
            }
            None => {
                // An answer from another service must not count as accepted.
                ensure!(
                    !line.deliveries.is_empty(),
                    "the service answered a result without deliveries"
                );
                Ok(Deliveries { deliveries: line.deliveries })
            }
        })
    };
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    let results = lines.map(one).collect::<anyhow::Result<Vec<_>>>()?;
    let found = results.len();
    ensure!(found == count, "the service answered {found} results to {count} messages");
    Ok(results)
}

/// The index of the first message that was not accepted: continue there.
///
/// If a message behind it was refused permanently, it waits too, and is sent again.
pub fn first_refused<T, E>(results: &[Result<T, E>]) -> Option<usize> {
    results.iter().position(Result::is_err)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OK: &str = r#"{"id":"a","deliveries":[{"destination":"erp","sequence":1,"epoch":1}]}"#;
    const FULL: &str = r#"{"type":"about:blank","status":429,"code":"backlog_full","detail":"…",
        "deliveries":[{"destination":"crm","sequence":4}]}"#;

    #[test]
    fn result_with_a_status_is_a_problem_even_with_deliveries() {
        let full = FULL.replace('\n', " ");
        let results = parse_results(&format!("{OK}\n{full}\n{OK}\n"), 3).unwrap();
        assert_eq!(first_refused(&results), Some(1));
        let problem = results[1].as_ref().unwrap_err();
        assert_eq!((problem.code.as_str(), problem.is_temporary()), ("backlog_full", true));
        assert_eq!(results[2].as_ref().unwrap().deliveries[0].sequence, 1);
    }

    #[test]
    fn a_missing_result_is_an_error_and_not_an_acceptance() {
        assert!(parse_results(OK, 2).is_err());
        for other in ["<html>", "{}", r#"{"ok": true}"#, r#"{"deliveries": []}"#] {
            assert!(parse_results(other, 1).is_err(), "{other}");
        }
        assert_eq!(first_refused(&parse_results(OK, 1).unwrap()), None);
    }
}
