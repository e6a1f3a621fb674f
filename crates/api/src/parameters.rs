//! Refuses query parameters that a route does not have.

use std::{collections::HashMap, sync::Arc};

use axum::{
    extract::{MatchedPath, Request, State},
    middleware::Next,
    response::{IntoResponse, Response},
};

use super::docs::{Operation, operations};
use domain::nearest::nearest;
use http_server::problem::Problem;

/// The operations of the document.
#[derive(Debug, Clone)]
pub(super) struct Parameters(Arc<HashMap<String, HashMap<String, Operation>>>);

impl Parameters {
    pub(super) fn of_the_document() -> Parameters {
        Parameters(Arc::new(operations()))
    }

    /// What is wrong with the query.
    fn check(&self, request: &Request) -> Option<Problem> {
        let query = request.uri().query()?;
        let path = request.extensions().get::<MatchedPath>()?.as_str();
        let operation = self.0.get(path)?.get(&request.method().as_str().to_ascii_lowercase())?;
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
}

/// Refuses a request with an unknown query parameter.
pub(super) async fn refuse_unknown(
    State(parameters): State<Parameters>,
    request: Request,
    next: Next,
) -> Response {
    match parameters.check(&request) {
        Some(problem) => problem.into_response(),
        None => next.run(request).await,
    }
}
