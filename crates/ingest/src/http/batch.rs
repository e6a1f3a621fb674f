//! A batch: one message per line.

use std::collections::{BTreeMap, HashMap};

use axum::{
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::json;

use super::{Ingest, Topics, problem_of};
use crate::{
    Draft, MemoryPermit, Outcome, Refusal, Session,
    answer::{DELIVERIES, answer},
    copies::{Copies, submit_all},
    json::parse_item,
};
use domain::DestinationName;
use formats::code::Code;
use http_server::{principal::Principal, problem::Problem};
use store::{chunks_by_size, server_clock_ms};

/// The most items of one batch.
const BATCH_ITEMS_MAX: usize = 10_000;
/// The most copies of one batch, summed over all its lines.
const COPIES_MAX: usize = 100_000;
/// The most copies of a batch that are in flight to Redis at once (at least the copies of one item).
const COPIES_AT_ONCE_MAX: usize = 10_000;

/// One line of a batch.
type BatchLine = Result<Draft, Problem>;

/// One session per destination, for the whole batch.
type Sessions<'a> = BTreeMap<&'a DestinationName, Session>;

/// The outcomes of some items.
struct Stamped {
    /// The outcomes of each item, by destination, in the order in which the item names them.
    outcomes: Vec<Vec<(DestinationName, Outcome)>>,
    /// The ids of items whose id has changed, by index.
    ids: HashMap<usize, String>,
}

/// The messages of a batch: its lines, without empty lines.
pub(crate) fn lines_of(body: &[u8]) -> Result<Vec<&[u8]>, Problem> {
    let lines = body.split(|&byte| byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
    let lines: Vec<&[u8]> = lines.collect();
    if lines.is_empty() || lines.len() > BATCH_ITEMS_MAX {
        let problem = format!("the batch must hold 1 to {BATCH_ITEMS_MAX} messages, one a line");
        return Err(Problem::new(Code::InvalidJson, problem));
    }
    Ok(lines)
}

impl Ingest {
    /// Takes one message per line. The answer has one line for each, in order.
    pub(super) async fn take_batch(
        &self,
        caller: &Principal,
        body: &[u8],
        room: MemoryPermit,
    ) -> Result<Response, Problem> {
        let lines = lines_of(body)?;
        self.owe(caller, lines.len() - 1);
        let items = self.read_items(caller, &lines).await;
        let mut sessions = Sessions::new();
        let mut answers = String::new();
        let (mut accepted, mut first_refused) = (false, None);
        let copies = |item: &BatchLine| item.as_ref().map_or(0, |item| item.destinations().len());
        let all: usize = items.iter().map(copies).sum();
        if all > COPIES_MAX {
            let problem = format!(
                "the lines of the batch name {all} destinations in all, and at most {COPIES_MAX} are \
                 allowed; split it. Nothing was stored"
            );
            return Err(Problem::new(Code::InvalidJson, problem));
        }
        for some in chunks_by_size(&items, BATCH_ITEMS_MAX, COPIES_AT_ONCE_MAX, copies) {
            let Stamped { outcomes, ids } = self.stamp_all(some, &mut sessions, &room).await;
            for (at, (item, outcomes)) in some.iter().zip(outcomes).enumerate() {
                let answer = match item {
                    Ok(item) => {
                        let outcomes = outcomes.into_iter().map(|(_, outcome)| outcome);
                        answer(ids.get(&at).unwrap_or(item.id()), outcomes)
                    }
                    Err(problem) => Err(problem.clone()),
                };
                match answer {
                    Ok(answer) => {
                        accepted = true;
                        answers.push_str(&json!(answer).to_string());
                    }
                    Err(problem) => {
                        answers.push_str(&problem.json(None).to_string());
                        accepted |= problem.more.contains_key(DELIVERIES);
                        first_refused.get_or_insert(problem);
                    }
                }
                answers.push('\n');
            }
        }
        let media_type = [(header::CONTENT_TYPE, "application/x-ndjson")];
        // If no message was accepted, the answer has the status of the first refusal, for clients that look only at the
        // status.
        let refused = first_refused.filter(|_| !accepted);
        let status = refused.as_ref().map_or(StatusCode::ACCEPTED, |problem| problem.status);
        let retry_after = refused.and_then(|problem| problem.retry_after());
        let retry_after = retry_after.map(|seconds| [(header::RETRY_AFTER, seconds.to_string())]);
        Ok((status, media_type, retry_after, answers).into_response())
    }

    /// Parses the lines. If a topic cannot be resolved, refuses all later lines too: the topic may contain any
    /// destination.
    async fn read_items(&self, caller: &Principal, lines: &[&[u8]]) -> Vec<BatchLine> {
        let now_ms = server_clock_ms();
        let mut topics = Topics::new();
        let mut has_failed = false;
        let mut items = Vec::with_capacity(lines.len());
        for line in lines {
            let item = match parse_item(line, now_ms, self.limits) {
                Err(error) => Err(problem_of(error)),
                Ok(_) if has_failed => Err(Refusal::Aborted.problem()),
                Ok(mut draft) => {
                    self.address(caller, &mut draft, &mut topics).await.map(|()| draft)
                }
            };
            has_failed |= item.as_ref().err().is_some_and(|problem| problem.code.is_temporary());
            items.push(item);
        }
        items
    }

    /// Submits the valid items, grouped by destination and in order.
    async fn stamp_all<'a>(
        &self,
        items: &'a [BatchLine],
        sessions: &mut Sessions<'a>,
        room: &MemoryPermit,
    ) -> Stamped {
        let mut by_destination: BTreeMap<&DestinationName, Vec<(usize, &Draft)>> = BTreeMap::new();
        for (at, item) in items.iter().enumerate() {
            let Ok(item) = item else { continue };
            for name in item.destinations() {
                by_destination.entry(name).or_default().push((at, item));
            }
        }
        let mut all = Vec::with_capacity(by_destination.len());
        for (name, messages) in by_destination {
            let session = sessions.entry(name).or_default().clone();
            all.push(Copies::of(&self.committer, name, messages, session).await);
        }
        let ids = self.find_keys(&mut all).await;
        let mut outcomes: Vec<Vec<_>> = items.iter().map(|_| Vec::new()).collect();
        let stored = submit_all(&mut all, &self.committer, room).await;
        for (copies, stored) in all.iter().zip(stored) {
            for ((at, _), outcome) in copies.messages.iter().zip(stored) {
                outcomes[*at].push((copies.name.clone(), outcome));
            }
        }
        for (item, outcomes) in items.iter().zip(&mut outcomes) {
            let Ok(item) = item else { continue };
            // In the order in which the item names the destinations, as in the answer to a single message.
            outcomes.sort_by_key(|(name, _)| {
                item.destinations().iter().position(|named| named == name)
            });
        }
        Stamped { outcomes, ids }
    }
}
