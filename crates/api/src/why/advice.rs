//! The sentences that explain what blocks a lane, and the commands that help.

use std::collections::BTreeMap;

use super::{Action, pace::shown};
use domain::{
    AttemptError, DeliveryKind, Stage, State, attempts::LATER_MAX, excerpt::excerpt, shell::quoted,
};
use store::{CatalogEntry, Cause, LaneHead, StoreError, WrongType};

/// The sentence for a lane without messages.
pub(super) const NOTHING: &str = "No message is pending.";
/// The most sources that a sentence names.
const SOURCES_SHOWN: usize = 3;

/// The sentence when Redis answers, but refuses all writes.
pub(super) fn refused(sentence: &str) -> String {
    format!("Nothing can leave, because Redis refuses writes: {sentence}")
}

/// The sentence when a key of the wrong type halts the destination.
pub(super) fn halted(wrong: &WrongType) -> String {
    format!("Nothing of the destination can leave: {wrong}.")
}

/// The commands that find and repair damaged data.
pub(super) fn repairs(entry: &CatalogEntry) -> Vec<Action> {
    let name = &entry.destination.name;
    [("to see what is damaged", " --dry-run"), ("to repair it", "")]
        .map(|(when, option)| Action { when, command: format!("reseq repair {name}{option}") })
        .into()
}

/// The sentence with the marks of the first sources; `None` if the destination has no source.
pub(super) fn sources(entry: &CatalogEntry, marks: &BTreeMap<String, String>) -> Option<String> {
    let count = marks.len();
    let first = marks.iter().take(SOURCES_SHOWN);
    let mut shown: Vec<String> = first.map(|(name, mark)| format!("{name} up to {mark}")).collect();
    if count > SOURCES_SHOWN {
        shown.push(format!("and {} more", count - SOURCES_SHOWN));
    }
    let max = entry.destination.sources_max;
    let is_full = count as u64 >= max;
    let full = is_full.then(|| format!(" A new source is refused (sources_max: {max})."));
    (count > 0).then(|| {
        let sources = if count == 1 { "source" } else { "sources" };
        format!(
            "Messages of {count} {sources} have arrived: {}.{}",
            shown.join(", "),
            full.unwrap_or_default()
        )
    })
}

/// Advice if no message is pending although a source should have sent one.
pub(super) fn not_arrived(entry: &CatalogEntry) -> Vec<Action> {
    let when = "if a message after the mark of its source is missing, its source has not sent it";
    vec![Action { when, command: format!("reseq sources list {}", entry.destination.name) }]
}

/// The cause and the sentence when Redis does not answer.
pub(super) fn no_answer(error: &StoreError) -> (Cause, String) {
    if let StoreError::RefusesWrites(sentence) = error {
        return (Cause::RedisRefusesWrites, refused(sentence));
    }
    let sentence =
        format!("Nothing can leave, because Redis does not answer this process: {error}.");
    (Cause::Redis, sentence)
}

