//! `GET /v1/destinations/{d}/messages/{sequence}/result`: the result of processing a message, with a long poll.

use std::time::Duration;

use axum::{
    Extension, Json,
    extract::{Path, State},
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::time::Instant;
use utoipa::{IntoParams, ToSchema};

use super::{
    Api,
    messages::unknown,
    request::{InDestination, Params, Target, sequence_of},
    views::{Failure, body_shown},
    withdraw::wrong_state,
    workers::{WAIT_MS_MAX, WAITS, check_range, left},
};
use domain::{Body, Sequence, State as MessageState, Tombstone};
use formats::code::Code;
use http_server::{
    client_connection::ClientConnection, openapi_responses, principal::Principal, problem::Problem,
    shares::Shares,
};
use store::{KeptOutput, KeptResult, Listed, RESULT_BYTES_MAX, Wake, WakeKind, woken};

/// The interval between checks without a wake-up. Only results that are kept cause a wake-up.
const POLL: Duration = Duration::from_secs(1);

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct Asked {
    /// The id of the message.
    id: String,
    /// Wait up to this long if the message is not processed yet.
    #[serde(default)]
    #[param(maximum = 60_000, default = 0)]
    wait_ms: u64,
}

/// The state of the processing of a message.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum ResultState {
    /// The message is not processed yet.
    Pending,
    /// The message has an output.
    Processed,
    /// The transform or an operator dropped the message.
    Dropped,
    /// Processing cannot succeed: the attempts are used up, or the processor reported a final error.
    Failed,
    /// A client cancelled the message.
    Cancelled,
    /// The message is processed, but its output is not kept (any more).
    NotKept,
}

/// The result of a message.
#[derive(Serialize, ToSchema)]
pub(super) struct MessageResult {
    sequence: Sequence,
    epoch: u64,
    id: String,
    state: ResultState,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_type: Option<String>,
    /// The output, if it is JSON that all parsers can read.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    body: Option<Box<RawValue>>,
    /// The output in base64, if `body` is absent: the output is not JSON that all parsers can read.
    #[serde(skip_serializing_if = "Option::is_none")]
    body_base64: Option<String>,
    /// The error, if processing failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Failure>,
    /// The reason why there is no output.
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
}

/// `GET /v1/destinations/{d}/messages/{sequence}/result`
#[utoipa::path(get, path = "/v1/destinations/{destination}/messages/{sequence}/result", tag = "messages",
    operation_id = "await_result", params(InDestination, ("sequence" = u64, Path, description = "The sequence of the message"), Asked),
    responses((status = 200, description = "The result, or that there is none yet", body = MessageResult),
        openapi_responses::AwaitsResult))]
pub(super) async fn result(
    State(api): State<Api>,
    (Extension(caller), Extension(waits)): (Extension<Principal>, Extension<Shares>),
    Path((destination, sequence)): Path<(String, String)>,
    client: Option<Extension<ClientConnection>>,
    Params(Asked { id, wait_ms }): Params<Asked>,
) -> Result<Json<MessageResult>, Problem> {
    check_range("wait_ms", wait_ms, 0..=WAIT_MS_MAX)?;
    let target = Target::find(&api, &destination).await?;
    let message = Asking { target, sequence: sequence_of(&sequence)?, id };
    let _share = if wait_ms > 0 { waits.take(&caller, WAITS)? } else { None };
    // Listens before it checks, so that it misses no wake-up in between.
    let mut wakes = api.wakes.listen(WakeKind::Results);
    let deadline = Instant::now() + Duration::from_millis(wait_ms);
    loop {
        let result = message.look().await?;
        let is_over = Instant::now() >= deadline || api.stop.is_cancelled();
        if !matches!(result.state, ResultState::Pending) || is_over {
            return Ok(Json(result));
        }
        let is_meant = |wake: &Wake| {
            matches!(wake, Wake::Result(name, sequence)
                if *name == message.target.name && *sequence == message.sequence)
        };
        tokio::select! {
            () = api.stop.cancelled() => {}
            () = tokio::time::sleep_until((Instant::now() + POLL).min(deadline)) => {}
            () = woken(&mut wakes, is_meant) => {}
            () = left(client.as_deref()) => return Ok(Json(result)),
        }
    }
}

/// The message whose result a producer asks for.
struct Asking {
    target: Target,
    sequence: Sequence,
    id: String,
}

impl Asking {
    async fn look(&self) -> Result<MessageResult, Problem> {
        let result = self.look_once().await?;
        let is_failed = matches!(result.state, ResultState::Failed);
        // The message may have failed between the read of its errors and the read of its state.
        match is_failed && result.error.is_none() && result.detail.is_none() {
            true => self.look_once().await,
            false => Ok(result),
        }
    }

