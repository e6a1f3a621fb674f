//! `/v1/topics`: create, change, show and remove topics.

use axum::{
    Extension, Json,
    body::Bytes,
    extract::{Path, State, rejection::BytesRejection},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde::Serialize;
use utoipa::ToSchema;

use super::{
    Api,
    destinations::{Listing, page_of},
    read_named,
    request::Params,
    views::Items,
};
use domain::{DestinationName, Topic, TopicName};
use formats::code::Code;
use http_server::{openapi_responses, principal::Principal, problem::Problem};

/// A topic, as the API shows it.
#[derive(Serialize, ToSchema)]
#[schema(as = Topic)]
pub(super) struct View {
    name: TopicName,
    destinations: Vec<DestinationName>,
    defined_in_file: bool,
}

impl View {
    fn of(api: &Api, topic: &Topic) -> View {
        View {
            name: topic.name.clone(),
            destinations: topic.destinations.clone(),
            defined_in_file: api.in_file.controls_topic(&topic.name),
        }
    }
}

/// A topic that was removed.
#[derive(Serialize, ToSchema)]
#[schema(as = RemovedTopic)]
pub(super) struct Removed {
    removed: TopicName,
}

/// The definition of a topic, as PUT takes it.
#[derive(ToSchema)]
#[schema(as = TopicDefinition)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
struct Definition {
    /// The name of the topic. If given, it must equal the name in the path.
    name: Option<TopicName>,
    /// The destinations. Each gets a copy of a published message.
    #[schema(min_items = 1, max_items = 100)]
    destinations: Vec<DestinationName>,
}

/// `GET /v1/topics`
#[utoipa::path(get, path = "/v1/topics", tag = "topics", operation_id = "list_topics",
    params(Listing),
    responses((status = 200, description = "A page, by name", body = Items<View>),
        openapi_responses::Reads))]
pub(super) async fn list(
    State(api): State<Api>,
    Extension(caller): Extension<Principal>,
    Params(listing): Params<Listing>,
) -> Result<Json<Items<View>>, Problem> {
    let mut all = api.catalog.topics();
    all.retain(|entry| entry.topic.destinations.iter().all(|name| caller.covers(name)));
    let (page, next_cursor) = page_of(&all, &listing, |entry| entry.topic.name.as_str())?;
    let items = page.iter().map(|entry| View::of(&api, &entry.topic)).collect();
    Ok(Json(Items { items, next_cursor }))
}

/// `GET /v1/topics/{t}`
#[utoipa::path(get, path = "/v1/topics/{topic}", tag = "topics", operation_id = "show_topic",
    params(("topic" = String, Path, description = "The name of the topic")),
    responses((status = 200, description = "The topic", body = View), openapi_responses::ReadsTopic))]
pub(super) async fn show(
    State(api): State<Api>,
    Extension(caller): Extension<Principal>,
    Path(name): Path<String>,
) -> Result<Json<View>, Problem> {
    let unknown = || caller.unknown(Problem::unknown_topic(&name));
    let parsed: TopicName = name.parse().map_err(|_| unknown())?;
    let entry = api.catalog.find_topic(&parsed).await?;
    let entry = entry.ok_or_else(unknown)?;
    caller.check_all(&entry.topic.destinations)?;
    Ok(Json(View::of(&api, &entry.topic)))
}

/// `PUT /v1/topics/{t}`
#[utoipa::path(put, path = "/v1/topics/{topic}", tag = "topics", operation_id = "define_topic",
    params(("topic" = String, Path, description = "The name of the topic")), request_body = Definition,
    responses((status = 200, description = "It is changed, or was the same", body = View),
        (status = 201, description = "It is created", body = View), openapi_responses::DefinesTopic))]
pub(super) async fn define(
    State(api): State<Api>,
    Extension(caller): Extension<Principal>,
    Path(name): Path<String>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Problem> {
    let name = parse_name(&name)?;
    check_held(&api, &caller, &name).await?;
    refuse_if_in_file(&api, &name).await?;
    let topic: Topic = read_named(name.as_str(), body, api.batch_bytes_max)?;
    topic.validate().map_err(|error| Problem::invalid_field(error.to_string()))?;
    caller.check_all(&topic.destinations)?;
    for destination in &topic.destinations {
        let entry = api.catalog.find(destination).await?;
        entry.ok_or_else(|| Problem::unknown_destination(destination.as_str()))?;
    }
    let created = api.store.define_topic(&topic).await?;
    api.catalog.refresh_topic(&name).await?;
    api.in_file.note_topic_defined(&topic);
    let status = if created { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(View::of(&api, &topic))).into_response())
}

/// `DELETE /v1/topics/{t}`
#[utoipa::path(delete, path = "/v1/topics/{topic}", tag = "topics", operation_id = "remove_topic",
    params(("topic" = String, Path, description = "The name of the topic")),
    responses((status = 200, description = "It is removed", body = Removed),
        openapi_responses::DefinesTopic))]
pub(super) async fn remove(
    State(api): State<Api>,
    Extension(caller): Extension<Principal>,
    Path(name): Path<String>,
) -> Result<Json<Removed>, Problem> {
    let name = parse_name(&name)?;
    check_held(&api, &caller, &name).await?;
    refuse_if_in_file(&api, &name).await?;
    let removed = api.store.remove_topic(&name).await?;
    api.catalog.refresh_topic(&name).await?;
    match removed {
        true => Ok(Json(Removed { removed: name })),
        false => Err(caller.unknown(Problem::unknown_topic(name.as_str()))),
    }
}

/// Refuses a change of a topic with destinations that the caller may not use.
async fn check_held(api: &Api, caller: &Principal, name: &TopicName) -> Result<(), Problem> {
    match api.catalog.find_topic(name).await? {
        Some(held) => caller.check_all(&held.topic.destinations),
        None => Ok(()),
    }
}

fn parse_name(text: &str) -> Result<TopicName, Problem> {
    text.parse()
        .map_err(|invalid| Problem::invalid_parameter(format!("topic: {text:?}: {invalid}")))
}

async fn refuse_if_in_file(api: &Api, name: &TopicName) -> Result<(), Problem> {
    if !api.in_file.check_controls_topic(name).await? {
        return Ok(());
    }
    let detail = format!("{name:?} is defined in the configuration file; change it there");
    Err(Problem::new(Code::DefinedInFile, detail))
}
