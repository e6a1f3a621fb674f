//! The error answers over HTTP: RFC 9457, with a stable `code`.

use axum::{
    body::Body,
    extract::rejection::BytesRejection,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Serialize;
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use formats::code::{Code, Coded};

use super::invalid::{InvalidPart, Location};

/// The content type of a problem.
pub const MEDIA_TYPE: &str = "application/problem+json";
/// `Retry-After` of temporary problems, in seconds.
const RETRY_AFTER_SECONDS: u64 = 1;

/// A problem as its JSON (RFC 9457).
#[derive(Serialize, ToSchema)]
#[schema(as = Problem)]
pub struct ProblemObject {
    /// The path of a page that explains the code.
    r#type: String,
    /// What the code means, in a few words.
    title: String,
    /// The HTTP status.
    status: u16,
    /// The stable code that clients may rely on.
    code: String,
    /// What happened and what to do, for people.
    detail: String,
    /// The invalid parts of the request.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<InvalidPart>,
    /// The `x-request-id` of the request. Absent in a line of a batch.
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<String>,
    /// Seconds until the same request may succeed.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after: Option<u64>,
    #[serde(flatten)]
    #[schema(ignore)]
    more: Map<String, Value>,
}

/// A problem, as `application/problem+json`.
#[derive(Debug, Clone, PartialEq)]
pub struct Problem {
    /// The HTTP status: the status of the code, or another 4xx.
    pub status: StatusCode,
    /// The stable code that clients may rely on.
    pub code: Code,
    /// What happened and what to do, as text.
    pub detail: String,
    /// The parts of the request that are invalid.
    pub errors: Vec<InvalidPart>,
    /// More members of the object.
    pub more: Map<String, Value>,
    /// For a temporary problem: how many seconds to wait, if this is known.
    pub wait_seconds: Option<u64>,
}

impl Problem {
    /// A problem with the status of its code.
    pub fn new(code: Code, detail: impl Into<String>) -> Problem {
        let (status, detail) = (code.status(), detail.into());
        Problem { status, code, detail, errors: Vec::new(), more: Map::new(), wait_seconds: None }
    }

    /// How many seconds to wait before the same request may succeed; `None` if it cannot succeed.
    pub fn retry_after(&self) -> Option<u64> {
        let seconds = self.wait_seconds.unwrap_or(RETRY_AFTER_SECONDS);
        self.code.is_temporary().then_some(seconds)
    }

    /// True if the cause is damaged data of one destination. Other destinations are not affected.
    pub fn is_damage(&self) -> bool {
        matches!(self.code, Code::Damaged | Code::Unreadable)
    }

    /// A 400: a part of the body is invalid. `detail` begins with its path and a colon.
    pub fn invalid_field(detail: impl Into<String>) -> Problem {
        Problem::invalid(Location::Body, detail)
    }

    /// A 400: a parameter of the query or the path is invalid. `detail` begins with its name and a
    /// colon.
    pub fn invalid_parameter(detail: impl Into<String>) -> Problem {
        Problem::invalid(Location::Parameter, detail)
    }

    /// A 400: a header is invalid. `detail` begins with its name and a colon.
    pub fn invalid_header(detail: impl Into<String>) -> Problem {
        Problem::invalid(Location::Header, detail)
    }

    /// A 400: the part of the request with which `detail` begins is invalid.
    pub fn invalid(location: Location, detail: impl Into<String>) -> Problem {
        Problem::of_part(Code::InvalidField, location, detail)
    }

    /// A 422: a URL leads to an address that Reseq may not connect to. `detail` begins with the field's path and a
    /// colon.
    pub fn refused_address(detail: impl Into<String>) -> Problem {
        Problem::of_part(Code::RefusedAddress, Location::Body, detail)
    }

    /// A problem with the part of the request with which `detail` begins.
    fn of_part(code: Code, location: Location, detail: impl Into<String>) -> Problem {
        let detail = detail.into();
        let errors = vec![InvalidPart::of(location, &detail)];
        Problem { errors, ..Problem::new(code, detail) }
    }

    /// A 404: there is no destination of this name.
    pub fn unknown_destination(name: &str) -> Problem {
        let detail =
            format!("there is no destination {name:?}; PUT /v1/destinations/{name} creates one");
        Problem::new(Code::UnknownDestination, detail)
    }

    /// A 404: there is no topic of this name.
    pub fn unknown_topic(name: &str) -> Problem {
        let detail = format!("there is no topic {name:?}; PUT /v1/topics/{name} creates one");
        Problem::new(Code::UnknownTopic, detail)
    }

    /// A body that was refused: longer than `max` bytes, or incomplete.
    pub fn of_body(rejection: &BytesRejection, max: usize) -> Problem {
        match rejection.status() {
            StatusCode::PAYLOAD_TOO_LARGE => Problem::body_too_large(max),
            _ => Problem::broken_body(),
        }
    }

    /// A 413: a body of more than `max` bytes.
    pub fn body_too_large(max: usize) -> Problem {
        let detail = format!("the body is longer than {max} bytes");
        Problem::new(Code::BodyTooLarge, detail)
    }

    /// A 400: an incomplete body.
    pub fn broken_body() -> Problem {
        Problem::new(Code::InvalidBody, "the body is incomplete")
    }

    /// A 408: a body that arrived too slowly.
    pub fn body_timeout() -> Problem {
        let detail = "the body arrived more slowly than http.body_bytes_per_second_min; nothing was \
                      stored, send it again";
        Problem::new(Code::BodyTimeout, detail)
    }

    /// The JSON, with `request_id` if it is known.
    pub fn json(&self, request_id: Option<&str>) -> Value {
        json!(ProblemObject {
            r#type: self.code.page(),
            title: self.code.title().to_owned(),
            status: self.status.as_u16(),
            code: self.code.as_str().to_owned(),
            detail: self.detail.clone(),
            errors: self.errors.clone(),
            request_id: request_id.map(str::to_owned),
            retry_after: self.retry_after(),
            more: self.more.clone(),
        })
    }

    /// The complete answer.
    pub fn response(&self, request_id: Option<&str>) -> Response {
        let mut response = Response::new(Body::from(self.json(request_id).to_string()));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        let media_type = HeaderValue::from_static(MEDIA_TYPE);
        headers.insert(header::CONTENT_TYPE, media_type);
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if self.status == StatusCode::UNAUTHORIZED {
            // RFC 9110, 11.6.1.
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(seconds) = self.retry_after() {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        response
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = self.response(None);
        // The outermost layer rewrites the answer with the request's id.
        response.extensions_mut().insert(self);
        response
    }
}
impl<E: Coded> From<E> for Problem {
    fn from(error: E) -> Problem {
        match error.coded() {
            (Code::InvalidField, detail) => Problem::invalid_field(detail),
            (code, detail) => Problem::new(code, detail),
        }
    }
}