    async fn look_once(&self) -> Result<MessageResult, Problem> {
        if let Some(result) = self.kept().await? {
            return Ok(result);
        }
        let (store, entry) = (&self.target.api.store, self.target.entry());
        let listed = store.listed(entry, &[self.sequence]).await?;
        let result = match listed.into_iter().next() {
            // The dead letter holds the errors now.
            Some(one) if one.message.tombstone == Some(Tombstone::DeadLettered) => {
                self.of_gone().await?
            }
            Some(one) => self.of_pending(&one)?,
            None => self.of_gone().await?,
        };
        // The message may have been processed between the two reads.
        match result.state {
            ResultState::NotKept => Ok(self.kept().await?.unwrap_or(result)),
            _ => Ok(result),
        }
    }

    /// The output, if it is kept.
    async fn kept(&self) -> Result<Option<MessageResult>, Problem> {
        let (store, entry) = (&self.target.api.store, self.target.entry());
        let kept = store.kept_result(entry, self.sequence).await?;
        let Some(KeptResult { epoch, id: _, output }) = kept.filter(|kept| kept.id == self.id)
        else {
            return Ok(None);
        };
        Ok(Some(match output {
            KeptOutput::Body(content_type, bytes) => {
                let body = Body { content_type, bytes };
                let (json, base64) = body_shown(&body, self.target.api.json_depth_max);
                MessageResult {
                    content_type: Some(body.content_type),
                    body: json,
                    body_base64: base64,
                    ..self.of(epoch, ResultState::Processed)
                }
            }
            KeptOutput::Dropped => self.of(epoch, ResultState::Dropped),
            KeptOutput::TooLong(bytes) => {
                let detail =
                    format!("the output has {bytes} bytes; at most {RESULT_BYTES_MAX} are kept");
                MessageResult { detail: Some(detail), ..self.of(epoch, ResultState::NotKept) }
            }
        }))
    }

    fn of(&self, epoch: u64, state: ResultState) -> MessageResult {
        let (content_type, body, body_base64, error, detail) = (None, None, None, None, None);
        let (sequence, id) = (self.sequence, self.id.clone());
        MessageResult { sequence, epoch, id, state, content_type, body, body_base64, error, detail }
    }

    fn of_pending(&self, one: &Listed) -> Result<MessageResult, Problem> {
        let message = &one.message;
        let epoch = message.position.epoch;
        if let Some(damaged) = &message.damaged {
            let detail = Some(format!("it is damaged: {damaged}"));
            return Ok(MessageResult { detail, ..self.of(epoch, ResultState::Failed) });
        }
        if message.message.id != self.id {
            return Err(self.another());
        }
        if !message.options.keep_result {
            return Err(wrong_state(format!(
                "message {} was sent without keep_result: send it with keep_result to wait for its result",
                self.sequence
            )));
        }
        Ok(match (message.processed, message.tombstone, one.state) {
            (Some(_), ..) => self.not_kept(epoch),
            (None, Some(tombstone), _) => self.of(epoch, withdrawn(tombstone)),
            (None, None, MessageState::Halted) => {
                self.failed(epoch, message.attempts.errors.first())
            }
            _ => self.of(epoch, ResultState::Pending),
        })
    }

    async fn of_gone(&self) -> Result<MessageResult, Problem> {
        let (store, entry) = (&self.target.api.store, self.target.entry());
        let letter = store.dead_letter(entry, self.sequence).await?;
        if let Some(letter) = letter.filter(|letter| letter.message.message.id == self.id) {
            let epoch = letter.message.position.epoch;
            return Ok(match letter.message.processed {
                Some(_) => self.not_kept(epoch),
                None => self.failed(epoch, letter.message.attempts.errors.first()),
            });
        }
        let entries = store.log_entries(entry, &[self.sequence]).await?;
        let Some(gone) = entries.into_iter().next().flatten() else {
            return Err(unknown(&self.target, self.sequence).await?);
        };
        if gone.id != self.id {
            return Err(self.another());
        }
        Ok(match (gone.processed, gone.outcome) {
            (None, MessageState::Cancelled) => self.of(gone.epoch, ResultState::Cancelled),
            (_, MessageState::Dropped) => self.of(gone.epoch, ResultState::Dropped),
            (None, MessageState::DeadLettered) => self.failed(gone.epoch, None),
            _ => self.not_kept(gone.epoch),
        })
    }

    fn not_kept(&self, epoch: u64) -> MessageResult {
        let detail = "it is processed, but its output is not kept: outputs are kept for 60 s, for messages that were \
                      sent with keep_result, while there is room";
        MessageResult { detail: Some(detail.to_owned()), ..self.of(epoch, ResultState::NotKept) }
    }

    fn failed(&self, epoch: u64, error: Option<&(u64, domain::AttemptError)>) -> MessageResult {
        MessageResult { error: error.map(Failure::of), ..self.of(epoch, ResultState::Failed) }
    }

    fn another(&self) -> Problem {
        let detail = format!("message {} has another id", self.sequence);
        Problem::new(Code::UnknownMessage, detail)
    }
}

/// The state of a message that was withdrawn before it was processed.
fn withdrawn(how: Tombstone) -> ResultState {
    match how {
        Tombstone::Dropped => ResultState::Dropped,
        Tombstone::DeadLettered => ResultState::Failed,
        Tombstone::Cancelled => ResultState::Cancelled,
    }
}
