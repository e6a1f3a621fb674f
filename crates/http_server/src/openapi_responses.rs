//! The problems in the OpenAPI document: for each status, the codes that it can have.

use std::collections::BTreeMap;

use utoipa::{
    IntoResponses, PartialSchema,
    openapi::{
        Content, Ref, RefOr, ResponseBuilder,
        header::HeaderBuilder,
        response::Response,
        schema::{AnyOfBuilder, ObjectBuilder, Schema, Type},
    },
};

use axum::http::StatusCode;
use formats::code::Code;

use super::problem::MEDIA_TYPE;

/// A group of routes with the same problems: its name, and their codes.
type Group = (&'static str, &'static [&'static [Code]]);

fn by_status(codes: &[&[Code]]) -> BTreeMap<u16, Vec<Code>> {
    let mut by_status: BTreeMap<u16, Vec<Code>> = BTreeMap::new();
    for &code in codes.iter().copied().flatten() {
        let of_status = by_status.entry(code.status().as_u16()).or_default();
        if !of_status.contains(&code) {
            of_status.push(code);
        }
    }
    by_status
}

/// The name of a response in the document: `Forbidden` if it has the codes of [`ANY`] for its status; otherwise
/// prefixed with the group, such as `ReadsTopicNotFound`.
fn name_of(group: &str, status: u16, codes: &[Code]) -> String {
    let reason = StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason());
    let reason: String =
        reason.unwrap_or("Problem").chars().filter(char::is_ascii_alphanumeric).collect();
    match by_status(&[ANY]).get(&status).is_some_and(|of_all| of_all == codes) {
        true => reason,
        false => format!("{group}{reason}"),
    }
}

fn response_of(codes: &[Code]) -> Response {
    let lines = codes.iter().map(|code| format!("- `{code}`: {}", code.title()));
    let content = Content::new(Some(RefOr::Ref(Ref::from_schema_name("Problem"))));
    let mut response = ResponseBuilder::new()
        .description(lines.collect::<Vec<_>>().join("\n"))
        .content(MEDIA_TYPE, content);
    if codes.iter().any(|code| code.is_temporary()) {
        let seconds = ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(1));
        let header = HeaderBuilder::new().schema(seconds.build());
        let header = header.description(Some("Seconds until the request may succeed"));
        response = response.header("Retry-After", header.build());
    }
    response.build()
}

/// References to the responses with these codes, by status. `name` names a response.
fn references(
    codes: &[&[Code]],
    name: impl Fn(u16, &[Code]) -> String,
) -> BTreeMap<String, RefOr<Response>> {
    let refer = |(status, codes): (u16, Vec<Code>)| {
        (status.to_string(), RefOr::Ref(Ref::from_response_name(name(status, &codes))))
    };
    by_status(codes).into_iter().map(refer).collect()
}

/// All responses that routes refer to, by name.
pub fn components() -> BTreeMap<String, Response> {
    let mut all = BTreeMap::new();
    for (group, codes) in GROUPS {
        for (status, codes) in by_status(codes) {
            all.insert(name_of(group, status, &codes), response_of(&codes));
        }
    }
    for (status, codes) in by_status(Ingests::GROUP.1) {
        let mut response = response_of(&codes);
        let lines = Content::new(Some(String::schema()));
        response.content.insert("application/x-ndjson".to_owned(), lines);
        all.insert(of_batch(status, &codes), response);
    }
    all
}

fn of_batch(status: u16, codes: &[Code]) -> String {
    format!("IngestsBatch{}", name_of("", status, codes))
}

/// The schema of a merge patch (RFC 7396) for objects with this schema: no field is required, and
/// each may be null. `inner`: each field whose object is patched field by field, too, with the schema of its patch.
pub fn merge_patch_of(schema: RefOr<Schema>, inner: &[(&str, RefOr<Schema>)]) -> RefOr<Schema> {
    let RefOr::T(Schema::Object(mut object)) = schema else { return schema };
    object.required.clear();
    object.description = Some("Any field of the definition; null stands for the default.".into());
    for (name, schema) in inner {
        object.properties.insert((*name).to_owned(), schema.clone());
    }
    for field in object.properties.values_mut() {
        let null = ObjectBuilder::new().schema_type(Type::Null).build();
        // Not `oneOf`: some fields already allow null.
        let either = AnyOfBuilder::new().item(null).item(field.clone()).build();
        *field = RefOr::T(Schema::AnyOf(either));
    }
    RefOr::T(Schema::Object(object))
}

