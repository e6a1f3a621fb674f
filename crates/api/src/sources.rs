//! `/v1/destinations/{d}/sources`: the marks of sources.

use axum::Json;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::request::{InDestination, Params, Target};
use domain::message::{SOURCE_NAME_BYTES_MAX, check_text};
use http_server::{openapi_responses, problem::Problem};

/// All sources of a destination.
#[derive(Serialize, ToSchema)]
pub(super) struct Sources {
    /// The sources, by name; at most `sources_max`.
    items: Vec<Source>,
}

/// A source that has sent messages to the destination.
#[derive(Serialize, ToSchema)]
struct Source {
    name: String,
    /// The position of the last message of the source.
    mark: String,
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct MaybeByName {
    /// Only the source with this name.
    name: Option<String>,
}

/// `GET /v1/destinations/{d}/sources`
#[utoipa::path(get, path = "/v1/destinations/{destination}/sources", tag = "destinations",
    operation_id = "list_sources",
    params(InDestination, MaybeByName),
    responses((status = 200, description = "The mark of each source", body = Sources),
        openapi_responses::ReadsDestination))]
pub(super) async fn list(
    target: Target,
    Params(MaybeByName { name }): Params<MaybeByName>,
) -> Result<Json<Sources>, Problem> {
    let store = &target.api.store;
    let marks = match name {
        None => store.sources(target.entry()).await?,
        Some(name) => {
            check_name(&name)?;
            let mark = store.source(target.entry(), &name).await?;
            mark.map(|mark| (name, mark)).into_iter().collect()
        }
    };
    let items = marks.into_iter().map(|(name, mark)| Source { name, mark });
    Ok(Json(Sources { items: items.collect() }))
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct ByName {
    /// The name of the source.
    name: String,
}

/// A source whose mark a client removed.
#[derive(Serialize, ToSchema)]
pub(super) struct RemovedSource {
    name: String,
    /// False if the source had no mark.
    removed: bool,
}

/// `DELETE /v1/destinations/{d}/sources?name=…`
#[utoipa::path(delete, path = "/v1/destinations/{destination}/sources", tag = "destinations",
    operation_id = "remove_source",
    params(InDestination, ByName),
    responses((status = 200, description = "It has no mark any more", body = RemovedSource),
        openapi_responses::ChangesMessage))]
pub(super) async fn remove(
    target: Target,
    Params(ByName { name }): Params<ByName>,
) -> Result<Json<RemovedSource>, Problem> {
    check_name(&name)?;
    let removed = target.api.store.remove_source(target.entry(), &name).await?;
    Ok(Json(RemovedSource { name, removed }))
}

fn check_name(name: &str) -> Result<(), Problem> {
    check_text("name", name, SOURCE_NAME_BYTES_MAX).map_err(Problem::invalid_parameter)
}
