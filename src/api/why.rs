//! `GET /v1/destinations/{d}/why`: what blocks a lane, since when, and what to do.

mod advice;

use axum::{
    Json,
    extract::{Path, Query, State, rejection::QueryRejection},
};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::{
    Api,
    request::{Target, query_of},
    views::{Pending, rfc3339},
};
use crate::{
    domain::{self, DestinationName, Ordering, Stage, message},
    store::{CatalogEntry, Claimers, LaneHead, Listed},
    wire::{document, problem::Problem},
};

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct Lane {
    /// The lane of this ordering key; `""`: of the messages without a key. Without it: the lane whose
    /// head is the oldest.
    #[serde(default)]
    key: Option<String>,
}

/// What blocks a lane.
#[derive(Serialize, ToSchema)]
pub(super) struct Why {
    destination: DestinationName,
    /// The lane's ordering key, with ordering by key.
    key: Option<String>,
    cause: Cause,
    /// The cause in one sentence.
    explanation: String,
    /// The message that the lane waits for; null if none is pending.
    head: Option<Pending>,
    /// How long it has been the head, in milliseconds; absent if that is not known (any more).
    #[serde(skip_serializing_if = "Option::is_none")]
    blocked_ms: Option<u64>,
    /// The head's next attempt begins then, if it waits for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    next_attempt_at: Option<String>,
    /// How many messages of the lane wait behind the head.
    behind: u64,
    /// The bytes of their bodies; absent where a destination has several lanes.
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes_behind: Option<u64>,
    /// The pod that delivers this destination's messages; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<String>,
    /// What an operator can do.
    actions: Vec<Action>,
}

/// Something that an operator can do.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Action {
    /// When this is right.
    when: &'static str,
    /// The command line.
    command: String,
}

/// Why the head is still there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = BlockedBy)]
pub(super) enum Cause {
    /// Nothing is pending.
    Nothing,
    /// Redis holds data of the head that cannot be read.
    Damaged,
    /// Its attempts are used up, or it was refused for good.
    Halted,
    /// It leaves as soon as the attempt in progress has ended.
    Withdrawing,
    /// Its producer delayed it.
    Delayed,
    /// An attempt to process or deliver it failed, and the next one is not due yet.
    Backoff,
    /// It waits for processing, and no pod has the role processor.
    NoProcessor,
    /// It waits for a processor: all are busy.
    AwaitingProcessor,
    /// It waits for a worker to claim it.
    AwaitingWorker,
    /// A processor or a worker holds it.
    Processing,
    /// Delivery is paused.
    Paused,
    /// It is processed, and no pod delivers for its partition.
    NoOwner,
    /// After a failover, the new owner waits until a forgotten one must have stopped.
    TakeoverWait,
    /// It is being delivered, or about to be.
    Delivering,
}

/// What decides the cause, besides the lane itself.
struct Surroundings {
    now_ms: u64,
    /// Whether a pod has the role processor; false if the head does not wait for one.
    has_processor: bool,
}

/// `GET /v1/destinations/{d}/why`
#[utoipa::path(get, path = "/v1/destinations/{destination}/why", tag = "destinations",
    operation_id = "why",
    params(("destination" = String, Path, description = "The name of the destination"), Lane),
    responses((status = 200, description = "What blocks the lane, and what to do", body = Why),
        document::ReadsDestination))]
pub(super) async fn why(
    State(api): State<Api>,
    Path(destination): Path<String>,
    query: Result<Query<Lane>, QueryRejection>,
) -> Result<Json<Why>, Problem> {
    let target = Target::find(&api, &destination).await?;
    let Lane { key } = query_of(query)?;
    let entry = target.entry();
    if let Some(key) = &key {
        if entry.destination.ordering != Ordering::Key {
            let detail = "key: only with ordering \"key\"; this destination has one lane for all";
            return Err(Problem::invalid_parameter(detail));
        }
        if !key.is_empty() {
            message::check_text("key", key, message::KEY_BYTES_MAX)
                .map_err(Problem::invalid_parameter)?;
        }
    }
    let now_ms = api.store.server_time_ms().await?;
    let Some(lane) = api.store.why(entry, key.as_deref()).await? else {
        return Ok(Json(nothing(entry, key)));
    };
    let has_processor = waits_for_processor(entry, &lane.head) && has_processor(&api).await?;
    Ok(Json(Why::of(entry, &lane, &Surroundings { now_ms, has_processor })))
}

