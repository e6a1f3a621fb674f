//! The scope that each route needs. A route not listed needs `admin`.

use axum::http::Method;

use domain::Scope;

/// The requirement of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needed {
    /// No token: the answer reveals no data of the deployment.
    Nothing,
    /// No token, but only on a listener that serves operators.
    Operators,
    /// A token with this scope.
    Scope(Scope),
}

/// True if a request is an action of an operator, which the audit log records.
pub fn is_action(method: &Method, needed: Needed) -> bool {
    let changes = method != Method::GET && method != Method::HEAD;
    changes && matches!(needed, Needed::Scope(Scope::Operate | Scope::Admin))
}

/// Routes without a token: health checks, and descriptions of the API.
const OPEN: [&str; 9] = [
    "/healthz",
    "/readyz",
    "/openapi.json",
    "/docs",
    "/docs/swagger-ui-bundle.js",
    "/docs/swagger-ui.css",
    "/docs/start.js",
    "/problems",
    "/problems/{code}",
];

/// The pages of the console, and the session of a browser, which checks the token itself.
const CONSOLE: [&str; 4] = ["/console", "/console/", "/console/{file}", "/console/session"];

/// The result of a message. A client that may send messages may read a result, if it gives the id of the message.
const RESULT: &str = "/v1/destinations/{destination}/messages/{sequence}/result";

/// True if a request may last long, because it waits for messages or streams events.
pub fn lasts(path: &str) -> bool {
    let waits = ["/v1/leases", "/v1/destinations/{destination}/consume", RESULT];
    waits.contains(&path) || ["/v1/deliveries", "/console/events"].contains(&path)
}

/// The requirement of a route. `path` is its pattern, such as `/v1/topics/{topic}`.
pub fn needed(method: &Method, path: &str) -> Needed {
    let is_get = method == Method::GET || method == Method::HEAD;
    if OPEN.contains(&path) {
        return Needed::Nothing;
    }
    if CONSOLE.contains(&path) {
        return Needed::Operators;
    }
    let scope = match path {
        "/v1/messages" | RESULT => Scope::Ingest,
        "/v1/destinations/{destination}/messages" | "/v1/topics/{topic}/messages"
            if method == Method::POST =>
        {
            Scope::Ingest
        }
        "/v1/destinations/{destination}/consume" => Scope::Work,
        _ if path.starts_with("/v1/leases") || path.starts_with("/v1/deliveries/") => Scope::Work,
        _ if path.starts_with("/v1/tokens") || path == "/v1/audit" => Scope::Admin,
        _ if is_get => Scope::Read,
        "/v1/destinations/{destination}" | "/v1/topics/{topic}" => Scope::Admin,
        // These routes define destinations, or reveal something about secrets.
        "/v1/destinations/{destination}/rollback"
        | "/v1/destinations/{destination}/restore"
        | "/v1/destinations/{destination}/diff" => Scope::Admin,
        _ if path.starts_with("/v1/destinations/{destination}/") => Scope::Operate,
        _ => Scope::Admin,
    };
    Needed::Scope(scope)
}
