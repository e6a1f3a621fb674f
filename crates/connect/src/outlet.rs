//! Sends the messages of one source, and knows the marks of its destinations.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use client::{
    Call, Problem, Refused, Service, Unreachable,
    batch::{Deliveries, parse_results},
    paths::path_of,
    problem_of, retry_after,
};
use metrics::counter;
use serde_json::json;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::{
    board::{Board, State},
    line::Line,
    settings::OnRefused,
    source::Fault,
};

/// The wait before the same messages are sent again, unless the service names one.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// How long to send the same messages again before the source is looked at again: it may have changed, or want to end.
const SEND_MAX: Duration = Duration::from_secs(30);

/// Where the messages of a source go.
pub struct Outlet {
    pub service: Arc<Service>,
    /// The name of the source in the configuration.
    pub label: String,
    /// The name under which the destinations keep its marks.
    pub source: String,
    pub destinations: Vec<String>,
    /// The last position that each destination has, as far as is known.
    pub marks: Vec<Option<String>>,
    pub on_refused: OnRefused,
    pub board: Arc<Board>,
    pub shutdown: CancellationToken,
    /// The last position that was refused for good.
    pub refused: Option<String>,
}

/// What the service says to a batch.
struct Posted {
    /// For each line: whether it is new, or why it was refused. Or why the whole batch was refused.
    results: Result<Vec<Result<bool, Problem>>, Problem>,
    /// How long the service asks to wait.
    wait: Option<Duration>,
}

impl Posted {
    fn refused(problem: Problem, wait: Option<Duration>) -> Posted {
        Posted { results: Err(problem), wait }
    }
}

/// What became of the lines that were sent together.
struct Answered {
    /// Those to send again.
    rest: Vec<Line>,
    /// How long to wait before, and why.
    wait: Option<(Duration, String)>,
    fault: Option<Fault>,
}

impl Outlet {
    /// The marks that the destinations have now.
    pub async fn read_marks(&self) -> Result<Vec<Option<String>>, Fault> {
        let mut marks = Vec::with_capacity(self.destinations.len());
        for destination in &self.destinations {
            let mark = mark_of(&self.service, destination, &self.source).await;
            marks.push(mark.map_err(|error| fault_of(destination, &error))?);
        }
        Ok(marks)
    }

    /// Sends these until all are answered, or none was accepted for [`SEND_MAX`]. The first of a destination has its
    /// mark as `after`, if there is one.
    pub async fn send(&mut self, mut lines: Vec<Line>) -> Result<(), Fault> {
        let (mut count_max, mut moved) = (usize::MAX, Instant::now());
        while !lines.is_empty() {
            let later = lines.split_off(lines.len().min(count_max));
            let (count, is_one) = (lines.len(), lines.len() == 1);
            let Posted { results, wait } = self.post(&lines).await?;
            let answered = match results {
                Ok(results) => self.answered(lines, results, wait),
                // Together they are too large.
                Err(problem) if problem.status == 413 && !is_one => {
                    count_max = 1;
                    Answered { rest: lines, wait: None, fault: None }
                }
                Err(problem) if is_one => self.answered(lines, vec![Err(problem)], wait),
                Err(problem) if problem.is_temporary() => {
                    let wait = Some((wait.unwrap_or(RETRY_AFTER), problem.to_string()));
                    Answered { rest: lines, wait, fault: None }
                }
                Err(problem) => return Err(Fault::Halted(problem.to_string())),
            };
            lines = answered.rest;
            if lines.len() < count {
                moved = Instant::now();
            }
            lines.extend(later);
            if let Some(fault) = answered.fault {
                return Err(fault);
            }
            match answered.wait {
                Some((wait, why)) => match SEND_MAX.saturating_sub(moved.elapsed()) {
                    Duration::ZERO => return Err(Fault::Later(why)),
                    left => self.wait(wait.min(left), why).await?,
                },
                None => self.board.set(&self.label, State::Running),
            }
        }
        Ok(())
    }

    async fn wait(&self, wait: Duration, why: String) -> Result<(), Fault> {
        self.board.set(&self.label, State::Waiting(why.clone()));
        tokio::select! {
            () = tokio::time::sleep(wait) => Ok(()),
            () = self.shutdown.cancelled() => Err(Fault::Later(why)),
        }
    }

