//! `GET /v1/destinations/{d}/why`: what blocks a lane, since when, and how to unblock it.

mod advice;
mod pace;

use std::{collections::BTreeMap, time::Duration};

use axum::Json;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::{
    Api,
    request::{InDestination, Params, Target},
    views::{Pending, rfc3339},
};
use domain::{DestinationName, Ordering, message};
use http_server::{openapi_responses, problem::Problem};
use store::{CatalogEntry, Cause, Causes, LaneHead, StoreError, Surroundings, waits_for_processor};

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct Lane {
    /// The ordering key of the lane; `""`: the lane of messages without a key. If absent: the lane with the oldest
    /// head.
    #[serde(default)]
    key: Option<String>,
}

/// The cause that blocks a lane, with details.
#[derive(Serialize, ToSchema)]
pub(super) struct Why {
    destination: DestinationName,
    /// The ordering key of the lane, with ordering by key.
    key: Option<String>,
    cause: Cause,
    /// The cause in one sentence.
    explanation: String,
    /// The message that the lane waits for; null if none is pending.
    head: Option<Pending>,
    /// For how many milliseconds the message has been the head; absent if that is not known (any more).
    #[serde(skip_serializing_if = "Option::is_none")]
    blocked_ms: Option<u64>,
    /// How many of these milliseconds each cause took, since the head was first sampled. Absent if another process
    /// samples the lane, or no process has sampled it yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    blocked_ms_by_cause: Option<BTreeMap<Cause, u64>>,
    /// When the next attempt of the head begins, if the head waits for an attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    next_attempt_at: Option<String>,
    /// How many messages of the lane wait behind the head.
    behind: u64,
    /// The total size of the bodies behind the head, in bytes; absent if the destination has several lanes.
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes_behind: Option<u64>,
    /// The pod that delivers the messages of this destination; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<String>,
    /// When the owner last reported that it is alive.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    owner_seen_at: Option<String>,
    /// Sentences about the whole destination.
    summary: Vec<String>,
    /// Actions that an operator can take.
    actions: Vec<Action>,
}

/// An action that an operator can take.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Action {
    /// The situation in which the action is right.
    when: &'static str,
    /// The command line of the action.
    command: String,
}

/// `GET /v1/destinations/{d}/why`
#[utoipa::path(get, path = "/v1/destinations/{destination}/why", tag = "destinations",
    operation_id = "why",
    params(InDestination, Lane),
    responses((status = 200, description = "What blocks the lane, and what to do", body = Why),
        openapi_responses::ReadsDestination))]
pub(super) async fn why(
    target: Target,
    Params(Lane { key }): Params<Lane>,
) -> Result<Json<Why>, Problem> {
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
    match look(&target.api, entry, key.as_deref()).await {
        Ok(why) => Ok(Json(why)),
        Err(error) if error.is_temporary() => {
            Ok(Json(Why::without_head(entry, key, advice::no_answer(&error))))
        }
        Err(error) => Err(error.into()),
    }
}

