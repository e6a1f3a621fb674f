//! `PUT` and `PATCH /v1/destinations/{d}`: create and change destinations.

use std::sync::Arc;

use axum::{
    body::Bytes,
    extract::{Path, State, rejection::BytesRejection},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::{Map, Value, json};
use url::Url;
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{
        RefOr, Schema,
        schema::{ObjectBuilder, SchemaType, Type},
    },
};

use super::{
    Api, at_path, audit,
    destinations::{View, parse_name, refuse_if_in_file},
    read_json, read_named,
    request::InDestination,
};
use domain::{
    Delivery, Destination, DestinationName, Transform,
    destination::{MASK, Sign, Verify},
    merge_patch::merge,
    name::SHARDS_MAX,
};
use http_server::{openapi_responses, problem::Problem};
use outbound::outgoing::OutgoingError;
use store::{CatalogEntry, Replaces, StoreError, Terms, left_over};

/// How many times a change is tried again because the definition has changed meanwhile.
const STALE_MAX: usize = 5;

/// The definition of a destination, as `PUT` accepts it.
pub(super) struct Definition;

impl PartialSchema for Definition {
    fn schema() -> RefOr<Schema> {
        let RefOr::T(Schema::Object(mut object)) = Destination::schema() else {
            return Destination::schema();
        };
        // The path gives the name, so the body need not.
        object.required.retain(|field| field != "name");
        RefOr::T(Schema::Object(object))
    }
}

impl ToSchema for Definition {
    fn name() -> std::borrow::Cow<'static, str> {
        "DestinationDefinition".into()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        Destination::schemas(schemas);
    }
}

/// The condition on the definition that a request replaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Condition {
    None,
    /// The definition must exist: the request changes it.
    Known,
    /// `If-Match: *`: the definition must exist.
    Exists,
    /// `If-Match: "…"`: the definition must have one of these versions.
    OneOf(Vec<u64>),
    /// `If-None-Match: *`: the definition must not exist.
    Absent,
}

impl Condition {
    fn of(headers: &HeaderMap) -> Result<Condition, Problem> {
        let text = |name: header::HeaderName| -> Result<Option<String>, Problem> {
            let values: Result<Vec<&str>, _> =
                headers.get_all(&name).iter().map(|value| value.to_str()).collect();
            let values = values
                .map_err(|_| Problem::invalid_header(format!("{name}: is not ASCII text")))?;
            Ok((!values.is_empty()).then(|| values.join(", ")))
        };
        match (text(header::IF_MATCH)?, text(header::IF_NONE_MATCH)?) {
            (None, None) => Ok(Condition::None),
            (Some(_), Some(_)) => {
                let detail = "If-None-Match: give either it or If-Match, not both";
                Err(Problem::invalid_header(detail))
            }
            (None, Some(text)) if text.trim() == "*" => Ok(Condition::Absent),
            (None, Some(_)) => {
                let detail = "If-None-Match: only *, which creates and never changes";
                Err(Problem::invalid_header(detail))
            }
            (Some(text), None) if text.trim() == "*" => Ok(Condition::Exists),
            (Some(text), None) => {
                // A tag that this service never issued matches nothing.
                let version = |tag: &str| {
                    tag.trim().strip_prefix('"')?.strip_suffix('"')?.parse::<u64>().ok()
                };
                Ok(Condition::OneOf(text.split(',').filter_map(version).collect()))
            }
        }
    }

    /// The condition of a request that only changes an existing definition, and creates none.
    pub(super) fn of_known(headers: &HeaderMap) -> Result<Condition, Problem> {
        Ok(match Condition::of(headers)? {
            Condition::None | Condition::Exists => Condition::Known,
            condition => condition,
        })
    }

    /// The version that the change may replace, given the current definition.
    fn check(&self, current: Option<&CatalogEntry>) -> Result<Replaces, Problem> {
        let version = current.map(|entry| entry.version);
        let is_met = match self {
            Condition::None => true,
            Condition::Known | Condition::Exists => version.is_some(),
            Condition::OneOf(versions) => version.is_some_and(|one| versions.contains(&one)),
            Condition::Absent => version.is_none(),
        };
        if !is_met {
            return Err(StoreError::WrongVersion(version.unwrap_or_default()).into());
        }
        Ok(version.map_or(Replaces::Nothing, Replaces::Version))
    }
}

