//! Writes the OpenAPI document of all routes. A test compares it with the file that the service serves
//! ([`super::docs`]).

use utoipa::{
    PartialSchema, ToSchema,
    openapi::{InfoBuilder, License, OpenApi, OpenApiBuilder, RefOr, Schema, tag::TagBuilder},
};

use super::{examples, routes};
use http_server::{openapi_responses, problem::ProblemObject};

/// The tags of the routes, in the order of the document.
const TAGS: [(&str, &str); 12] = [
    ("messages", "Send messages; list, show and cancel pending ones"),
    ("destinations", "Define destinations, and read their numbers"),
    ("topics", "Define topics"),
    ("interventions", "Pause, retry, skip, purge, repair"),
    ("dead letters", "List, redrive and discard dead letters"),
    ("operations", "Watch and cancel bulk operations"),
    ("history", "What became of messages, and replays"),
    ("workers", "Claim messages, and report their results"),
    ("consumers", "Take the messages of a destination with delivery `pull`, in order"),
    ("tokens", "Make and revoke tokens"),
    ("audit", "What operators did"),
    ("health", "Health, metrics, and what the API is"),
];

/// The document, as JSON. `with_ingest` adds the routes of ingest.
pub fn document(with_ingest: fn(OpenApi) -> OpenApi) -> String {
    let info = InfoBuilder::new()
        .title("Reseq")
        .version("v1")
        .description(Some(
            "Messages come in over HTTP or TCP, are processed in parallel, and are delivered in \
             the order of their arrival. Errors are problem objects (RFC 9457) with a stable `code`.",
        ))
        .license(Some(License::new(env!("CARGO_PKG_LICENSE"))));
    let tag =
        |(name, text): (&str, &str)| TagBuilder::new().name(name).description(Some(text)).build();
    let document = OpenApiBuilder::new().info(info.build()).tags(Some(TAGS.map(tag))).build();
    let mut document = with_ingest(routes(document));
    let components = document.components.get_or_insert_default();
    let mut schemas = Vec::new();
    ProblemObject::schemas(&mut schemas);
    schemas.push((ProblemObject::name().into_owned(), ProblemObject::schema()));
    components.schemas.extend(schemas);
    let responses = openapi_responses::components().into_iter();
    components.responses.extend(responses.map(|(name, response)| (name, RefOr::T(response))));
    let copy = components.schemas.contains_key("StoredCopy");
    let problem = components.schemas.get_mut(ProblemObject::name().as_ref());
    if let Some(RefOr::T(Schema::Object(object))) = problem.filter(|_| copy) {
        with_extras(object);
    }
    examples::add_to(&mut document);
    text_of(document)
}

/// Rust types that the API does not name: the document puts their schemas where they are used.
const INLINED: [&str; 2] = ["BTreeMap", "u64"];

fn text_of(mut document: OpenApi) -> String {
    let schemas = &mut document.components.get_or_insert_default().schemas;
    let inlined = INLINED.map(|name| (name, schemas.remove(name)));
    let mut text = document.to_pretty_json().unwrap_or_default();
    for (name, schema) in inlined {
        let schema = serde_json::to_string(&schema).unwrap_or_default();
        let fields = schema.trim_start_matches('{').strip_suffix('}').unwrap_or_default();
        text = text.replace(&format!("\"$ref\": \"#/components/schemas/{name}\""), fields);
    }
    text
}

/// Adds the fields that only some problems have.
fn with_extras(problem: &mut utoipa::openapi::Object) {
    use utoipa::openapi::{ArrayBuilder, Ref};
    let copies = ArrayBuilder::new()
        .items(Ref::from_schema_name("StoredCopy"))
        .description(Some("The copies of the message that were stored."));
    problem.properties.insert("id".to_owned(), String::schema());
    problem.properties.insert("deliveries".to_owned(), copies.into());
    let operation = Ref::from_schema_name("Operation");
    problem.properties.insert("operation".to_owned(), operation.into());
    problem.properties.insert("mark".to_owned(), <Option<String>>::schema());
}
