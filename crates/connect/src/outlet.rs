//! Sends the messages of one source, and knows the source's marks at its destinations.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use client::{
    Answer, Call, Problem, Service,
    batch::{Deliveries, Failure, Posted},
    paths::{path_of, query, text},
    problem_of,
};
use futures::future::try_join_all;
use metrics::counter;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::{
    run::Shared,
    settings::OnRefused,
    source::{Content, Fault},
};

/// The wait before the same messages are sent again, unless the service asks for another one.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// If no message is accepted for this long, `send` returns an error. The source then starts again from the marks,
/// because its name or the marks may have changed.
const SEND_MAX: Duration = Duration::from_secs(30);

/// Sends the messages of a source to its destinations.
pub struct Outlet {
    pub shared: Shared,
    /// The name of the source in the configuration.
    pub label: String,
    /// The name under which the destinations keep the marks of the source.
    pub source: String,
    pub destinations: Vec<String>,
    /// The mark at each destination, as far as is known.
    pub marks: Vec<Option<String>>,
    pub on_refused: OnRefused,
    /// The last position whose message was refused permanently.
    pub refused: Option<String>,
}

/// A message, or a move of the mark, for one destination.
pub struct Line {
    /// The index of the destination.
    pub destination: usize,
    pub position: String,
    /// `None`: only the mark moves.
    pub content: Option<Content>,
}

/// A line of a batch for `POST /v1/messages`.
#[derive(Serialize)]
struct Wire<'a> {
    destinations: [&'a str; 1],
    #[serde(flatten)]
    content: Option<&'a Content>,
    source: WireSource<'a>,
}

#[derive(Serialize)]
struct WireSource<'a> {
    name: &'a str,
    position: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<&'a str>,
    skip: bool,
}

/// The result for each line of a batch.
type Results = Vec<Result<Deliveries, Problem>>;

/// The results of lines that were sent together.
#[derive(Default)]
struct Answered {
    /// The lines to send again.
    rest: Vec<Line>,
    /// The wait before that, and the reason.
    wait: Option<(Duration, String)>,
    fault: Option<Fault>,
}

impl Outlet {
    /// Reads the current marks of the destinations.
    pub async fn read_marks(&self) -> Result<Vec<Option<String>>, Fault> {
        let Outlet { shared, source, destinations, .. } = self;
        let mark = |destination| mark_of(&shared.service, destination, source);
        try_join_all(destinations.iter().map(|destination| mark(destination))).await
    }

    /// The lines that move all marks to this position.
    pub fn behind(&self, position: &str) -> Vec<Line> {
        let is_behind = |mark: &Option<String>| mark.as_deref().is_none_or(|mark| mark < position);
        let marks = self.marks.iter().enumerate().filter(|(_, mark)| is_behind(mark));
        let line = |destination| Line { destination, position: position.to_owned(), content: None };
        marks.map(|(index, _)| line(index)).collect()
    }

    /// Sends these lines until all are answered, or none was accepted for [`SEND_MAX`]. In each batch, `after` of the
    /// first line for a destination is the destination's mark (absent if it has none). `after` of each later line is
    /// the position of the line before it for the same destination.
    pub async fn send(&mut self, mut lines: Vec<Line>) -> Result<(), Fault> {
        let (mut count_max, mut moved) = (usize::MAX, Instant::now());
        while !lines.is_empty() {
            let later = lines.split_off(lines.len().min(count_max));
            let count = lines.len();
            let (results, wait) = self.post(&lines).await?;
            let Answered { mut rest, wait, fault } = match results {
                Ok(results) => self.answered(lines, results, wait),
                // The batch is too large, or one of its lines is wrong. Send the lines alone, so that each gets its own
                // answer.
                Err(problem) if is_of_message(&problem) && count > 1 => {
                    count_max = 1;
                    Answered { rest: lines, ..Answered::default() }
                }
                Err(problem) => {
                    let results = lines.iter().map(|_| Err(problem.clone())).collect();
                    self.answered(lines, results, wait)
                }
            };
            if rest.len() < count {
                moved = Instant::now();
            }
            rest.extend(later);
            lines = rest;
            if let Some(fault) = fault {
                return Err(fault);
            }
            let Shared { board, shutdown, .. } = &self.shared;
            let Some((wait, why)) = wait else {
                board.set(&self.label, Ok(()));
                continue;
            };
            let (left, fault) = (SEND_MAX.saturating_sub(moved.elapsed()), Fault::Later(why));
            board.set(&self.label, Err(fault.clone()));
            self.shared.pause(wait.min(left)).await;
            if left.is_zero() || shutdown.is_cancelled() {
                return Err(fault);
            }
        }
        Ok(())
    }