/// `PUT /v1/destinations/{d}`
#[utoipa::path(put, path = "/v1/destinations/{destination}", tag = "destinations",
    operation_id = "define_destination",
    params(InDestination,
        ("If-Match" = Option<String>, Header, description = "Change only this version: an ETag, or `*`"),
        ("If-None-Match" = Option<String>, Header, description = "`*`: create, but never change")),
    request_body = Definition,
    responses(
        (status = 200, description = "It is changed, or was the same", body = View,
            headers(("ETag" = String, description = "For `If-Match`"))),
        (status = 201, description = "It is created", body = View,
            headers(("ETag" = String, description = "For `If-Match`"))),
        openapi_responses::DefinesDestination))]
pub(super) async fn define(
    State(api): State<Api>,
    Path(name): Path<String>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Problem> {
    let name = parse_name(&name)?;
    refuse_if_in_file(&api, &name).await?;
    let wanted: Destination = read_named(name.as_str(), body, api.batch_bytes_max)?;
    let condition = Condition::of(&headers)?;
    if condition == Condition::None && !has_masks(&wanted) {
        check(&api, &wanted).await?;
        return stored(&api, &wanted, Replaces::Any).await?.map_err(Problem::from);
    }
    change(&api, &name, &condition, |current| unmasked(wanted.clone(), current)).await
}

/// `PATCH /v1/destinations/{d}`
#[utoipa::path(patch, path = "/v1/destinations/{destination}", tag = "destinations",
    operation_id = "change_destination",
    params(InDestination,
        ("If-Match" = Option<String>, Header, description = "Change only this version: an ETag, or `*`")),
    request_body(content = MergePatch, content_type = "application/merge-patch+json",
        description = "A merge patch (RFC 7396): what is absent stays, null stands for the default"),
    responses(
        (status = 200, description = "It is changed", body = View,
            headers(("ETag" = String, description = "For `If-Match`"))),
        openapi_responses::DefinesDestination))]
pub(super) async fn patch(
    State(api): State<Api>,
    Path(name): Path<String>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Problem> {
    let name = parse_name(&name)?;
    refuse_if_in_file(&api, &name).await?;
    let patch: Map<String, Value> = read_json(body, api.batch_bytes_max)?;
    if patch.get("name").is_some_and(|named| *named != json!(name)) {
        return Err(Problem::invalid_field("name: differs from the name in the path"));
    }
    let condition = Condition::of_known(&headers)?;
    let change_to = |current: Option<&Destination>| {
        let current = current.ok_or_else(|| Problem::unknown_destination(name.as_str()))?;
        // The patch is merged into the masked definition. So a patch of the URL alone sends no secret to another
        // origin.
        let mut value = json!(current.masked());
        merge(&mut value, Value::Object(patch.clone()));
        let wanted: Destination = serde_path_to_error::deserialize(value)
            .map_err(|error| Problem::invalid_field(at_path(&error)))?;
        unmasked(wanted, Some(current))
    };
    change(&api, &name, &condition, change_to).await
}

/// A merge patch of a definition: any of its fields, or null for the default.
pub(super) struct MergePatch;

impl PartialSchema for MergePatch {
    fn schema() -> RefOr<Schema> {
        let inner = [
            (
                "transform",
                openapi_responses::merge_patch_of(Transform::schema(), &[headers_patch()]),
            ),
            ("delivery", openapi_responses::merge_patch_of(Delivery::schema(), &[])),
            headers_patch(),
            ("sign", openapi_responses::merge_patch_of(Sign::schema(), &[])),
            ("verify", openapi_responses::merge_patch_of(Verify::schema(), &[])),
        ];
        openapi_responses::merge_patch_of(Destination::schema(), &inner)
    }
}

impl ToSchema for MergePatch {
    fn name() -> std::borrow::Cow<'static, str> {
        "DestinationPatch".into()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        Destination::schemas(schemas);
    }
}

