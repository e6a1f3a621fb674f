//! `/v1/destinations`: create, change, show and remove destinations, and their stats.

use axum::{
    Json,
    body::Bytes,
    extract::{Path, Query, State, rejection::BytesRejection},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Api, read_named, request::find};
use crate::{
    domain::{Destination, DestinationName},
    store::{CatalogEntry, Stats, StoreError},
    wire::{code::Code, problem::Problem},
};

/// `GET /v1/destinations`
pub(super) async fn list(State(api): State<Api>) -> Json<Value> {
    let all = api.catalog.all();
    let items: Vec<_> = all.iter().map(|entry| shown(&api, entry)).collect();
    Json(json!({"items": items, "next_cursor": null}))
}

/// `GET /v1/destinations/{d}`
pub(super) async fn show(
    State(api): State<Api>,
    Path(name): Path<String>,
) -> Result<Json<Value>, Problem> {
    let entry = find(&api, &name).await?;
    Ok(Json(shown(&api, &entry)))
}

/// `GET /v1/destinations/{d}/stats`
pub(super) async fn stats(
    State(api): State<Api>,
    Path(name): Path<String>,
) -> Result<Json<Stats>, Problem> {
    let entry = find(&api, &name).await?;
    let stats = api.store.stats(&entry).await?;
    Ok(Json(stats))
}

/// `GET /v1/stats`
pub(super) async fn all_stats(State(api): State<Api>) -> Result<Json<Value>, Problem> {
    let all = api.catalog.all();
    let mut lines = Vec::with_capacity(all.len());
    let mut totals = Map::new();
    for some in all.chunks(STATS_AT_ONCE) {
        let numbers = api.store.backlogs_each(some).await;
        for (entry, stats) in some.iter().zip(numbers) {
            let stats = match stats {
                Err(error) if error.is_damage() => {
                    let damaged = json!(["all of it"]);
                    lines.push(Map::from_iter([
                        ("name".to_owned(), json!(entry.destination.name)),
                        ("damaged".to_owned(), damaged),
                    ]));
                    continue;
                }
                stats => stats?,
            };
            let stats = json!(stats);
            let line = LINE.iter().map(|field| ((*field).to_owned(), stats[*field].clone()));
            let mut line: Map<String, Value> = line.collect();
            line.insert("name".into(), json!(entry.destination.name));
            if let Some(damaged) = stats.get("damaged") {
                line.insert("damaged".into(), damaged.clone());
            }
            lines.push(line);
            for (field, value) in stats.as_object().into_iter().flatten() {
                // A sum of last sequences means nothing.
                let Some(number) = value.as_u64().filter(|_| field != "last_sequence") else {
                    continue;
                };
                let sum = totals.get(field).and_then(Value::as_u64).unwrap_or_default() + number;
                totals.insert(field.clone(), json!(sum));
            }
        }
    }
    Ok(Json(json!({"destinations": lines, "totals": totals})))
}

/// Destinations whose numbers are read in one round trip.
const STATS_AT_ONCE: usize = 500;
/// The fields of a destination's line, besides its name.
const LINE: [&str; 9] = [
    "pending",
    "waiting",
    "processing",
    "ready",
    "delayed",
    "halted",
    "dead_letters",
    "delivered_total",
    "paused",
];

/// `PUT /v1/destinations/{d}`
pub(super) async fn define(
    State(api): State<Api>,
    Path(name): Path<String>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Problem> {
    let name = parse_name(&name)?;
    refuse_if_in_file(&api, &name).await?;
    let destination: Destination = read_named(name.as_str(), body, api.batch_bytes_max)?;
    destination.validate().map_err(|error| Problem::invalid_field(error.to_string()))?;
    let defined = api.store.define(&destination).await?;
    let entry = api.catalog.refresh(&name).await?;
    let entry = entry.ok_or_else(|| Problem::unknown_destination(name.as_str()))?;
    api.in_file.note_defined(&destination);
    let status = if defined.created { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(shown(&api, &entry))).into_response())
}

/// The query parameters of a removal.
#[derive(Debug, Deserialize)]
pub(super) struct Removal {
    #[serde(default)]
    force: bool,
}

/// `DELETE /v1/destinations/{d}`
pub(super) async fn remove(
    State(api): State<Api>,
    Path(name): Path<String>,
    removal: Result<Query<Removal>, axum::extract::rejection::QueryRejection>,
) -> Result<Json<Value>, Problem> {
    let name = parse_name(&name)?;
    refuse_if_in_file(&api, &name).await?;
    let Query(removal) =
        removal.map_err(|_| Problem::invalid_field("force: must be true or false"))?;
    let removed = api.store.remove(&name, removal.force).await;
    let removed = removed.map_err(|error| match error {
        StoreError::UnknownDestination => Problem::unknown_destination(name.as_str()),
        StoreError::WrongState(detail) => {
            let detail = format!("{detail}; ?force=true removes them too");
            Problem::new(Code::WrongState, detail)
        }
        error => Problem::from(error),
    })?;
    api.catalog.refresh(&name).await?;
    tracing::info!(destination = %name, removed_messages = removed.removed_messages, "a destination was removed over HTTP");
    Ok(Json(json!({"removed": name, "removed_messages": removed.removed_messages})))
}

/// A definition for display, with its secrets masked.
fn shown(api: &Api, entry: &CatalogEntry) -> Value {
    let mut value = json!(entry.destination.masked());
    if let Value::Object(object) = &mut value {
        let in_file = api.in_file.controls(&entry.destination.name);
        object.insert("version".into(), json!(entry.version));
        object.insert("partition".into(), json!(entry.partition));
        object.insert("defined_in_file".into(), json!(in_file));
        object.insert("paused".into(), json!(entry.paused));
    }
    value
}

fn parse_name(text: &str) -> Result<DestinationName, Problem> {
    text.parse().map_err(|invalid| Problem::invalid_field(format!("{text:?}: {invalid}")))
}

async fn refuse_if_in_file(api: &Api, name: &DestinationName) -> Result<(), Problem> {
    if !api.in_file.check_controls(name).await? {
        return Ok(());
    }
    let detail = format!("{name:?} is defined in the configuration file; change it there");
    Err(Problem::new(Code::DefinedInFile, detail))
}
