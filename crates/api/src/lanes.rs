//! `GET /v1/destinations/{d}/lanes`: the lanes with the most pending messages.

use axum::Json;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::{
    request::{InDestination, Params, Target, cursor_of},
    views::Pending,
};
use domain::Ordering;
use http_server::{openapi_responses, problem::Problem};
use store::LaneSize;

/// The default number of lanes.
const LIMIT: usize = 10;
/// The most lanes of one answer.
const LIMIT_MAX: usize = 100;

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct Listing {
    /// The most lanes of the answer.
    #[param(minimum = 1, maximum = 100, default = 10)]
    limit: Option<usize>,
    /// The `next_cursor` of the previous page.
    cursor: Option<String>,
}

/// The largest lanes among the keys of Redis that this call visited.
#[derive(Serialize, ToSchema)]
pub(super) struct Lanes {
    /// The ordering of the destination. With `none`, each message is its own lane, and the answer lists no lanes.
    ordering: Ordering,
    /// The lanes; the lane with the most pending messages comes first.
    items: Vec<Lane>,
    /// The `cursor` of the next page; null on the last page.
    next_cursor: Option<String>,
    /// The share of the keys visited so far, 0 to 1; null if it is not known (in a cluster).
    progress: Option<f64>,
}

/// A lane that holds messages.
#[derive(Serialize, ToSchema)]
struct Lane {
    /// The shard of the lane, if the destination has several.
    #[serde(skip_serializing_if = "Option::is_none")]
    shard: Option<String>,
    /// The ordering key of the lane; null if the destination is one lane.
    key: Option<String>,
    /// How many messages have not left the lane.
    pending: u64,
    /// How many of these messages are processed and not delivered yet.
    ready: u64,
    /// The head: the message that the others wait for. Null if it has just left.
    head: Option<Pending>,
}

/// `GET /v1/destinations/{d}/lanes`
#[utoipa::path(get, path = "/v1/destinations/{destination}/lanes", tag = "destinations",
    operation_id = "list_lanes",
    params(InDestination, Listing),
    responses((status = 200, description = "The largest lanes of a part of the keys", body = Lanes),
        openapi_responses::ReadsDestination))]
pub(super) async fn list(
    target: Target,
    Params(Listing { limit, cursor }): Params<Listing>,
) -> Result<Json<Lanes>, Problem> {
    let limit = limit.unwrap_or(LIMIT);
    if !(1..=LIMIT_MAX).contains(&limit) {
        let detail = format!("limit: {limit} is outside 1 to {LIMIT_MAX}");
        return Err(Problem::invalid_parameter(detail));
    }
    let cursor = cursor_of(cursor.as_deref())?.unwrap_or_default();
    let entry = target.entry();
    let scanned = target.api.store.scan_lanes(entry, cursor, limit).await?;
    let now_ms = target.api.store.server_time_ms().await?;
    let shown = |lane: LaneSize| Lane {
        shard: None,
        key: lane.key,
        pending: lane.pending,
        ready: lane.ready,
        head: lane.head.map(|head| Pending::of(entry, &head, now_ms, None)),
    };
    Ok(Json(Lanes {
        ordering: entry.destination.ordering,
        items: scanned.lanes.into_iter().map(shown).collect(),
        next_cursor: scanned.next.map(|next| next.to_string()),
        progress: scanned.progress,
    }))
}
