//! Refuses query parameters that a route does not have.

use axum::{
    extract::{MatchedPath, Request},
    middleware::Next,
    response::{IntoResponse, Response},
};

use super::docs::operation;
use domain::nearest::nearest;
use http_server::problem::Problem;

/// The problem with the query, if there is one.
fn check(request: &Request) -> Option<Problem> {
    let query = request.uri().query()?;
    let path = request.extensions().get::<MatchedPath>()?.as_str();
    let operation = operation(request.method(), path)?;
    let in_query = operation.parameters.iter().filter(|one| one.place == "query");
    let known: Vec<&str> = in_query.map(|one| one.name.as_str()).collect();
    for (name, _) in url::form_urlencoded::parse(query.as_bytes()) {
        if known.iter().any(|known| *known == name) {
            continue;
        }
        let detail = match nearest(&name, known.iter().copied()) {
            Some(nearest) => format!("there is no such parameter; did you mean {nearest}?"),
            None => "there is no such parameter; this path takes none".to_owned(),
        };
        let shown = domain::excerpt::excerpt(name.as_bytes());
        return Some(Problem::invalid_parameter(format!("{shown}: {detail}")));
    }
    None
}

/// Refuses a request with an unknown query parameter.
pub(super) async fn refuse_unknown(request: Request, next: Next) -> Response {
    match check(&request) {
        Some(problem) => problem.into_response(),
        None => next.run(request).await,
    }
}
