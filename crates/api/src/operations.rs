//! `/v1/destinations/{d}/operations`: list, show and cancel bulk operations.

use axum::{Json, extract::Path};

use super::{
    bulk::Operation,
    destinations::Listing,
    request::{InDestination, Params, Target, limit_of},
    views::Items,
};
use formats::code::Code;
use http_server::{openapi_responses, problem::Problem};

/// `GET /v1/destinations/{d}/operations`
#[utoipa::path(get, path = "/v1/destinations/{destination}/operations", tag = "operations",
    operation_id = "list_operations",
    params(InDestination, Listing),
    responses((status = 200, description = "The newest first", body = Items<Operation>),
        openapi_responses::ReadsDestination))]
pub(super) async fn list(
    target: Target,
    Params(listing): Params<Listing>,
) -> Result<Json<Items<Operation>>, Problem> {
    let now_ms = target.api.store.server_time_ms().await?;
    let mut operations = Vec::new();
    for text in target.api.store.operations(target.entry()).await? {
        operations.push(Operation::read(&text, now_ms)?);
    }
    // Ids are UUIDv7, so they sort by time.
    operations.sort_by(|a, b| b.id.cmp(&a.id));
    let limit = limit_of(listing.limit)?;
    let cursor = listing.cursor.as_deref();
    operations.retain(|operation| cursor.is_none_or(|cursor| operation.id.as_str() < cursor));
    let is_last = operations.len() <= limit;
    operations.truncate(limit);
    let next_cursor = operations.last().filter(|_| !is_last).map(|last| last.id.clone());
    Ok(Json(Items { items: operations, next_cursor }))
}

/// `GET /v1/destinations/{d}/operations/{id}`
#[utoipa::path(get, path = "/v1/destinations/{destination}/operations/{id}", tag = "operations",
    operation_id = "show_operation",
    params(InDestination,
        ("id" = String, Path, description = "The id of the operation")),
    responses((status = 200, description = "The operation", body = Operation),
        openapi_responses::ReadsOperation))]
pub(super) async fn show(
    target: Target,
    Path((_, id)): Path<(String, String)>,
) -> Result<Json<Operation>, Problem> {
    let found = target.api.store.operation(target.entry(), &id).await?;
    let text = found.ok_or_else(|| unknown(&id))?;
    let now_ms = target.api.store.server_time_ms().await?;
    Ok(Json(Operation::read(&text, now_ms)?))
}

/// `POST /v1/destinations/{d}/operations/{id}/cancel`
#[utoipa::path(post, path = "/v1/destinations/{destination}/operations/{id}/cancel",
    tag = "operations", operation_id = "cancel_operation",
    params(InDestination,
        ("id" = String, Path, description = "The id of the operation")),
    responses((status = 202, description = "It stops within a second, if it still runs",
            body = Operation),
        openapi_responses::ReadsOperation))]
pub(super) async fn cancel(
    target: Target,
    Path((_, id)): Path<(String, String)>,
) -> Result<(axum::http::StatusCode, Json<Operation>), Problem> {
    let found = target.api.store.cancel_operation(target.entry(), &id).await?;
    let text = found.ok_or_else(|| unknown(&id))?;
    let now_ms = target.api.store.server_time_ms().await?;
    Ok((axum::http::StatusCode::ACCEPTED, Json(Operation::read(&text, now_ms)?)))
}

fn unknown(id: &str) -> Problem {
    let shown = domain::excerpt::excerpt(id.as_bytes());
    let detail = format!("there is no operation {shown:?}; operations are kept for seven days");
    Problem::new(Code::UnknownOperation, detail)
}