/// The cause in one sentence.
pub(super) fn explanation(
    cause: Cause,
    entry: &CatalogEntry,
    lane: &LaneHead,
    now_ms: u64,
) -> String {
    let sequence = lane.head.message.position.sequence;
    let attempts = &lane.head.message.attempts;
    let error = attempts.errors.first().map(|(_, error)| error);
    match cause {
        Cause::Nothing => NOTHING.to_owned(),
        Cause::Draining => "Messages leave all the time.".to_owned(),
        Cause::Redis => "Redis does not answer.".to_owned(),
        Cause::RedisRefusesWrites => "Redis refuses writes.".to_owned(),
        Cause::Damaged => {
            let why = lane.head.message.damaged.as_deref().unwrap_or("its data is unreadable");
            format!("Redis holds data of message {sequence} that cannot be read: {why}.")
        }
        Cause::Halted => {
            let stage = stage_of(error);
            let failed = attempts.failed + attempts.stalls;
            format!(
                "Message {sequence} is halted in {stage} after {}{}; its lane waits for an operator.",
                counted(failed),
                last(error)
            )
        }
        Cause::Withdrawing => format!(
            "Message {sequence} leaves without delivery as soon as the attempt in progress has ended."
        ),
        Cause::Delayed if lane.head.waits_for_later() => format!(
            "The worker of message {sequence} asked to have it later ({} of at most {LATER_MAX} times).",
            attempts.asked_later
        ),
        Cause::Delayed => format!("The producer of message {sequence} delayed it."),
        Cause::Backoff => {
            let failed = attempts.failed + attempts.stalls;
            let (stage, count) = (stage_of(error), counted(failed));
            format!(
                "Message {sequence} waits for its next attempt: {stage} has failed ({count}){}.",
                last(error)
            )
        }
        Cause::NoProcessor => {
            format!("Message {sequence} waits for processing, and no pod has the role processor.")
        }
        Cause::AwaitingProcessor => {
            format!("Message {sequence} waits for a processor; all running processors are busy.")
        }
        Cause::AwaitingWorker => {
            let name = &entry.destination.name;
            format!("Message {sequence} waits for a worker that claims from {name}.")
        }
        Cause::TransformRateLimit => format!(
            "Message {sequence} waits for transform.rate_per_second_max: {}/s, next in {} ms.",
            entry.destination.transform.rate_per_second_max,
            lane.next_attempt_ms.unwrap_or_default().saturating_sub(now_ms)
        ),
        Cause::Processing => {
            let holder = holder_of(lane).unwrap_or_else(|| "a worker without a name".to_owned());
            let expired_ms = lane.head.lease.as_ref().map(|lease| lease.expires_ms);
            match expired_ms.map_or(0, |expires_ms| now_ms.saturating_sub(expires_ms)) {
                0 => format!("Message {sequence} is being processed by {holder}."),
                ago_ms => format!(
                    "The lease of {holder} on message {sequence} expired {} ago; others can claim it soon.",
                    shown(ago_ms)
                ),
            }
        }
        Cause::Paused if lane.head.state == State::Waiting => "Processing is paused.".to_owned(),
        Cause::Paused => "Delivery is paused.".to_owned(),
        Cause::NoOwner => format!(
            "Message {sequence} is processed, and no pod with the role sender owns partition {}{}.",
            entry.partition,
            match &lane.ownership.former {
                Some(pod) => format!("; its last owner was {pod}, which no longer reports"),
                None => String::new(),
            }
        ),
        Cause::TakeoverWait => format!(
            "Message {sequence} is processed. After a failover of Redis its sender waits until any \
             earlier sender must have stopped."
        ),
        Cause::AwaitingConsumer => format!(
            "Message {sequence} waits for a consumer that takes from {}{}.",
            entry.destination.name,
            last(error),
        ),
        Cause::Consuming => {
            let holder = holder_of(lane).unwrap_or_else(|| "a consumer without a name".to_owned());
            format!("Message {sequence} is held by {holder}{}.", last(error))
        }
        Cause::Delivering if entry.destination.delivery.kind == DeliveryKind::Pull => {
            format!("Message {sequence} was accepted, and is about to be settled.")
        }
        Cause::RateLimit => format!(
            "Message {sequence} is processed, and waits for its turn: delivery.rate_per_second_max allows {} a second.",
            entry.destination.delivery.rate_per_second_max
        ),
        Cause::ReceiverFailing => format!(
            "Message {sequence} is processed. Its receiver fails, so its sender sends one message at a time, until one \
             is accepted{}.",
            last(error)
        ),
        Cause::AwaitingConnection => format!(
            "Message {sequence} is processed, and waits for a connection, or is being delivered: {} deliveries of {} \
             wait, because it has as many connections as one destination may have of those of its process.",
            lane.awaiting_connection, entry.destination.name
        ),
        Cause::Delivering => format!("Message {sequence} is being delivered{}.", last(error)),
    }
}

