//! Refuses query parameters that a route does not have.

use std::{collections::HashMap, sync::Arc};

use axum::{
    extract::{MatchedPath, Request, State},
    middleware::Next,
    response::{IntoResponse, Response},
};
use utoipa::openapi::{OpenApi, path::ParameterIn};

use super::openapi::operations;
use domain::nearest::nearest;
use http_server::problem::Problem;

/// The query parameters of each route, by method and path.
#[derive(Debug, Clone)]
pub(super) struct Parameters(Arc<HashMap<(&'static str, String), Vec<String>>>);

impl Parameters {
    pub(super) fn of(document: &OpenApi) -> Parameters {
        let mut known = HashMap::new();
        for (path, item) in &document.paths.paths {
            for (method, operation) in operations(item) {
                let Some(operation) = operation else { continue };
                let parameters = operation.parameters.iter().flatten();
                let in_query = parameters.filter(|one| one.parameter_in == ParameterIn::Query);
                let names = in_query.map(|parameter| parameter.name.clone()).collect();
                known.insert((method, path.clone()), names);
            }
        }
        Parameters(Arc::new(known))
    }

    /// What is wrong with the query.
    fn check(&self, request: &Request) -> Option<Problem> {
        let query = request.uri().query()?;
        let path = request.extensions().get::<MatchedPath>()?.as_str();
        let found = self
            .0
            .iter()
            .find(|((method, known), _)| known == path && request.method().as_str() == *method);
        let (_, known) = found?;
        for (name, _) in url::form_urlencoded::parse(query.as_bytes()) {
            if known.iter().any(|known| *known == name) {
                continue;
            }
            let detail = match nearest(&name, known.iter().map(String::as_str)) {
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
