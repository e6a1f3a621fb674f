//! Withdraws one message, and reports the result.

use std::time::Duration;

use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde::Serialize;
use serde_json::json;
use tokio::time::Instant;
use utoipa::ToSchema;

use super::request::Target;
use domain::{Sequence, State, Tombstone};
use formats::code::Code;
use http_server::problem::Problem;
use store::Withdrawn;

/// How long an answer waits for a pending withdrawal.
const WITHDRAWAL_WAIT: Duration = Duration::from_secs(2);
/// How often a waiting answer checks.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The progress of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// The message is pending, and is not a tombstone.
    Pending,
    /// The message has left with this state, or it is a tombstone and will leave with it.
    Ended(State),
    /// The message is gone, and its state is not known.
    Forgotten,
}

/// A 409: the current state does not allow the call.
pub(super) fn wrong_state(detail: impl Into<String>) -> Problem {
    Problem::new(Code::WrongState, detail)
}

/// Withdraws a message, given the key of its lane. If a processor or sender may be working on it, the withdrawal stays
/// pending.
pub(super) async fn one(
    target: &mut Target,
    how: Tombstone,
    reason: &str,
    message: (Option<String>, Sequence),
) -> Result<Response, Problem> {
    let (sequence, messages) = (message.1, [message]);
    let withdrawal = store::Withdrawal { how, reason, error: None, messages: &messages };
    let answers = target.withdraw(&withdrawal).await?;
    let state = State::from(how);
    match answers.first() {
        Some(Withdrawn::Done) => Ok(done(sequence, how)),
        Some(Withdrawn::Full) => Err(no_room_for_letters(target)),
        Some(Withdrawn::Withdrawing) => withdrawing(target, sequence, how).await,
        Some(Withdrawn::Settled) | None => match progress(target, sequence).await? {
            Progress::Ended(ended) if ended == state => Ok(done(sequence, how)),
            Progress::Ended(ended) => Err(wrong_state(format!("it is already {}", name(ended)))),
            Progress::Pending | Progress::Forgotten => {
                Err(wrong_state("it has already left, and its outcome is not known"))
            }
        },
    }
}

/// The problem when the destination has as many dead letters as it may.
fn no_room_for_letters(target: &Target) -> Problem {
    let max = target.entry().destination.dead_letters_max;
    wrong_state(format!(
        "the destination has reached its limit of dead letters (dead_letters_max {max}): redrive or \
         discard some, raise dead_letters_max, or cancel the message instead"
    ))
}

/// Waits briefly for a pending withdrawal.
async fn withdrawing(
    target: &Target,
    sequence: Sequence,
    how: Tombstone,
) -> Result<Response, Problem> {
    let state = State::from(how);
    let deadline = Instant::now() + WITHDRAWAL_WAIT;
    loop {
        match progress(target, sequence).await? {
            Progress::Ended(ended) if ended == state => return Ok(done(sequence, how)),
            Progress::Ended(ended) => {
                return Err(wrong_state(format!("it was {} meanwhile", name(ended))));
            }
            Progress::Forgotten => {
                let detail = "it has left; the destination has no log (log_max 0) that could tell \
                              whether it was delivered before";
                return Ok(accepted(sequence, detail));
            }
            Progress::Pending if Instant::now() >= deadline => {
                let detail = "it is being processed or delivered just now; it leaves as soon as \
                              that attempt has ended, and not at all if it succeeds in delivering";
                return Ok(accepted(sequence, detail));
            }
            Progress::Pending => tokio::time::sleep(LOOK_EVERY).await,
        }
    }
}

/// The progress of a message that was stamped.
pub(super) async fn progress(target: &Target, sequence: Sequence) -> Result<Progress, Problem> {
    let store = target.api.store.clone();
    let listed = store.listed(target.entry(), &[sequence]).await?;
    if let Some(one) = listed.first() {
        return Ok(match one.message.tombstone {
            Some(tombstone) => Progress::Ended(tombstone.into()),
            None => Progress::Pending,
        });
    }
    let entry = store.log_entries(target.entry(), &[sequence]).await?;
    if let Some(entry) = entry.into_iter().next().flatten() {
        return Ok(Progress::Ended(entry.outcome));
    }
    let letter = store.dead_letter(target.entry(), sequence).await?;
    Ok(letter.map_or(Progress::Forgotten, |_| Progress::Ended(State::DeadLettered)))
}

/// Refuses a sequence that was never stamped.
pub(super) async fn check_stamped(target: &Target, sequence: Sequence) -> Result<(), Problem> {
    let store = target.api.store.clone();
    let last = store.counts(target.entry()).await?.last_sequence;
    if (1..=last).contains(&sequence) {
        return Ok(());
    }
    let detail = format!("{sequence} was never stamped; the last sequence is {last}");
    Err(Problem::new(Code::UnknownMessage, detail))
}

/// A state, as the API spells it.
pub(super) fn name(state: State) -> String {
    json!(state).as_str().unwrap_or_default().to_owned()
}

/// The result of a withdrawal.
#[derive(Serialize, ToSchema)]
pub(super) struct Withdrawal {
    sequence: Sequence,
    state: WithdrawalState,
    /// The reason why a message is still pending.
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<&'static str>,
}

/// The state of a message that is withdrawn.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum WithdrawalState {
    Cancelled,
    DeadLettered,
    Dropped,
    /// The message leaves when its attempt has ended.
    Withdrawing,
}

fn done(sequence: Sequence, state: Tombstone) -> Response {
    let state = match state {
        Tombstone::Cancelled => WithdrawalState::Cancelled,
        Tombstone::DeadLettered => WithdrawalState::DeadLettered,
        Tombstone::Dropped => WithdrawalState::Dropped,
    };
    Json(Withdrawal { sequence, state, detail: None }).into_response()
}

fn accepted(sequence: Sequence, detail: &'static str) -> Response {
    let state = WithdrawalState::Withdrawing;
    let body = Withdrawal { sequence, state, detail: Some(detail) };
    (StatusCode::ACCEPTED, Json(body)).into_response()
}
