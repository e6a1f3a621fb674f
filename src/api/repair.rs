//! `POST /v1/destinations/{d}/repair`: repairs contradictions between sets and records.

use axum::{
    Json,
    body::Bytes,
    extract::{Path, State, rejection::BytesRejection},
};
use serde::Deserialize;

use super::{
    Api, draining,
    request::{Target, read_optional},
};
use crate::{store::Repair, wire::problem::Problem};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    #[serde(default)]
    dry_run: bool,
}

/// `POST /v1/destinations/{d}/repair`
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
