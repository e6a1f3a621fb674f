//! `POST /v1/destinations/{d}/repair`: repairs contradictions between sets and records.

use axum::{
    Json,
    body::Bytes,
    extract::{Path, State, rejection::BytesRejection},
};
use serde::Deserialize;
use utoipa::ToSchema;

use super::{
    Api, draining,
    request::{Target, read_optional},
};
use crate::{
    store::Repair,
    wire::{document, problem::Problem},
};

/// How to repair.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = RepairRequest)]
struct Request {
    /// Find, but change nothing.
    #[serde(default)]
    dry_run: bool,
}

/// `POST /v1/destinations/{d}/repair`
#[utoipa::path(post, path = "/v1/destinations/{destination}/repair", tag = "interventions",
    operation_id = "repair", params(("destination" = String, Path, description = "The name of the destination")), request_body = Option<Request>,
    responses((status = 200, description = "What it found, and repaired", body = Repair),
        document::Changes))]
pub(super) async fn repair(
    State(api): State<Api>,
    Path(destination): Path<String>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<Repair>, Problem> {
    let mut target = Target::find(&api, &destination).await?;
    let Request { dry_run } = read_optional(body, api.batch_bytes_max)?;
    match target.repair(dry_run).await {
        Ok(repair) => Ok(Json(repair)),
        Err(_) if api.stop.is_cancelled() => Err(draining()),
        Err(error) => Err(error.into()),
    }
}