/// The schema of headers in a merge patch: null removes a header.
fn headers_patch() -> (&'static str, RefOr<Schema>) {
    let value = SchemaType::from_iter([Type::String, Type::Null]);
    let value = ObjectBuilder::new().schema_type(value);
    let headers = ObjectBuilder::new().additional_properties(Some(value)).build();
    ("headers", RefOr::T(headers.into()))
}

/// Stores the definition that `wanted` makes of the current one, if the condition is met. If another request was
/// faster, reads the current definition again.
pub(super) async fn change(
    api: &Api,
    name: &DestinationName,
    condition: &Condition,
    wanted: impl Fn(Option<&Destination>) -> Result<Destination, Problem>,
) -> Result<Response, Problem> {
    let mut last = StoreError::WrongVersion(0);
    for _ in 0..STALE_MAX {
        let current: Option<Arc<CatalogEntry>> = api.catalog.refresh(name).await?;
        if current.is_none() && *condition == Condition::Known {
            return Err(Problem::unknown_destination(name.as_str()));
        }
        let replaces = condition.check(current.as_deref())?;
        let wanted = wanted(current.as_deref().map(CatalogEntry::definition))?;
        check(api, &wanted).await?;
        match stored(api, &wanted, replaces).await? {
            Ok(response) => return Ok(response),
            Err(error) => last = error,
        }
    }
    Err(last.into())
}

/// Stores a definition. The inner error: another version is current now.
pub(super) async fn stored(
    api: &Api,
    wanted: &Destination,
    replaces: Replaces,
) -> Result<Result<Response, StoreError>, Problem> {
    let current = api.catalog.get(wanted.name.as_str());
    let is_settled = current.is_none_or(|entry| entry.destination.shards == wanted.shards);
    let mut beyond = (wanted.shards..SHARDS_MAX).map(|shard| wanted.name.of_shard(shard));
    if let Some(left) = beyond.find(|shard| is_settled && api.catalog.get(shard.as_str()).is_some())
    {
        return Err(left_over(&left).into());
    }
    let terms = Terms::new(audit::author(), replaces);
    let defined = match api.store.define_over(wanted, &terms).await {
        Err(error @ StoreError::WrongVersion(_)) => return Ok(Err(error)),
        defined => defined?,
    };
    let entry = api.catalog.refresh(&wanted.name).await?;
    let entry = entry.ok_or_else(|| Problem::unknown_destination(wanted.name.as_str()))?;
    api.catalog.complete_shards(&entry, &audit::author()).await?;
    api.in_file.note_defined(wanted);
    let status = if defined.created { StatusCode::CREATED } else { StatusCode::OK };
    Ok(Ok((status, View::of(api, &entry).response()).into_response()))
}

pub(super) async fn check(api: &Api, wanted: &Destination) -> Result<(), Problem> {
    wanted.validate().map_err(|error| Problem::invalid_field(error.to_string()))?;
    let checked = api.outgoing.check_destination(wanted).await;
    checked.map_err(|(field, error)| {
        let detail = format!("{field}: {error}");
        match error {
            OutgoingError::Refused(_) => Problem::refused_address(detail),
            OutgoingError::NoHost | OutgoingError::Io(_) => Problem::invalid_field(detail),
        }
    })
}

pub(super) fn has_masks(definition: &Destination) -> bool {
    definition.secrets().any(|secret| secret == MASK)
}

