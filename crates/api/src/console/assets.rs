//! The page of the console and its files. The program contains them; `scripts/console.sh` builds them.

use std::sync::LazyLock;

use axum::{
    extract::Path,
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};

use domain::token::sha256_of;
use formats::code::Code;
use http_server::problem::Problem;

/// Each file: its name, its media type, and its content.
const FILES: [(&str, &str, &str); 4] = [
    (PAGE, "text/html; charset=utf-8", include_str!("../../web/console/index.html")),
    ("console.js", "text/javascript; charset=utf-8", include_str!("../../web/console/console.js")),
    ("console.css", "text/css; charset=utf-8", include_str!("../../web/console/console.css")),
    ("icon.svg", "image/svg+xml", include_str!("../../web/console/icon.svg")),
];

const PAGE: &str = "index.html";

/// Lets the page load nothing from elsewhere, run only its own script, and never turn text into markup.
const HEADERS: [(HeaderName, HeaderValue); 6] = [
    (
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
             connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
             require-trusted-types-for 'script'; trusted-types 'none'",
        ),
    ),
    (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
    (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        HeaderValue::from_static("same-origin"),
    ),
    (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
];

/// The ETag of each file, in the order of `FILES`.
static TAGS: LazyLock<Vec<String>> = LazyLock::new(|| {
    FILES.iter().map(|(_, _, content)| format!("\"{}\"", &sha256_of(content)[..16])).collect()
});

/// `GET /console`
pub(super) async fn page(headers: HeaderMap) -> Response {
    answer(PAGE, &headers)
}

/// `GET /console/{file}`
pub(super) async fn file(Path(name): Path<String>, headers: HeaderMap) -> Response {
    answer(&name, &headers)
}

fn answer(name: &str, headers: &HeaderMap) -> Response {
    let Some(at) = FILES.iter().position(|(known, _, _)| *known == name) else {
        return Problem::new(Code::NotFound, "the console has no such file").into_response();
    };
    let ((_, media_type, content), tag) = (FILES[at], &TAGS[at]);
    let tagged = [(header::ETAG, tag.as_str())];
    let held = headers.get(header::IF_NONE_MATCH).and_then(|held| held.to_str().ok());
    if held.is_some_and(|held| held.split(',').any(|one| one.trim() == tag)) {
        return (StatusCode::NOT_MODIFIED, HEADERS, tagged).into_response();
    }
    let media_type = [(header::CONTENT_TYPE, media_type)];
    (HEADERS, tagged, media_type, content).into_response()
}