/// Problems of every route: invalid requests, access, Redis and limits.
pub const ANY: &[Code] = &[
    Code::InvalidRequest,
    Code::InvalidField,
    Code::Damaged,
    Code::Unreadable,
    Code::RedisUnavailable,
    Code::RedisRefusesWrites,
    Code::NoRights,
    Code::NewerSchema,
    Code::NoSecretsKey,
    Code::ConnectionsFull,
    Code::TooManyRequests,
    Code::UriTooLong,
    Code::Unauthorized,
    Code::Forbidden,
    Code::ForbiddenOrigin,
];

/// Problems of routes that read a body.
pub const BODY: &[Code] =
    &[Code::InvalidJson, Code::InvalidBody, Code::BodyTimeout, Code::BodyTooLarge];

/// Problems of routes that change something.
pub const CHANGE: &[Code] = &[Code::WrongState, Code::MemoryHigh, Code::NotConfirmed];

/// Problems of routes that store messages.
pub const INGEST: &[Code] = &[
    Code::UnknownDestination,
    Code::UnknownTopic,
    Code::NotFound,
    Code::UnsupportedMediaType,
    Code::IdempotencyConflict,
    Code::SourceGap,
    Code::SourcesFull,
    Code::NoKey,
    Code::NoSignature,
    Code::InvalidSignature,
    Code::TimestampOutsideTolerance,
    Code::BacklogFull,
    Code::RateLimited,
    Code::Paused,
    Code::MemoryHigh,
    Code::NotConfirmed,
    Code::CannotConfirm,
    Code::Aborted,
    Code::KeyUnavailable,
    Code::NoRoom,
    Code::Draining,
];

macro_rules! groups {
    ($($(#[$doc:meta])* $name:ident: $($codes:expr),*;)*) => {
        $($(#[$doc])* pub struct $name;

        impl $name {
            const GROUP: Group = (stringify!($name), &[$($codes),*]);
        }

        impl IntoResponses for $name {
            fn responses() -> BTreeMap<String, RefOr<Response>> {
                let (group, codes) = $name::GROUP;
                references(codes, |status, codes| name_of(group, status, codes))
            }
        })*

        const GROUPS: &[Group] = &[$($name::GROUP),*];
    };
}

groups! {
    /// Reads something that always exists.
    Reads: ANY;
    /// Reads something that belongs to a destination.
    ReadsDestination: ANY, &[Code::UnknownDestination];
    /// Reads a message or dead letter.
    ReadsMessage: ANY, &[Code::UnknownDestination, Code::UnknownMessage];
    /// Waits for the result of a message.
    AwaitsResult: ANY,
        &[Code::UnknownDestination, Code::UnknownMessage, Code::WrongState];
    /// Reads or cancels an operation.
    ReadsOperation: ANY, &[Code::UnknownDestination, Code::UnknownOperation, Code::NotConfirmed];
    /// Reads a topic.
    ReadsTopic: ANY, &[Code::UnknownTopic];
    /// Makes a token.
    MakesToken: ANY, CHANGE, BODY, &[Code::TooManyTokens];
    /// Reads a token.
    ReadsToken: ANY, &[Code::UnknownToken];
    /// Revokes a token.
    RevokesToken: ANY, CHANGE, &[Code::UnknownToken];
    /// Changes a message, without a body.
    ChangesMessage: ANY, CHANGE, &[Code::UnknownDestination, Code::UnknownMessage];
    /// Changes messages or the state of a destination, with a body.
    Changes: ANY, CHANGE, BODY,
        &[
            Code::UnknownDestination, Code::UnknownMessage, Code::BacklogFull, Code::Draining,
            Code::NoSignature,
        ];
    /// Removes a destination.
    RemovesDestination: ANY, CHANGE, &[Code::UnknownDestination, Code::DefinedInFile];
    /// Defines a destination.
    DefinesDestination: ANY, CHANGE, BODY,
        &[
            Code::UnknownDestination, Code::DefinedInFile, Code::RefusedAddress, Code::WrongVersion,
        ];
    /// Takes an earlier definition of a destination.
    RollsBack: ANY, CHANGE, BODY, &[Code::UnknownDestination, Code::DefinedInFile, Code::WrongVersion];
    /// Defines or removes a topic.
    DefinesTopic: ANY, CHANGE, BODY,
        &[Code::UnknownDestination, Code::UnknownTopic, Code::DefinedInFile];
    /// Reads the metrics.
    Metrics: &[Code::NotFound];
    /// Calls of workers.
    Works: ANY, BODY, &[
        Code::UnknownDestination, Code::WrongState, Code::MemoryHigh, Code::NotConfirmed,
        Code::Draining,
    ];
    /// Stores a message.
    Ingests: ANY, BODY, INGEST;
}

/// Stores a message, or a batch, of which each line has its own problem.
pub struct IngestsBatch;

impl IntoResponses for IngestsBatch {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        references(Ingests::GROUP.1, of_batch)
    }
}