/// The definition with each mask replaced by the secret that it stands for. If a URL leads to another origin, the
/// request must give its secrets again, so that nobody can send them elsewhere.
pub(super) fn unmasked(
    mut wanted: Destination,
    current: Option<&Destination>,
) -> Result<Destination, Problem> {
    let (sign, verify) = (
        current.and_then(|current| current.sign.as_ref()).map(|sign| &sign.secrets),
        current.and_then(|current| current.verify.as_ref()).map(|verify| &verify.secrets),
    );
    for (field, secrets, before) in [
        ("sign.secrets", wanted.sign.as_mut().map(|sign| &mut sign.secrets), sign),
        ("verify.secrets", wanted.verify.as_mut().map(|verify| &mut verify.secrets), verify),
    ] {
        if secrets.is_some_and(|secrets| !secrets.unmask(before)) {
            let detail = "has more masks than there are secrets; give their values";
            return Err(Problem::invalid_field(format!("{field}: {detail}")));
        }
    }
    let same_origin = |a: Option<&str>, b: Option<&str>| origin(a) == origin(b);
    let transform = current.map(|current| &current.transform);
    let sets = [
        (
            "headers",
            &mut wanted.headers,
            current.map(|current| &current.headers),
            same_origin(wanted.url.as_deref(), current.and_then(|current| current.url.as_deref())),
        ),
        (
            "transform.headers",
            &mut wanted.transform.headers,
            transform.map(|transform| &transform.headers),
            same_origin(
                wanted.transform.url.as_deref(),
                transform.and_then(|transform| transform.url.as_deref()),
            ),
        ),
    ];
    for (field, headers, before, is_same_origin) in sets {
        for (name, value) in headers.iter_mut().filter(|(_, value)| *value == MASK) {
            let secret = before.and_then(|before| before.get(name));
            let Some(secret) = secret else {
                let detail = "is the mask of a secret, but there is no such secret; give its value";
                return Err(Problem::invalid_field(format!("{field}.{name}: {detail}")));
            };
            if !is_same_origin {
                let detail = "must be given again, because the URL leads to another origin";
                return Err(Problem::invalid_field(format!("{field}.{name}: {detail}")));
            }
            value.clone_from(secret);
        }
    }
    Ok(wanted)
}

/// The scheme, host and port of a URL.
fn origin(url: Option<&str>) -> Option<(String, Option<String>, Option<u16>)> {
    let url = Url::parse(url?).ok()?;
    let host = url.host_str().map(str::to_owned);
    Some((url.scheme().to_owned(), host, url.port_or_known_default()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use formats::code::Code;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &'static str)| {
            (header::HeaderName::from_static(name), header::HeaderValue::from_static(value))
        };
        pairs.iter().map(pair).collect()
    }

    #[test]
    fn conditions_are_read_as_tags() {
        let read = |name, value| Condition::of(&headers(&[(name, value)])).unwrap();
        assert_eq!(Condition::of(&HeaderMap::new()).unwrap(), Condition::None);
        assert_eq!(read("if-match", "*"), Condition::Exists);
        assert_eq!(read("if-match", "\"7\", \"8\""), Condition::OneOf(vec![7, 8]));
        // Weak tags never match (RFC 9110, 13.1.1), nor does what is no tag of ours.
        assert_eq!(read("if-match", "W/\"7\", 7, \"x\""), Condition::OneOf(vec![]));
        assert_eq!(read("if-none-match", "*"), Condition::Absent);
        for wrong in [
            headers(&[("if-none-match", "\"7\"")]),
            headers(&[("if-match", "*"), ("if-none-match", "*")]),
        ] {
            assert_eq!(Condition::of(&wrong).unwrap_err().code, Code::InvalidField);
        }
    }

    fn destination(url: &str, secret: &str) -> Destination {
        let mut one = Destination::new("erp".parse().unwrap(), url);
        one.headers.insert("authorization".to_owned(), secret.to_owned());
        one
    }

    #[test]
    fn a_mask_keeps_its_secret_and_never_follows_a_url_elsewhere() {
        let current = destination("http://erp.internal/in", "Bearer s3cret");
        let same = unmasked(destination("http://erp.internal:80/other", MASK), Some(&current));
        assert_eq!(same.unwrap().headers["authorization"], "Bearer s3cret");
        for url in ["https://erp.internal/in", "http://evil/in", "http://erp.internal:8080/in"] {
            let refused = unmasked(destination(url, MASK), Some(&current)).unwrap_err();
            assert!(refused.detail.starts_with("headers.authorization: must be given"), "{url}");
            let given = unmasked(destination(url, "new"), Some(&current)).unwrap();
            assert_eq!(given.headers["authorization"], "new");
        }
        let refused = unmasked(destination("http://erp.internal/in", MASK), None).unwrap_err();
        assert!(refused.detail.contains("there is no such secret"), "{}", refused.detail);
    }
}
