//! `/problems/{code}`: the pages that explain the codes. The `type` of a problem is the path of its page.

use std::fmt::Write;

use axum::{
    extract::Path,
    response::{Html, IntoResponse, Response},
};

use super::Api;
use formats::code::Code;
use http_server::{openapi_responses, problem::Problem, routes, routes::Routes};

pub(super) fn routes<R: Routes<Api>>(all: R) -> R {
    routes!(all, self: list, show)
}

/// `GET /problems`
#[utoipa::path(get, path = "/problems", tag = "health", operation_id = "list_problems",
    responses((status = 200, description = "All codes of errors, as a page", body = String,
        content_type = "text/html")))]
async fn list() -> Html<String> {
    let mut items = String::new();
    for code in Code::ALL {
        let (name, title) = (code.as_str(), code.title());
        let _ =
            write!(items, "<li><a href=\"{}\"><code>{name}</code></a> {title}</li>", code.page());
    }
    page("Errors of Reseq", &format!("<ul>{items}</ul>"))
}

/// `GET /problems/{code}`
#[utoipa::path(get, path = "/problems/{code}", tag = "health", operation_id = "show_problem",
    params(("code" = String, Path, description = "The code of a problem")),
    responses((status = 200, description = "What the code means, and what to do", body = String,
        content_type = "text/html"), openapi_responses::Metrics))]
async fn show(Path(name): Path<String>) -> Response {
    let Some(code) = Code::ALL.iter().find(|code| code.as_str() == name) else {
        let detail = "there is no such code; /problems lists all";
        return Problem::new(Code::NotFound, detail).into_response();
    };
    let body = format!(
        "<p><code>{code}</code> (status {})</p><h2>What it means</h2><p>{}</p>\
         <h2>What to do</h2><p>{}</p><p><a href=\"/problems\">All errors</a></p>",
        code.shown_status(),
        html(code.meaning()),
        html(code.remedy()),
    );
    page(code.title(), &body).into_response()
}

fn page(title: &str, body: &str) -> Html<String> {
    let title = html(title);
    Html(format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>{title}</title></head><body><h1>{title}</h1>{body}</body></html>\n"
    ))
}

/// The text as HTML; text between backticks becomes code.
fn html(text: &str) -> String {
    let escaped = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let mut html = String::new();
    for (at, part) in escaped.split('`').enumerate() {
        match at % 2 {
            0 => html.push_str(part),
            _ => html.extend(["<code>", part, "</code>"]),
        }
    }
    html
}
