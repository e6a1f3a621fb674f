//! `/v1/removed-destinations` and `/v1/destinations/{d}/restore`: the definitions of removed destinations.

use axum::{
    Extension, Json,
    extract::{Path, State},
    response::Response,
};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::{
    Api, audit,
    define::{check, has_masks, stored},
    destinations::parse_name,
    versions::{unfit, unfit_if_refused},
    views::{Items, rfc3339},
};
use domain::DestinationName;
use formats::code::Code;
use http_server::{openapi_responses, principal::Principal, problem::Problem};
use store::{Replaces, StoreError};

/// The definition of a removed destination.
#[derive(Serialize, ToSchema)]
#[schema(as = RemovedDefinition)]
pub(super) struct Kept {
    name: DestinationName,
    version: u64,
    #[schema(format = DateTime)]
    removed_at: String,
    /// The caller that removed the destination, as in the audit log; empty if it is not known.
    actor: String,
    /// The name of the token.
    #[serde(skip_serializing_if = "Option::is_none")]
    actor_name: Option<String>,
    /// The definition, with secrets masked.
    #[schema(value_type = Object)]
    definition: Value,
}

/// `GET /v1/removed-destinations`
#[utoipa::path(get, path = "/v1/removed-destinations", tag = "destinations",
    operation_id = "list_removed_destinations",
    responses((status = 200, description = "The last ones of 7 days, by name", body = Items<Kept>),
        openapi_responses::Reads))]
pub(super) async fn list(
    State(api): State<Api>,
    Extension(caller): Extension<Principal>,
) -> Result<Json<Items<Kept>>, Problem> {
    let mut all = api.store.removed_definitions().await?;
    all.retain(|name, _| caller.covers(name));
    let items = all.into_iter().map(|(name, kept)| Kept {
        name,
        version: kept.version,
        removed_at: rfc3339(kept.at_ms),
        actor: kept.by.actor,
        actor_name: kept.by.actor_name,
        definition: kept.definition,
    });
    Ok(Json(Items { items: items.collect(), next_cursor: None }))
}

/// `POST /v1/destinations/{d}/restore`
#[utoipa::path(post, path = "/v1/destinations/{destination}/restore", tag = "destinations",
    operation_id = "restore_destination",
    params(("destination" = String, Path, description = "The name of the removed destination")),
    responses(
        (status = 200, description = "It exists, with this definition", body = super::destinations::View,
            headers(("ETag" = String, description = "For `If-Match`"))),
        (status = 201, description = "It is created, without messages", body = super::destinations::View,
            headers(("ETag" = String, description = "For `If-Match`"))),
        openapi_responses::RollsBack))]
pub(super) async fn restore(
    State(api): State<Api>,
    Path(name): Path<String>,
) -> Result<Response, Problem> {
    let name = parse_name(&name)?;
    let kept = api.store.removed_definition(&name).await?.ok_or_else(|| {
        let detail = format!(
            "no definition of {name:?} is kept: those of removed destinations are kept for 7 days, at most 100"
        );
        Problem::new(Code::UnknownDestination, detail)
    })?;
    let unfit = |why: &str| unfit("/v1/removed-destinations", &name, why);
    let wanted = api.store.unseal_kept(&kept).map_err(|error| match error {
        StoreError::NoSecretsKey(key) => unfit(&format!(
            "its secrets are encrypted with the key {key:?}, which this process lacks"
        )),
        StoreError::Unreadable(error) => unfit(&error),
        error => error.into(),
    })?;
    if has_masks(&wanted) {
        return Err(unfit(
            "its secrets were not kept, because they were not encrypted (secrets.key)",
        ));
    }
    audit::target(&kept.version.to_string());
    check(&api, &wanted).await.map_err(|problem| unfit_if_refused(problem, unfit))?;
    stored(&api, &wanted, Replaces::Nothing).await?.map_err(|_| {
        let detail =
            format!("{name:?} exists again, with another definition; to change that, PUT it");
        Problem::new(Code::WrongState, detail)
    })
}
