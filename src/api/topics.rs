//! `/v1/topics`: create, change, show and remove topics.

use axum::{
    Json,
    body::Bytes,
    extract::{Path, State, rejection::BytesRejection},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};

use super::{Api, read_named};
use crate::{
    domain::{Topic, TopicName},
    wire::{code::Code, problem::Problem},
};

/// `GET /v1/topics`
pub(super) async fn list(State(api): State<Api>) -> Json<Value> {
    let items: Vec<Value> =
        api.catalog.topics().iter().map(|entry| shown(&api, &entry.topic)).collect();
    Json(json!({"items": items, "next_cursor": null}))
}

/// `GET /v1/topics/{t}`
pub(super) async fn show(
    State(api): State<Api>,
    Path(name): Path<String>,
) -> Result<Json<Value>, Problem> {
    let unknown = || Problem::unknown_topic(&name);
    let parsed: TopicName = name.parse().map_err(|_| unknown())?;
    let entry = api.catalog.find_topic(&parsed).await?;
    Ok(Json(shown(&api, &entry.ok_or_else(unknown)?.topic)))
}

/// `PUT /v1/topics/{t}`
pub(super) async fn define(
    State(api): State<Api>,
    Path(name): Path<String>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Problem> {
    let name = parse_name(&name)?;
    refuse_if_in_file(&api, &name).await?;
    let topic: Topic = read_named(name.as_str(), body, api.batch_bytes_max)?;
    topic.validate().map_err(|error| Problem::invalid_field(error.to_string()))?;
    for destination in &topic.destinations {
        let entry = api.catalog.find(destination).await?;
        entry.ok_or_else(|| Problem::unknown_destination(destination.as_str()))?;
    }
    let created = api.store.define_topic(&topic).await?;
    api.catalog.refresh_topic(&name).await?;
    api.in_file.note_topic_defined(&topic);
    let status = if created { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(shown(&api, &topic))).into_response())
}

/// `DELETE /v1/topics/{t}`
pub(super) async fn remove(
    State(api): State<Api>,
    Path(name): Path<String>,
) -> Result<Json<Value>, Problem> {
    let name = parse_name(&name)?;
    refuse_if_in_file(&api, &name).await?;
    let removed = api.store.remove_topic(&name).await?;
    api.catalog.refresh_topic(&name).await?;
    match removed {
        true => Ok(Json(json!({"removed": name}))),
        false => Err(Problem::unknown_topic(name.as_str())),
    }
}

fn shown(api: &Api, topic: &Topic) -> Value {
    json!({
        "name": topic.name, "destinations": topic.destinations,
        "defined_in_file": api.in_file.controls_topic(&topic.name),
    })
}

fn parse_name(text: &str) -> Result<TopicName, Problem> {
    text.parse().map_err(|invalid| Problem::invalid_field(format!("{text:?}: {invalid}")))
}

async fn refuse_if_in_file(api: &Api, name: &TopicName) -> Result<(), Problem> {
    if !api.in_file.check_controls_topic(name).await? {
        return Ok(());
    }
    let detail = format!("{name:?} is defined in the configuration file; change it there");
    Err(Problem::new(Code::DefinedInFile, detail))
}
