//! `/v1/destinations/{d}/messages/{sequence}/run-now` and `/v1/destinations/{d}/run-now`: make delayed messages due
//! now.

use std::sync::Arc;

use axum::{Json, http::HeaderMap, response::Response};
use serde::Deserialize;
use utoipa::ToSchema;

use super::{
    bulk::{self, BulkAnswers, Kind, Prefer, Progress},
    interventions::{AT_ONCE, HeadState, retry_one},
    messages::unknown,
    request::{At, InDestination, Order, Target},
    withdraw::{name, wrong_state},
};
use domain::{Sequence, State};
use http_server::{openapi_responses, problem::Problem};
use store::{Listed, Retry, StoreError, Which};

/// `POST /v1/destinations/{d}/messages/{sequence}/run-now`
#[utoipa::path(post, path = "/v1/destinations/{destination}/messages/{sequence}/run-now", tag = "messages",
    operation_id = "run_message_now", params(InDestination, ("sequence" = u64, Path, description = "The sequence of the message")),
    responses((status = 200, description = "It is due now", body = HeadState),
        openapi_responses::ChangesMessage))]
pub(super) async fn run_message_now(
    At(mut target, sequence): At,
) -> Result<Json<HeadState>, Problem> {
    let found = target.api.store.listed(target.entry(), &[sequence]).await?.into_iter().next();
    let Some(found) = found else { return Err(unknown(&target, sequence).await?) };
    // A message that waits for its turn in the lane has the state waiting, even if it is delayed.
    let may_be_delayed = matches!(found.state, State::Delayed | State::Waiting);
    let state = match may_be_delayed {
        true => target.retry(&retry_of(&target, &found)).await,
        false => Err(StoreError::WrongHead),
    };
    match state {
        Ok(state) => Ok(Json(HeadState { sequence, state })),
        Err(StoreError::WrongHead | StoreError::WrongState(_)) => Err(wrong_state(format!(
            "message {sequence} is not delayed: it is {}",
            name(found.state)
        ))),
        Err(error) => Err(error.into()),
    }
}

/// The call that makes this delayed message due.
fn retry_of(target: &Target, found: &Listed) -> Retry {
    let sequence = found.message.position.sequence;
    let key = found.message.message.key.as_deref();
    let lane = target.entry().destination.lane_of(key, sequence);
    Retry { lane, sequence, repaired: None }
}

/// Which delayed messages to make due.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = RunNowRequest)]
pub(super) struct RunNow {
    /// True: only counts the messages.
    #[serde(default)]
    dry_run: bool,
    /// Only messages with this ordering key; `""`: messages without a key.
    key: Option<String>,
}

/// `POST /v1/destinations/{d}/run-now`
#[utoipa::path(post, path = "/v1/destinations/{destination}/run-now", tag = "interventions", operation_id = "run_now",
    params(InDestination, Prefer),
    request_body = Option<RunNow>,
    responses(BulkAnswers, openapi_responses::Changes))]
pub(super) async fn run_now(
    headers: HeaderMap,
    Order(target, request): Order<RunNow>,
) -> Result<Response, Problem> {
    let (running, dry_run) = (target.clone(), request.dry_run);
    let work = |progress| run_all(running, request, progress);
    bulk::run(&target, Kind::RunNow, dry_run, &headers, work).await
}

async fn run_all(
    mut target: Target,
    request: RunNow,
    progress: Arc<Progress>,
) -> Result<(), Problem> {
    let store = target.api.store.clone();
    // Leaves out messages that arrive from now on: otherwise the operation might never end.
    let last: Sequence = store.counts(target.entry()).await?.last_sequence;
    let mut which =
        Which { state: Some(State::Delayed), key: request.key, limit: AT_ONCE, ..Which::default() };
    loop {
        let page = store.pending(target.entry(), &which).await?;
        for one in page.items.iter().filter(|one| one.message.position.sequence <= last) {
            progress.check()?;
            progress.update(|operation| operation.matched += 1);
            if request.dry_run {
                continue;
            }
            let retry = retry_of(&target, one);
            retry_one(&mut target, retry, &progress).await?;
        }
        which.cursor = page.next;
        if which.cursor.is_none() {
            return Ok(());
        }
    }
}
