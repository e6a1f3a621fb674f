//! `POST /v1/destinations/{d}/repair`: repairs contradictions between sets and records.

use axum::{http::HeaderMap, response::Response};
use serde::Deserialize;
use utoipa::ToSchema;

use super::{
    bulk::{self, BulkAnswers, Kind, Prefer},
    request::{InDestination, Order},
};
use http_server::{openapi_responses, problem::Problem};

/// The options of a repair.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = RepairRequest)]
pub(super) struct Request {
    /// True: finds problems, but changes nothing.
    #[serde(default)]
    dry_run: bool,
}

/// `POST /v1/destinations/{d}/repair`
#[utoipa::path(post, path = "/v1/destinations/{destination}/repair", tag = "interventions", operation_id = "repair",
    params(InDestination, Prefer),
    request_body = Option<Request>,
    responses(BulkAnswers, openapi_responses::Changes))]
pub(super) async fn repair(
    headers: HeaderMap,
    Order(target, Request { dry_run }): Order<Request>,
) -> Result<Response, Problem> {
    let mut repaired = target.clone();
    bulk::run(&target, Kind::Repair, dry_run, &headers, |progress| async move {
        let count = |matched, affected| {
            progress.update(|operation| {
                (operation.matched, operation.affected) = (matched, affected);
            });
            progress.check().is_ok()
        };
        let repair = repaired.repair(dry_run, &count).await;
        // If the operation was stopped, returns the reason, not the error that followed.
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
