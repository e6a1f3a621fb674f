//! `/openapi.json`, and `/docs`, which shows it to people. The page is Swagger UI
//! (`scripts/vendor-swagger-ui.sh`), and loads nothing from elsewhere.

use std::sync::Arc;

use axum::{
    Extension,
    http::{HeaderName, HeaderValue, header},
    response::{Html, IntoResponse, Response},
};
use utoipa_axum::{router::OpenApiRouter, routes};

/// The document, as JSON.
#[derive(Debug, Clone)]
pub(super) struct Document(pub(super) Arc<str>);

/// The page may run its own scripts only. Swagger UI sets styles, and has images within its own.
const POLICY: (HeaderName, HeaderValue) = (
    header::CONTENT_SECURITY_POLICY,
    HeaderValue::from_static(
        "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; \
         img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; \
         frame-ancestors 'none'",
    ),
);

const PAGE: &str = include_str!("../web/api-docs/index.html");
const START: &str = include_str!("../web/api-docs/start.js");
const SCRIPT: &[u8] = include_bytes!("../web/api-docs/swagger-ui-bundle.js.gz");
const STYLE: &[u8] = include_bytes!("../web/api-docs/swagger-ui.css.gz");

pub(super) fn routes<S: Clone + Send + Sync + 'static>() -> OpenApiRouter<S> {
    OpenApiRouter::default()
        .routes(routes!(openapi))
        .routes(routes!(page))
        .routes(routes!(script))
        .routes(routes!(style))
        .routes(routes!(start))
}

/// `GET /openapi.json`
#[utoipa::path(get, path = "/openapi.json", tag = "health", operation_id = "openapi",
    responses((status = 200, description = "This document", body = serde_json::Value,
        content_type = "application/json")))]
async fn openapi(Extension(document): Extension<Document>) -> Response {
    let media_type = [(header::CONTENT_TYPE, "application/json")];
    (media_type, document.0.to_string()).into_response()
}

/// `GET /docs`
#[utoipa::path(get, path = "/docs", tag = "health", operation_id = "docs",
    responses((status = 200, description = "This document, for people", body = String,
        content_type = "text/html")))]
async fn page() -> impl IntoResponse {
    ([POLICY], Html(PAGE))
}

#[utoipa::path(get, path = "/docs/swagger-ui-bundle.js", tag = "health",
    operation_id = "docs_script",
    responses((status = 200, description = "The script of the page", body = String,
        content_type = "text/javascript")))]
async fn script() -> impl IntoResponse {
    compressed("text/javascript; charset=utf-8", SCRIPT)
}

#[utoipa::path(get, path = "/docs/swagger-ui.css", tag = "health", operation_id = "docs_style",
    responses((status = 200, description = "The style of the page", body = String,
        content_type = "text/css")))]
async fn style() -> impl IntoResponse {
    compressed("text/css; charset=utf-8", STYLE)
}

#[utoipa::path(get, path = "/docs/start.js", tag = "health", operation_id = "docs_start",
    responses((status = 200, description = "Starts the page", body = String,
        content_type = "text/javascript")))]
async fn start() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/javascript; charset=utf-8")], START)
}

/// A compressed file. All browsers accept it.
fn compressed(media_type: &'static str, bytes: &'static [u8]) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, media_type), (header::CONTENT_ENCODING, "gzip")], bytes)
}