async fn look(api: &Api, entry: &CatalogEntry, key: Option<&str>) -> Result<Why, StoreError> {
    let now_ms = api.store.server_time_ms().await?;
    if let Some(wrong) = api.store.wrong_type(entry).await? {
        let halted = (Cause::Damaged, advice::halted(&wrong));
        let why = Why::without_head(entry, key.map(str::to_owned), halted);
        return Ok(Why { actions: advice::repairs(entry), ..why });
    }
    let before = api.store.counts(entry).await?;
    let (lane, drain) = pace::look_twice(api, entry, key, &before).await?;
    let refusal = api.store.refusal_at(entry.partition).await;
    let marks = api.store.sources(entry).await.unwrap_or_default();
    let sources = advice::sources(entry, &marks);
    let Some(lane) = lane else {
        let cause = match (&refusal, drain) {
            (Some(sentence), _) => (Cause::RedisRefusesWrites, advice::refused(sentence)),
            (None, Some(drain)) => (Cause::Draining, drain.to_string()),
            (None, None) => (Cause::Nothing, advice::NOTHING.to_owned()),
        };
        let mut why = Why::without_head(entry, key.map(str::to_owned), cause);
        if why.cause == Cause::Nothing && sources.is_some() {
            why.actions = advice::not_arrived(entry);
        }
        why.summary.extend(sources);
        return Ok(why);
    };
    let has_processor = waits_for_processor(entry, &lane.head) && has_processor(api).await?;
    // Only the owner knows this for certain. This pod assumes it if there is a rate limit and no delivery.
    let has_limit = entry.destination.delivery.rate_per_second_max > 0;
    let is_rate_limited = has_limit && lane.delivering == 0;
    let awaits_connection = lane.awaiting_connection > 0;
    let refuses_writes = refusal.is_some();
    let surroundings = Surroundings {
        now_ms,
        has_processor,
        is_rate_limited,
        awaits_connection,
        is_receiver_probed: lane.probe_at_ms.is_some(),
        refuses_writes,
    };
    let message = &lane.head.message;
    let lane_key =
        entry.destination.lane_of(message.message.key.as_deref(), message.position.sequence);
    let times = api.store.blocked_times();
    let times = times.of(&entry.destination.name, &lane_key, message.position);
    let mut why = Why::of(entry, &lane, &surroundings, times);
    why.summary = pace::summary(api, entry, &lane, &before).await;
    why.summary.extend(sources);
    match (refusal, drain, why.cause) {
        (Some(sentence), ..) => why.explanation = advice::refused(&sentence),
        (None, Some(drain), _) => {
            (why.cause, why.explanation, why.actions) =
                (Cause::Draining, drain.to_string(), Vec::new());
        }
        (None, None, Cause::Delivering) => {
            why.explanation += &pace::compared(api, entry, &lane, now_ms).await;
        }
        _ => {}
    }
    Ok(why)
}

async fn has_processor(api: &Api) -> Result<bool, StoreError> {
    let pods = api.store.live_pods().await?;
    Ok(pods.iter().any(|pod| pod.has_role("processor")))
}

impl Why {
    fn without_head(
        entry: &CatalogEntry,
        key: Option<String>,
        (cause, explanation): (Cause, String),
    ) -> Why {
        Why {
            destination: entry.destination.name.clone(),
            key,
            cause,
            explanation,
            head: None,
            blocked_ms: None,
            blocked_ms_by_cause: None,
            next_attempt_at: None,
            behind: 0,
            bytes_behind: None,
            owner: None,
            owner_seen_at: None,
            summary: Vec::new(),
            actions: Vec::new(),
        }
    }

    fn of(
        entry: &CatalogEntry,
        lane: &LaneHead,
        around: &Surroundings,
        times: Option<Causes>,
    ) -> Why {
        let cause = Cause::of(entry, lane, around);
        let times = times.filter(|times| !times.is_empty());
        let in_ms = |(cause, time): (Cause, Duration)| (cause, time.as_millis() as u64);
        let waits_until = match cause {
            Cause::Delayed | Cause::Backoff => lane.head.due_ms.or(lane.not_before_ms),
            Cause::TransformRateLimit => lane.next_attempt_ms,
            Cause::ReceiverFailing => lane.probe_at_ms.filter(|at| *at > around.now_ms),
            // Only the owner knows how much of a takeover wait is over.
            _ => None,
        };
        let message = &lane.head.message.message;
        let key = entry.destination.lane_key(message.key.as_deref()).map(str::to_owned);
        Why {
            destination: entry.destination.name.clone(),
            cause,
            explanation: advice::explanation(cause, entry, lane, around.now_ms),
            blocked_ms: lane.head_since_ms.map(|since| around.now_ms.saturating_sub(since)),
            blocked_ms_by_cause: times.map(|times| times.into_iter().map(in_ms).collect()),
            next_attempt_at: waits_until.map(rfc3339),
            behind: lane.behind,
            bytes_behind: lane.bytes_behind,
            owner: lane.ownership.owner.clone(),
            owner_seen_at: lane.ownership.seen_ms.map(rfc3339),
            summary: Vec::new(),
            actions: advice::actions(cause, entry, lane, key.as_deref()),
            head: Some(Pending::of(entry, &lane.head, around.now_ms, None)),
            key,
        }
    }
}