/// The actions of an operator, the most likely first.
pub(super) fn actions(
    cause: Cause,
    entry: &CatalogEntry,
    lane: &LaneHead,
    key: Option<&str>,
) -> Vec<Action> {
    let name = match entry.destination.shards {
        1 => entry.destination.name.to_string(),
        _ => entry.destination.name.shard_in_paths(),
    };
    let sequence = lane.head.message.position.sequence;
    let of_key = key.map(|key| format!(" --key {}", quoted(key))).unwrap_or_default();
    let action = |when, command: String| Action { when, command };
    let show =
        action("to see its body and errors", format!("reseq messages show {name} {sequence}"));
    let retry = format!("reseq lanes retry {name}{of_key} --sequence {sequence}");
    let skip = format!("reseq lanes skip {name}{of_key} --sequence {sequence}");
    let again = action("if the cause is gone", retry.clone());
    let aside = action("to go on without it, and keep it as a dead letter", skip);
    let cancel =
        action("if it must not be delivered", format!("reseq messages cancel {name} {sequence}"));
    match cause {
        Cause::Nothing
        | Cause::Draining
        | Cause::Withdrawing
        | Cause::TakeoverWait
        | Cause::Redis => Vec::new(),
        Cause::RedisRefusesWrites => {
            vec![action("to see what is wrong with Redis", "reseq doctor".to_owned())]
        }
        Cause::Damaged => repairs(entry).into_iter().chain([aside]).collect(),
        Cause::Halted => vec![
            again,
            action("with a corrected body", format!("{retry} --body FILE")),
            aside,
            cancel,
            show,
        ],
        Cause::Backoff => vec![again, aside, show],
        Cause::ReceiverFailing => {
            vec![action("to see what the receiver answers", format!("reseq tail {name}"))]
        }
        Cause::Delayed => vec![action("to process it now", retry), cancel],
        Cause::NoProcessor => {
            vec![action("on a machine that processes", "reseq serve --roles processor".into())]
        }
        Cause::NoOwner => {
            vec![action("on a machine that delivers", "reseq serve --roles sender".into())]
        }
        Cause::AwaitingProcessor => {
            vec![action("to see which processors run", "reseq pods".into())]
        }
        Cause::Paused => {
            let part = if lane.head.state == State::Waiting { "processing" } else { "delivery" };
            vec![action("to let it go on", format!("reseq destinations resume {name} {part}"))]
        }
        Cause::RateLimit | Cause::TransformRateLimit => {
            let of = if cause == Cause::RateLimit { "delivery" } else { "transform" };
            let field = format!("{of}.rate_per_second_max");
            let command = format!("reseq destinations apply FILE  # with a higher {field}");
            vec![action("to allow more", command)]
        }
        Cause::AwaitingWorker
        | Cause::Processing
        | Cause::AwaitingConnection
        | Cause::AwaitingConsumer
        | Cause::Consuming
        | Cause::Delivering => vec![show, cancel],
    }
}

/// The name of the worker, consumer or pod that holds the head.
fn holder_of(lane: &LaneHead) -> Option<String> {
    lane.head.lease.as_ref()?.holder.clone().map(String::from)
}

fn stage_of(error: Option<&AttemptError>) -> &'static str {
    match error.map(|error| error.stage) {
        Some(Stage::Delivery) => "delivery",
        _ => "processing",
    }
}

/// The text `, the last error was …`, if there was an error. Text from outside is cut and escaped.
fn last(error: Option<&AttemptError>) -> String {
    let Some(error) = error else { return String::new() };
    let status = error.status.map(|status| format!("status {status}: ")).unwrap_or_default();
    let detail = excerpt(error.detail.lines().next().unwrap_or_default().as_bytes());
    // Many details already begin with the status.
    let status = if detail.starts_with("status ") { String::new() } else { status };
    format!("; the last error was: {status}{detail}")
}

fn counted(attempts: u32) -> String {
    match attempts {
        1 => "1 attempt".to_owned(),
        _ => format!("{attempts} attempts"),
    }
}
