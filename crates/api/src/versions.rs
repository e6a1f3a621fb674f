//! `/v1/destinations/{d}/versions`, `/diff` and `/rollback`: earlier definitions, the effect of a new one, and
//! rollback.

use axum::{
    Json,
    body::Bytes,
    extract::{Path, State, rejection::BytesRejection},
    http::HeaderMap,
    response::Response,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::{
    Api, at_path, audit,
    define::{Condition, Definition, change, check, unmasked},
    destinations::{parse_name, refuse_if_in_file},
    read_named,
    request::{InDestination, Order, Target},
    views::{Items, rfc3339},
};
use domain::{Destination, DestinationName, destination::Change};
use formats::code::Code;
use http_server::{openapi_responses, problem::Problem};
use store::{CatalogEntry, KeptDefinition};

/// A definition that a destination has or had.
#[derive(Serialize, ToSchema)]
#[schema(as = DestinationVersion)]
pub(super) struct Version {
    version: u64,
    #[schema(format = DateTime)]
    written_at: String,
    /// The caller that wrote the version, as in the audit log; `configuration_file` for the file of a process; empty if
    /// it is not known.
    actor: String,
    /// The name of the token; for a configuration file, the name of the process.
    #[serde(skip_serializing_if = "Option::is_none")]
    actor_name: Option<String>,
    /// The differences from the version before, if that version is kept. Changes of secrets are left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    changes: Option<Vec<Change>>,
    /// The definition, with secrets masked.
    #[schema(value_type = Object)]
    definition: Value,
}

/// `GET /v1/destinations/{d}/versions`
#[utoipa::path(get, path = "/v1/destinations/{destination}/versions", tag = "destinations",
    operation_id = "list_versions",
    params(InDestination),
    responses((status = 200, description = "The last versions, the newest first", body = Items<Version>),
        openapi_responses::ReadsDestination))]
pub(super) async fn list(target: Target) -> Result<Json<Items<Version>>, Problem> {
    let kept = target.api.store.versions(&target.name).await?;
    let read = |kept: &KeptDefinition| Destination::deserialize(&kept.definition).ok();
    let changes = |pair: &[KeptDefinition]| Some(read(&pair[1])?.changes_to(&read(&pair[0])?));
    let changes: Vec<_> = kept.windows(2).map(changes).chain([None]).collect();
    let items = kept.into_iter().zip(changes).map(|(kept, changes)| Version {
        version: kept.version,
        written_at: rfc3339(kept.at_ms),
        actor: kept.by.actor,
        actor_name: kept.by.actor_name,
        changes,
        definition: kept.definition,
    });
    Ok(Json(Items { items: items.collect(), next_cursor: None }))
}

/// The changes that a definition would make.
#[derive(Serialize, ToSchema)]
#[schema(as = DefinitionDiff)]
pub(super) struct Diff {
    destination: DestinationName,
    /// False if the definition would create the destination. The changes are then the differences from the defaults.
    exists: bool,
    changes: Vec<Change>,
}

/// `POST /v1/destinations/{d}/diff`
#[utoipa::path(post, path = "/v1/destinations/{destination}/diff", tag = "destinations",
    operation_id = "diff_destination",
    params(InDestination),
    request_body = Definition,
    responses((status = 200, description = "What PUT would change; nothing has changed", body = Diff),
        openapi_responses::DefinesDestination))]
pub(super) async fn diff(
    State(api): State<Api>,
    Path(name): Path<String>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<Diff>, Problem> {
    audit::dry_run();
    let name = parse_name(&name)?;
    let wanted: Destination = read_named(name.as_str(), body, api.batch_bytes_max)?;
    let current = api.catalog.refresh(&name).await?;
    let current = current.as_deref().map(CatalogEntry::definition);
    let wanted = unmasked(wanted, current)?;
    check(&api, &wanted).await?;
    let changes = match current {
        Some(current) => current.changes_to(&wanted),
        None => Destination::new(name.clone(), "").changes_to(&wanted),
    };
    Ok(Json(Diff { destination: name, exists: current.is_some(), changes }))
}

/// The version that a rollback restores.
#[derive(Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Rollback {
    /// One of the kept versions; if absent, the version before the current one.
    to: Option<u64>,
}

/// `POST /v1/destinations/{d}/rollback`
#[utoipa::path(post, path = "/v1/destinations/{destination}/rollback", tag = "destinations",
    operation_id = "roll_back_destination",
    params(InDestination,
        ("If-Match" = Option<String>, Header, description = "Change only this version: an ETag, or `*`")),
    request_body(content = Option<Rollback>, description = "The version to take"),
    responses(
        (status = 200, description = "It is defined as in that version, or was the same",
            body = super::destinations::View,
            headers(("ETag" = String, description = "For `If-Match`"))),
        openapi_responses::RollsBack))]
pub(super) async fn rollback(
    headers: HeaderMap,
    Order(Target { api, name, .. }, Rollback { to }): Order<Rollback>,
) -> Result<Response, Problem> {
    let name = &name;
    let condition = Condition::of_known(&headers)?;
    // The configuration file undoes a rollback only if the rule is to write its definitions always.
    if api.in_file.is_always_written() {
        refuse_if_in_file(&api, name).await?;
    }
    let kept = api.store.versions(name).await?;
    let chosen = match to {
        Some(version) => kept.iter().find(|kept| kept.version == version),
        None => kept.get(1),
    };
    let chosen = chosen.ok_or_else(|| {
        if to.is_none() {
            return Problem::new(
                Code::WrongState,
                "there is no earlier version of this definition",
            );
        }
        let known = kept.iter().map(|kept| kept.version.to_string()).collect::<Vec<_>>();
        let detail = format!("to: there is no such version; kept are {}", known.join(", "));
        Problem::invalid_field(detail)
    })?;
    audit::target(&chosen.version.to_string());
    let listed_at = format!("/v1/destinations/{name}/versions");
    let unfit = |why: &str| unfit(&listed_at, name, why);
    let wanted: Destination = serde_path_to_error::deserialize(&chosen.definition)
        .map_err(|error| unfit(&at_path(&error)))?;
    let wanted_over = |current: Option<&Destination>| unmasked(wanted.clone(), current);
    let changed = change(&api, name, &condition, wanted_over).await;
    changed.map_err(|problem| unfit_if_refused(problem, unfit))
}

/// If a kept definition was refused for its content, makes a problem that names this definition.
pub(super) fn unfit_if_refused(problem: Problem, unfit: impl FnOnce(&str) -> Problem) -> Problem {
    match problem.code {
        Code::InvalidField | Code::RefusedAddress => unfit(&problem.detail),
        _ => problem,
    }
}

/// The problem when a kept definition cannot run today: it is no longer valid, or its secrets cannot be used.
pub(super) fn unfit(listed_at: &str, name: &DestinationName, why: &str) -> Problem {
    let detail = format!(
        "this definition cannot be used as it is: {why}. Take it from GET {listed_at}, correct it, and PUT it to \
         /v1/destinations/{name}"
    );
    Problem::new(Code::WrongState, detail)
}