    /// Posts these lines. Returns the result of each line or of the whole batch, and the wait that the service asks
    /// for.
    async fn post(
        &self,
        lines: &[Line],
    ) -> Result<(Result<Results, Problem>, Option<Duration>), Fault> {
        let mut marks: Vec<Option<&str>> = self.marks.iter().map(Option::as_deref).collect();
        let mut body = Vec::new();
        for Line { destination, position, content } in lines {
            let after = marks[*destination].replace(position);
            let wire = Wire {
                destinations: [&self.destinations[*destination]],
                content: content.as_ref(),
                source: WireSource { name: &self.source, position, after, skip: content.is_none() },
            };
            serde_json::to_writer(&mut body, &wire)
                .map_err(|error| Fault::Halted(format!("{position}: {error}")))?;
            body.push(b'\n');
        }
        let posted = self.shared.service.post_batch(body, lines.len()).await;
        let Posted { results, wait } =
            posted.map_err(|error| Fault::Later(format!("{error:#}")))?;
        let problem = |failure| match failure {
            Failure::Refused(refused) => refused.problem,
            // Treat this as if the service had asked to try again.
            Failure::Unanswered(error) => {
                let detail = format!("{:#}", anyhow::Error::from(error));
                Problem { status: 503, detail, ..Problem::default() }
            }
        };
        Ok((results.map_err(problem), wait))
    }

    /// Updates the marks. Returns the lines to send again.
    fn answered(&mut self, lines: Vec<Line>, results: Results, wait: Option<Duration>) -> Answered {
        let mut answered = Answered::default();
        // Destinations that refused a line. Their results for later lines follow from that refusal.
        let mut refused = BTreeSet::new();
        for (mut line, result) in lines.into_iter().zip(results) {
            let problem = match result {
                Ok(accepted) => {
                    let is_new = accepted.deliveries.iter().any(|one| !one.duplicate);
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

    /// Counts and logs a message that cannot be sent. Returns a fault if the source must wait for an operator.
    pub fn refused(&mut self, position: &str, why: String) -> Option<Fault> {
        if self.refused.as_deref() != Some(position) {
            self.refused = Some(position.to_owned());
            counter!("reseq_connect_refused_total", "source" => self.label.clone()).increment(1);
            if self.on_refused == OnRefused::Skip {
                // The log limits lines of other targets.
                tracing::error!(
                    target: "reseq_connect::skipped",
                    source = self.label,
                    position,
                    why,
                    "skipped a message"
                );
            }
        }
        (self.on_refused == OnRefused::Halt).then_some(Fault::Halted(why))
    }
}

/// True if the service refuses the message itself, not its destination, its source or the caller.
fn is_of_message(problem: &Problem) -> bool {
    matches!(problem.status, 400 | 413 | 415 | 422) && problem.code != "source_needs_one_shard"
}

/// Makes a call. An error names the destination.
pub async fn ask(service: &Service, destination: &str, call: Call<'_>) -> Result<Answer, Fault> {
    service.call(call).await.map_err(|error| fault_of(destination, &error))
}

/// The marks at a destination: of this source only, or of all sources.
pub async fn marks_of(
    service: &Service,
    destination: &str,
    source: Option<&str>,
) -> Result<BTreeMap<String, String>, Fault> {
    let path = path_of(destination, "sources") + &query(&[("name", text(source))]);
    let answer = ask(service, destination, Call::get(&path)).await?;
    let items = answer["items"].as_array().into_iter().flatten();
    let text = |item: &Value, field| item[field].as_str().map(str::to_owned);
    Ok(items.filter_map(|item| text(item, "name").zip(text(item, "mark"))).collect())
}

/// The mark of this source at a destination.
pub async fn mark_of(
    service: &Service,
    destination: &str,
    source: &str,
) -> Result<Option<String>, Fault> {
    Ok(marks_of(service, destination, Some(source)).await?.remove(source))
}

/// Fails if only some of these destinations have a mark of the source: nobody has said where the others begin.
pub fn all_or_none(
    source: &str,
    destinations: &[String],
    marks: &[Option<String>],
) -> Result<(), Fault> {
    let without = marks.iter().zip(destinations).filter(|(mark, _)| mark.is_none());
    let names: Vec<&str> = without.map(|(_, name)| name.as_str()).collect();
    if names.is_empty() || names.len() == marks.len() {
        return Ok(());
    }
    Err(Fault::Halted(format!(
        "no mark of {source}: {}. Its data is gone, or it is new. Begin with --begin-at oldest",
        names.join(", ")
    )))
}

/// Fails if the destination has a mark of a source whose name differs only behind the `@`: an earlier database or topic.
pub async fn is_not_replaced(
    service: &Service,
    destination: &str,
    source: &str,
) -> Result<(), Fault> {
    let is_other = |name: &String| {
        let both = name.rsplit_once('@').zip(source.rsplit_once('@'));
        both.is_some_and(|(other, own)| other.0 == own.0 && other.1 != own.1)
    };
    match marks_of(service, destination, None).await?.into_keys().find(is_other) {
        None => Ok(()),
        Some(other) => Err(Fault::Halted(format!(
            "{destination} has a mark of {other}, and none of {source}: what was read before was replaced, or the mark \
             is gone. Begin with --begin-at oldest, and remove the mark of {other} (reseq sources remove)"
        ))),
    }
}

/// Checks that the destination exists, and accepts messages from this caller. Sends a message that the destination
/// cannot store: its source has no mark, so its `after` is wrong.
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

/// The fault for an error of a destination.
fn fault_of(destination: &str, error: &anyhow::Error) -> Fault {
    let problem = problem_of(error);
    let hint = match problem {
        Some(problem) if problem.status == 401 => ": see reseq.token_file",
        _ => "",
    };
    let text = format!("destination {destination}: {error:#}{hint}");
    match problem {
        Some(problem) if !problem.is_temporary() && problem.status < 500 => Fault::Halted(text),
        _ => Fault::Later(text),
    }
}