/// True if a built-in transform has to claim it.
fn waits_for_processor(entry: &CatalogEntry, head: &Listed) -> bool {
    head.state == domain::State::Waiting && entry.claimers() == Claimers::Builtin
}

async fn has_processor(api: &Api) -> Result<bool, Problem> {
    let pods = api.store.live_pods().await?;
    Ok(pods.iter().any(|pod| pod.roles.iter().any(|role| role == "processor")))
}

fn nothing(entry: &CatalogEntry, key: Option<String>) -> Why {
    Why {
        destination: entry.destination.name.clone(),
        key,
        cause: Cause::Nothing,
        explanation: "No message is pending.".to_owned(),
        head: None,
        blocked_ms: None,
        next_attempt_at: None,
        behind: 0,
        bytes_behind: None,
        owner: None,
        actions: Vec::new(),
    }
}

impl Why {
    fn of(entry: &CatalogEntry, lane: &LaneHead, around: &Surroundings) -> Why {
        let cause = cause_of(entry, lane, around);
        let waits_until = match cause {
            Cause::Delayed | Cause::Backoff => lane.head.due_ms.or(lane.not_before_ms),
            Cause::TakeoverWait => Some(lane.ownership.waits_until_ms),
            _ => None,
        };
        let message = &lane.head.message.message;
        let key = entry.destination.lane_key(message.key.as_deref()).map(str::to_owned);
        Why {
            destination: entry.destination.name.clone(),
            cause,
            explanation: advice::explanation(cause, entry, lane),
            blocked_ms: lane.head_since_ms.map(|since| around.now_ms.saturating_sub(since)),
            next_attempt_at: waits_until.map(rfc3339),
            behind: lane.behind,
            bytes_behind: lane.bytes_behind,
            owner: lane.ownership.owner.clone(),
            actions: advice::actions(cause, entry, lane, key.as_deref()),
            head: Some(Pending::of(entry, &lane.head, around.now_ms, None)),
            key,
        }
    }
}

fn cause_of(entry: &CatalogEntry, lane: &LaneHead, around: &Surroundings) -> Cause {
    let LaneHead { head, ownership, .. } = lane;
    let attempts = &head.message.attempts;
    match head.state {
        domain::State::Damaged => Cause::Damaged,
        domain::State::Halted => Cause::Halted,
        _ if head.withdrawing => Cause::Withdrawing,
        domain::State::Delayed if attempts.failed + attempts.stalls > 0 => Cause::Backoff,
        domain::State::Delayed => Cause::Delayed,
        domain::State::Processing => Cause::Processing,
        domain::State::Waiting if !waits_for_processor(entry, head) => Cause::AwaitingWorker,
        domain::State::Waiting if !around.has_processor => Cause::NoProcessor,
        domain::State::Waiting => Cause::AwaitingProcessor,
        _ if entry.paused.delivery => Cause::Paused,
        _ if ownership.owner.is_none() => Cause::NoOwner,
        _ if ownership.waits_until_ms > around.now_ms => Cause::TakeoverWait,
        _ => {
            let errors = &attempts.errors;
            let has_failed =
                errors.first().is_some_and(|(_, error)| error.stage == Stage::Delivery);
            let waits = lane.not_before_ms.is_some_and(|until| until > around.now_ms);
            if has_failed && attempts.failed > 0 && waits {
                Cause::Backoff
            } else {
                Cause::Delivering
            }
        }
    }
}
