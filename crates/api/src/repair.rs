//! `POST /v1/destinations/{d}/repair`: repairs contradictions between sets and records.

use axum::{
    body::Bytes,
    extract::{Path, State, rejection::BytesRejection},
    http::HeaderMap,
    response::Response,
};
use serde::Deserialize;
use utoipa::ToSchema;

use super::{
    Api,
    bulk::{self, Kind, Operation},
    request::{Target, read_optional},
};
use http_server::{openapi_responses, problem::Problem};

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
#[utoipa::path(post, path = "/v1/destinations/{destination}/repair", tag = "interventions", operation_id = "repair",
    params(("destination" = String, Path, description = "The name of the destination"),
        ("Prefer" = Option<String>, Header, description = "`respond-async`, or `wait=<seconds>` for the end (RFC 7240); 10 s if absent")),
    request_body = Option<Request>,
    responses(
        (status = 200, description = "It is done", body = Operation),
        (status = 202, description = "It goes on", body = Operation,
            headers(("Location" = String, description = "Where the operation can be read"))),
        openapi_responses::Changes))]
pub(super) async fn repair(
    State(api): State<Api>,
    Path(destination): Path<String>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Problem> {
    let target = Target::find(&api, &destination).await?;
    let Request { dry_run } = read_optional(body, api.batch_bytes_max)?;
    let mut repaired = target.clone();
    bulk::run(&target, Kind::Repair, dry_run, &headers, |progress| async move {
        let count = |matched, affected| {
            progress.update(|operation| {
                (operation.matched, operation.affected) = (matched, affected);
            });
            progress.check().is_ok()
        };
        let repair = repaired.repair(dry_run, &count).await;
        // Why it stopped counts, not what it was about to do.
        progress.check()?;
        let repair = repair?;
        progress.update(|operation| {
            (operation.matched, operation.affected) = (repair.matched(), repair.affected());
            if !dry_run {
                operation.failed = operation.matched - operation.affected;
            }
            operation.details.counters_verified = Some(repair.counters_verified);
            operation.details.items = Some(repair.items);
        });
        Ok(())
    })
    .await
}