    /// Posts these lines.
    async fn post(&self, lines: &[Line]) -> Result<Posted, Fault> {
        let mut marks: Vec<Option<&str>> = self.marks.iter().map(Option::as_deref).collect();
        let mut body = Vec::new();
        for line in lines {
            let destination = &self.destinations[line.destination];
            let after = marks[line.destination].replace(&line.position);
            line.write(&mut body, destination, &self.source, after)
                .map_err(|error| Fault::Halted(format!("{}: {error}", line.position)))?;
        }
        let unanswered = |error: Unreachable| {
            Posted::refused(no_answer(format!("{:#}", anyhow::Error::from(error))), None)
        };
        let answer = match self.service.post("/v1/messages", "application/x-ndjson", body).await {
            Ok(answer) => answer,
            Err(error) => return Ok(unanswered(error)),
        };
        let wait = retry_after(&answer);
        let kind = answer.headers().get(reqwest::header::CONTENT_TYPE);
        if !kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/x-ndjson")) {
            let problem = match self.service.refusal(answer).await.downcast::<Refused>() {
                Ok(refused) => refused.problem,
                Err(error) => no_answer(format!("{error:#}")),
            };
            return Ok(Posted::refused(problem, wait));
        }
        let text = match answer.text().await {
            Ok(text) => text,
            Err(error) => return Ok(unanswered(self.service.unreachable(error))),
        };
        let results = parse_results(&text, lines.len())
            .map_err(|error| Fault::Later(format!("{error:#}")))?;
        let is_new = |accepted: Deliveries| accepted.deliveries.iter().any(|one| !one.duplicate);
        let results = results.into_iter().map(|result| result.map(is_new)).collect();
        Ok(Posted { results: Ok(results), wait })
    }

    /// Moves the marks, and says which lines to send again.
    fn answered(
        &mut self,
        lines: Vec<Line>,
        results: Vec<Result<bool, Problem>>,
        wait: Option<Duration>,
    ) -> Answered {
        let mut answered = Answered { rest: Vec::new(), wait: None, fault: None };
        // Destinations of which a line was refused: what they say of later ones follows from that.
        let mut refused = BTreeSet::new();
        for (mut line, result) in lines.into_iter().zip(results) {
            let problem = match result {
                Ok(is_new) => {
                    let name = match (is_new, &line.content) {
                        (true, _) => "reseq_connect_accepted_total",
                        (false, Some(_)) => "reseq_connect_duplicates_total",
                        (false, None) => "reseq_connect_marks_moved_total",
                    };
                    counter!(name, "source" => self.label.clone()).increment(1);
                    self.marks[line.destination] = Some(line.position);
                    continue;
                }
                Err(problem) => problem,
            };
            if !refused.insert(line.destination) {
                answered.rest.push(line);
                continue;
            }
            let destination = &self.destinations[line.destination];
            let why = format!("destination {destination} at {}: {problem}", line.position);
            if problem.code == "source_gap" {
                let mark = problem.mark.as_deref().unwrap_or("nothing");
                answered.fault = Some(Fault::Rewind(format!("{destination} has only {mark}")));
            } else if problem.is_temporary() || problem.status == 408 {
                answered.wait = Some((wait.unwrap_or(RETRY_AFTER), why));
            } else if !is_of_message(&problem) || line.content.is_none() {
                answered.fault = Some(Fault::Halted(why));
            } else {
                let fault = self.refused(&line.position, why);
                line.content = None;
                answered.fault = answered.fault.or(fault);
            }
            answered.rest.push(line);
        }
        answered
    }

    /// Counts and logs a message that cannot be sent. The fault, if the source must wait for somebody.
    pub fn refused(&mut self, position: &str, why: String) -> Option<Fault> {
        if self.refused.as_deref() != Some(position) {
            self.refused = Some(position.to_owned());
            counter!("reseq_connect_refused_total", "source" => self.label.clone()).increment(1);
            if self.on_refused == OnRefused::Skip {
                tracing::error!(source = self.label, position, why, "skipped a message");
            }
        }
        (self.on_refused == OnRefused::Halt).then_some(Fault::Halted(why))
    }
}

/// True if the service refuses the message, and not its destination, its source or whoever sends it.
fn is_of_message(problem: &Problem) -> bool {
    matches!(problem.status, 400 | 413 | 415 | 422) && problem.code != "source_needs_one_shard"
}

/// There was no answer.
fn no_answer(detail: String) -> Problem {
    Problem { status: 503, detail, ..Problem::default() }
}

/// The mark that a destination has of a source.
pub async fn mark_of(
    service: &Service,
    destination: &str,
    source: &str,
) -> anyhow::Result<Option<String>> {
    let answer = service.call(Call::get(&path_of(destination, "sources"))).await?;
    let mut items = answer["items"].as_array().into_iter().flatten();
    let own = items.find(|item| item["name"] == *source);
    Ok(own.and_then(|item| item["mark"].as_str()).map(str::to_owned))
}

/// The name of a source that differs from this one only in what is behind the `@`: an earlier database, or topic.
pub async fn other_mark(
    service: &Service,
    destination: &str,
    source: &str,
) -> Result<Option<String>, Fault> {
    let answer = service.call(Call::get(&path_of(destination, "sources"))).await;
    let answer = answer.map_err(|error| fault_of(destination, &error))?;
    let names = answer["items"].as_array().into_iter().flatten();
    let mut names = names.filter_map(|item| item["name"].as_str());
    let is_other = |name: &&str| {
        let both = name.rsplit_once('@').zip(source.rsplit_once('@'));
        both.is_some_and(|(other, own)| other.0 == own.0 && other.1 != own.1)
    };
    Ok(names.find(is_other).map(str::to_owned))
}

/// Whether the destination exists, and takes messages of this token. Sends one that it cannot store: there is no mark of
/// this source, so its `after` is another one.
pub async fn may_send(service: &Service, destination: &str) -> Result<(), Fault> {
    let source = json!({"name": "check of reseq-connect", "position": "1", "after": "0"});
    let line = json!({"destinations": [destination], "body": null, "source": source});
    match service.call(Call::post("/v1/messages", &line)).await {
        Ok(_) => Err(Fault::Halted(format!("{destination} has stored what it must refuse"))),
        Err(error) => match problem_of(&error) {
            Some(problem) if problem.code == "source_gap" => Ok(()),
            _ => Err(fault_of(destination, &error)),
        },
    }
}

/// Why a destination does not do what it must.
pub fn fault_of(destination: &str, error: &anyhow::Error) -> Fault {
    let text = format!("destination {destination}: {error:#}");
    match problem_of(error) {
        Some(problem) if !problem.is_temporary() && problem.status < 500 => Fault::Halted(text),
        _ => Fault::Later(text),
    }
}
