//! The error answers over HTTP: RFC 9457, with a stable `code`.

use axum::{
    body::Body,
    extract::rejection::BytesRejection,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::{Map, Value, json};

/// A problem, as `application/problem+json`.
#[derive(Debug, Clone, PartialEq)]
pub struct Problem {
    /// The HTTP status.
    pub status: StatusCode,
    /// The stable code that clients may rely on.
    pub code: &'static str,
    /// What happened and what to do, as text.
    pub detail: String,
    /// Seconds to wait before the request may succeed.
    pub retry_after: Option<u64>,
    /// More members of the object.
    pub more: Map<String, Value>,
}

impl Problem {
    /// A problem that a repeat of the request will not solve.
    pub fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Problem {
        Problem { status, code, detail: detail.into(), retry_after: None, more: Map::new() }
    }

    /// True if damaged data of one destination is the cause: others are not affected.
    pub fn is_damage(&self) -> bool {
        self.status == StatusCode::INTERNAL_SERVER_ERROR
            && matches!(self.code, "damaged" | "unreadable")
    }

    /// A 400: the request is invalid.
    pub fn invalid_field(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::BAD_REQUEST, "invalid_field", detail)
    }

    /// A 404.
    pub fn unknown_destination(name: &str) -> Problem {
        let detail =
            format!("there is no destination {name:?}; PUT /v1/destinations/{name} makes one");
        Problem::new(StatusCode::NOT_FOUND, "unknown_destination", detail)
    }

    /// A 404.
    pub fn unknown_topic(name: &str) -> Problem {
        let detail = format!("there is no topic {name:?}; PUT /v1/topics/{name} makes one");
        Problem::new(StatusCode::NOT_FOUND, "unknown_topic", detail)
    }

    /// A body that was refused: longer than `max` bytes, or incomplete.
    pub fn of_body(rejection: &BytesRejection, max: usize) -> Problem {
        match rejection.status() {
            StatusCode::PAYLOAD_TOO_LARGE => Problem::body_too_large(max),
            status => Problem::broken_body(status),
        }
    }

    /// A 413: a body of more than `max` bytes.
    pub fn body_too_large(max: usize) -> Problem {
        let detail = format!("the body is longer than {max} bytes");
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", detail)
    }

    /// An incomplete body.
    pub fn broken_body(status: StatusCode) -> Problem {
        Problem::new(status, "invalid_body", "the body is incomplete")
    }

    /// A 408: a body that arrived too slowly.
    pub fn body_timeout() -> Problem {
        let detail = "the body arrived more slowly than http.body_bytes_per_second_min; nothing was \
                      stored, send it again";
        Problem::new(StatusCode::REQUEST_TIMEOUT, "body_timeout", detail)
    }

    /// A temporary problem.
    pub fn temporary(
        status: StatusCode,
        code: &'static str,
        detail: impl Into<String>,
        retry_after: u64,
    ) -> Problem {
        Problem { retry_after: Some(retry_after), ..Problem::new(status, code, detail) }
    }

    /// The JSON, with `request_id` if it is known.
    pub fn json(&self, request_id: Option<&str>) -> Value {
        let mut object = self.more.clone();
        object.extend([
            ("type".to_owned(), json!("about:blank")),
            ("title".to_owned(), json!(self.status.canonical_reason().unwrap_or("Problem"))),
            ("status".to_owned(), json!(self.status.as_u16())),
            ("detail".to_owned(), json!(self.detail)),
            ("code".to_owned(), json!(self.code)),
        ]);
        if let Some(id) = request_id {
            object.insert("request_id".to_owned(), json!(id));
        }
        if let Some(seconds) = self.retry_after {
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
        if let Some(seconds) = self.retry_after {
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
