//! `GET /v1/pods`: the live processes, and the partitions that each owns.

use std::sync::Arc;

use axum::{Extension, Json, extract::State};
use serde::Serialize;
use utoipa::ToSchema;

use super::{
    Api,
    destinations::{Listing, page_of},
    request::Params,
    views::{Items, rfc3339},
};
use http_server::{openapi_responses, principal::Principal, problem::Problem};
use store::PodInfo;

/// A live process of Reseq.
#[derive(Serialize, ToSchema)]
#[schema(as = Pod)]
pub(super) struct View {
    /// The unique name of the process. A lease of a built-in transform names it.
    pod: String,
    /// The name of the machine or container.
    host: String,
    /// The roles of the process: `ingest`, `processor`, `sender`.
    roles: Vec<String>,
    /// The version of the process; null until its second heartbeat.
    version: Option<String>,
    /// The address at which the process listens for HTTP, as configured; null until its second heartbeat.
    address: Option<String>,
    /// When the process started; null until its second heartbeat.
    #[schema(format = DateTime)]
    started_at: Option<String>,
    /// The newest schema that the process knows.
    schema: u32,
    /// How many seconds the clock of the process is ahead of the clock of Redis; 0 if they differ by at most one
    /// second.
    clock_ahead_s: i64,
    /// The process counts as dead after this time, unless it sends another heartbeat. It sends one per second.
    #[schema(format = DateTime)]
    expires_at: String,
    /// The partitions that the process owns: it delivers the messages of their destinations.
    partitions: Vec<u16>,
    /// True for the process that answers.
    is_self: bool,
}

impl View {
    fn of(pod: &PodInfo, of_this: &str) -> View {
        View {
            is_self: pod.pod == of_this,
            pod: pod.pod.clone(),
            host: pod.host.clone(),
            roles: pod.roles.clone(),
            version: Some(pod.version.clone()).filter(|text| !text.is_empty()),
            address: Some(pod.address.clone()).filter(|text| !text.is_empty()),
            started_at: (pod.started_ms > 0).then(|| rfc3339(pod.started_ms)),
            schema: pod.schema,
            clock_ahead_s: pod.clock_ahead_s,
            expires_at: rfc3339(pod.expires_ms),
            partitions: pod.partitions.clone(),
        }
    }
}

/// `GET /v1/pods`
#[utoipa::path(get, path = "/v1/pods", tag = "health", operation_id = "list_pods", params(Listing),
    responses((status = 200, description = "A page, by name", body = Items<View>), openapi_responses::Reads))]
pub(super) async fn list(
    State(api): State<Api>,
    Extension(caller): Extension<Principal>,
    listing: Result<Params<Listing>, Problem>,
) -> Result<Json<Items<View>>, Problem> {
    caller.check_unlimited()?;
    let Params(listing) = listing?;
    let pods: Vec<Arc<PodInfo>> = api.store.pods().await?.into_iter().map(Arc::new).collect();
    let (shown, next_cursor) = page_of(&pods, &listing, |pod| &pod.pod)?;
    let items = shown.iter().map(|pod| View::of(pod, api.store.pod())).collect();
    Ok(Json(Items { items, next_cursor }))
}
