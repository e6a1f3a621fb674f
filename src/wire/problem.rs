//! The error answers over HTTP: RFC 9457, with a stable `code`.

use axum::{
    body::Body,
    extract::rejection::BytesRejection,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::{Map, Value, json};

use super::code::Code;

/// `Retry-After` of temporary problems, in seconds.
const RETRY_AFTER_SECONDS: u64 = 1;

/// A problem, as `application/problem+json`.
#[derive(Debug, Clone, PartialEq)]
pub struct Problem {
    /// The HTTP status: the one of the code, or another 4xx.
    pub status: StatusCode,
    /// The stable code that clients may rely on.
    pub code: Code,
    /// What happened and what to do, as text.
    pub detail: String,
    /// More members of the object.
    pub more: Map<String, Value>,
}

impl Problem {
    /// A problem with the status of its code.
    pub fn new(code: Code, detail: impl Into<String>) -> Problem {
        Problem { status: code.status(), code, detail: detail.into(), more: Map::new() }
    }

    /// How many seconds to wait before the same request may succeed; none if it cannot.
    pub fn retry_after(&self) -> Option<u64> {
        self.code.is_temporary().then_some(RETRY_AFTER_SECONDS)
    }

    /// True if damaged data of one destination is the cause: others are not affected.
    pub fn is_damage(&self) -> bool {
        matches!(self.code, Code::Damaged | Code::Unreadable)
    }

    /// A 400: the request is invalid.
    pub fn invalid_field(detail: impl Into<String>) -> Problem {
        Problem::new(Code::InvalidField, detail)
    }

    /// A 404.
    pub fn unknown_destination(name: &str) -> Problem {
        let detail =
            format!("there is no destination {name:?}; PUT /v1/destinations/{name} creates one");
        Problem::new(Code::UnknownDestination, detail)
    }

    /// A 404.
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
        let mut object = self.more.clone();
        object.extend([
            ("type".to_owned(), json!("about:blank")),
            ("title".to_owned(), json!(self.status.canonical_reason().unwrap_or("Problem"))),
            ("status".to_owned(), json!(self.status.as_u16())),
            ("detail".to_owned(), json!(self.detail)),
            ("code".to_owned(), json!(self.code.as_str())),
        ]);
        if let Some(id) = request_id {
            object.insert("request_id".to_owned(), json!(id));
        }
        if let Some(seconds) = self.retry_after() {
            object.insert("retry_after".to_owned(), json!(seconds));
        }
        Value::Object(object)
    }

    /// The complete answer.
    pub fn response(&self, request_id: Option<&str>) -> Response {
        let mut response = Response::new(Body::from(self.json(request_id).to_string()));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        let media_type = HeaderValue::from_static("application/problem+json");
        headers.insert(header::CONTENT_TYPE, media_type);
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
