//! `/openapi.json`, and `/docs`, a page that shows this document. The page is Swagger UI
//! (`scripts/vendor-swagger-ui.sh`), and loads nothing from elsewhere.

use std::{collections::HashMap, sync::LazyLock};

use axum::{
    http::{HeaderName, HeaderValue, Method, header},
    response::{Html, IntoResponse, Response},
};
use http_server::{openapi_responses, routes, routes::Routes};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use crate::{Api, openapi_3_0, request::Params};

/// The OpenAPI document. A test writes it from the descriptions of the routes in the code ([`super::document`]).
pub(super) const DOCUMENT: &str = include_str!("../web/api-docs/openapi.json");

/// The fields that the document has for a route.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Operation {
    pub(super) operation_id: String,
    #[serde(default)]
    pub(super) parameters: Vec<Parameter>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Parameter {
    pub(super) name: String,
    #[serde(rename = "in")]
    pub(super) place: String,
}

/// The operations of the document, by path and by method in lower case.
static OPERATIONS: LazyLock<HashMap<String, HashMap<String, Operation>>> = LazyLock::new(|| {
    #[derive(Deserialize, Default)]
    struct Document {
        paths: HashMap<String, HashMap<String, Operation>>,
    }
    serde_json::from_str::<Document>(DOCUMENT).unwrap_or_default().paths
});

/// The operation of the document for a route. `path` is the pattern of the route.
pub(super) fn operation(method: &Method, path: &str) -> Option<&'static Operation> {
    OPERATIONS.get(path)?.get(&method.as_str().to_ascii_lowercase())
}

/// The page may run only its own scripts. Swagger UI sets styles, and contains its images.
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

pub(super) fn routes<R: Routes<Api>>(all: R) -> R {
    routes!(all, self: openapi, page, script, style, start)
}

/// The query parameters of the document.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct Wanted {
    /// The version of OpenAPI: `3.1`, or `3.0` for generators that do not know 3.1.
    #[param(inline)]
    version: Option<Version>,
}

#[derive(Debug, Deserialize, ToSchema)]
enum Version {
    #[serde(rename = "3.1")]
    V3_1,
    #[serde(rename = "3.0")]
    V3_0,
}

/// `GET /openapi.json`
#[utoipa::path(get, path = "/openapi.json", tag = "health", operation_id = "openapi", params(Wanted),
    responses((status = 200, description = "This document", body = serde_json::Value,
        content_type = "application/json"), openapi_responses::Reads))]
async fn openapi(Params(Wanted { version }): Params<Wanted>) -> Response {
    let json = [(header::CONTENT_TYPE, "application/json")];
    if !matches!(version, Some(Version::V3_0)) {
        return (json, DOCUMENT).into_response();
    }
    let older = serde_json::from_str(DOCUMENT).map(openapi_3_0::of).unwrap_or_default();
    (json, older.to_string()).into_response()
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
