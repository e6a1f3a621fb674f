//! Finds the keys that a producer did not give. The definition of the destination says where in the message they are.

mod text;

use std::time::Duration;

use axum::http::{HeaderMap, HeaderValue};
use futures::{StreamExt, stream::FuturesOrdered};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use super::{Draft, Refusal, commit::CopyResult};
use domain::{
    Arrival, Destination, Message,
    destination::KeySource,
    message::{IDEMPOTENCY_KEY_BYTES_MAX, KEY_BYTES_MAX, check_text},
};
use jq::{Evaluated, Evaluators, Input, Limits, Program, at_once};

/// An expression may run for `step`, and wait as long for other evaluations of the same expression. If a process has to
/// start first, all of this together may take `whole`.
const LIMITS: Limits = Limits { step: Duration::from_secs(1), whole: Duration::from_secs(5) };
/// The time limit for all evaluations of one request or chunk for one destination.
const ALL_WITHIN: Duration = Duration::from_secs(30);
/// An expression may output this many bytes even if the limit of bodies is smaller: a key, of which JSON may escape
/// each byte.
const OUTPUT_BYTES_MAX: usize = 6 * IDEMPOTENCY_KEY_BYTES_MAX + 2;

/// Finds keys. Cheap to clone.
#[derive(Clone)]
pub struct Keys {
    evaluators: Evaluators,
}

/// The context of a search for the keys of one message.
struct Search<'a> {
    evaluators: &'a Evaluators,
    destination: &'a Destination,
    /// The message of which the copy was made. `None`: a frame.
    draft: Option<&'a Draft>,
}

/// A key that a message lacks.
struct Missing<'a> {
    /// The field of the definition that says where the key is.
    field: &'static str,
    source: &'a KeySource,
    bytes_max: usize,
}

impl Keys {
    /// Expressions run in a child process, of this program or of the program that the environment names.
    pub(super) fn new(body_bytes_max: usize, processes_max: usize) -> Keys {
        let (bytes_max, program) =
            (body_bytes_max.max(OUTPUT_BYTES_MAX), Program::of_environment());
        Keys { evaluators: Evaluators::with_processes(bytes_max, program, processes_max) }
    }

    /// Finds the keys of these copies, in order. Each copy comes with its draft; frames have none. After the first
    /// temporary failure, refuses all later copies, which must not overtake it. When the process stops, refuses the
    /// copies that still wait.
    pub(super) async fn find_all(
        &self,
        copies: Vec<(CopyResult, Option<&Draft>)>,
        destination: &Destination,
        stop: &CancellationToken,
    ) -> Vec<CopyResult> {
        let count = copies.len();
        let deadline = Instant::now() + ALL_WITHIN;
        // Enough copies to keep all processes busy.
        let at_once_max = 2 * at_once();
        let mut waiting = copies.into_iter();
        let mut finding = FuturesOrdered::new();
        let mut found = Vec::with_capacity(count);
        while found.len() < count {
            while finding.len() < at_once_max
                && let Some((copy, draft)) = waiting.next()
            {
                finding.push_back(self.find(copy, draft, destination));
            }
            let next = if stop.is_cancelled() && !found.is_empty() {
                Err(Refusal::Draining)
            } else {
                match timeout_at(deadline, finding.next()).await {
                    Ok(next) => next.unwrap_or(Err(Refusal::Aborted)),
                    Err(_) => Err(Refusal::KeyUnavailable(format!(
                        "the keys of all messages sent together were not found within {} s",
                        ALL_WITHIN.as_secs()
                    ))),
                }
            };
            let is_end = next.as_ref().err().is_some_and(Refusal::is_temporary);
            found.push(next);
            if is_end {
                break;
            }
        }
        found.resize(count, Err(Refusal::Aborted));
        found
    }

    /// The copy with its keys.
    async fn find(
        &self,
        copy: CopyResult,
        draft: Option<&Draft>,
        destination: &Destination,
    ) -> CopyResult {
        let mut copy = copy?;
        let search = Search { evaluators: &self.evaluators, destination, draft };
        let found = search.find_missing(&mut copy).await;
        if let Err(refusal) = &found {
            telemetry::refused(destination.name.as_str(), refusal.code().as_str());
        }
        found.map(|()| copy)
    }
}

impl Search<'_> {
    async fn find_missing(&self, copy: &mut Arrival) -> Result<(), Refusal> {
        if copy.source.as_ref().is_some_and(|source| source.skip) {
            return Ok(()); // Nothing is stored.
        }
        let [key_from, idempotency_key_from] = self.destination.key_sources();
        if let (None, Some(source)) = (&copy.message.key, key_from) {
            let missing = Missing { field: "key_from", source, bytes_max: KEY_BYTES_MAX };
            copy.message.key = Some(self.find(&missing, &copy.message).await?);
        }
        if let (None, Some(source)) = (&copy.idempotency_key, idempotency_key_from) {
            let (field, bytes_max) = ("idempotency_key_from", IDEMPOTENCY_KEY_BYTES_MAX);
            let missing = Missing { field, source, bytes_max };
            copy.idempotency_key = Some(self.find(&missing, &copy.message).await?);
        }
        Ok(())
    }

    async fn find(&self, missing: &Missing<'_>, message: &Message) -> Result<String, Refusal> {
        let place = || format!("{} of {}", missing.field, self.destination.name);
        let found = match missing.source {
            KeySource::Header(name) => {
                value_of(name, message, self.draft.and_then(|draft| draft.request.as_ref()))
            }
            KeySource::Jq(expression) => {
                let evaluator = self.evaluators.of(expression);
                let evaluated = evaluator.evaluate(&self.input(message), LIMITS).await;
                let failed = |error| Refusal::KeyUnavailable(format!("{}: {error}", place()));
                text_of(evaluated.map_err(failed)?)
            }
        };
        let key = found.and_then(|key| {
            check_text("the key", &key, missing.bytes_max)?;
            Ok(key)
        });
        key.map_err(|problem| Refusal::NoKey(format!("{}: {problem}", place())))
    }

    fn input(&self, message: &Message) -> Input {
        Input {
            body: message.body.bytes.clone(),
            id: self.draft.is_none_or(|draft| draft.is_id_final).then(|| message.id.clone()),
            destination: self.destination.name.to_string(),
            sequence: None,
            key: message.key.clone(),
            headers: message.headers.clone(),
        }
    }
}

/// The value of a header, from the request or from the headers that a JSON message names.
fn value_of(name: &str, message: &Message, request: Option<&HeaderMap>) -> Result<String, String> {
    let values: Vec<&[u8]> = match request {
        Some(headers) => headers.get_all(name).iter().map(HeaderValue::as_bytes).collect(),
        None => {
            let named =
                message.headers.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name));
            named.map(|(_, value)| value.as_bytes()).collect()
        }
    };
    let [first, others @ ..] = values.as_slice() else {
        return Err(format!("the message has no header {name}"));
    };
    if others.iter().any(|other| other != first) {
        return Err(format!("the header {name} is there twice, with different values"));
    }
    let text = std::str::from_utf8(first);
    text.map(str::to_owned).map_err(|_| format!("the header {name} is not UTF-8"))
}

/// The key, given the output of an expression.
fn text_of(evaluated: Evaluated) -> Result<String, String> {
    match evaluated {
        Evaluated::One(json) => text::of_json(&json),
        Evaluated::None => Err("the expression makes no output".into()),
        Evaluated::Several => Err("the expression makes more than one output".into()),
        Evaluated::Failed(reason) => Err(reason),
    }
}

#[cfg(test)]
mod tests;
