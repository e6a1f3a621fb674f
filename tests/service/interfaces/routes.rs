//! Tests `/openapi.json`: it lists all routes, and describes them correctly.

use std::collections::{BTreeMap, BTreeSet};

use reqwest::RequestBuilder;
use serde_json::Value;

use super::{Service, said};
use crate::support::pods::client;

/// Every route. Add a new route here, and to the tests of its behaviour.
const ROUTES: [&str; 76] = [
    "DELETE /v1/destinations/{destination}",
    "DELETE /v1/destinations/{destination}/dead-letters/{sequence}",
    "DELETE /v1/destinations/{destination}/messages",
    "DELETE /v1/destinations/{destination}/messages/{sequence}",
    "DELETE /v1/destinations/{destination}/sources",
    "DELETE /v1/tokens/{id}",
    "DELETE /v1/topics/{topic}",
    "GET /docs",
    "GET /docs/start.js",
    "GET /docs/swagger-ui-bundle.js",
    "GET /docs/swagger-ui.css",
    "GET /healthz",
    "GET /metrics",
    "GET /openapi.json",
    "GET /problems",
    "GET /problems/{code}",
    "GET /readyz",
    "GET /v1/audit",
    "GET /v1/deliveries",
    "GET /v1/destinations",
    "GET /v1/destinations/{destination}",
    "GET /v1/destinations/{destination}/dead-letters",
    "GET /v1/destinations/{destination}/dead-letters/{sequence}",
    "GET /v1/destinations/{destination}/lanes",
    "GET /v1/destinations/{destination}/log",
    "GET /v1/destinations/{destination}/messages",
    "GET /v1/destinations/{destination}/messages/by-id/{id}",
    "GET /v1/destinations/{destination}/messages/{sequence}",
    "GET /v1/destinations/{destination}/messages/{sequence}/result",
    "GET /v1/destinations/{destination}/operations",
    "GET /v1/destinations/{destination}/operations/{id}",
    "GET /v1/destinations/{destination}/sources",
    "GET /v1/destinations/{destination}/stats",
    "GET /v1/destinations/{destination}/versions",
    "GET /v1/destinations/{destination}/why",
    "GET /v1/doctor",
    "GET /v1/messages/by-id/{id}",
    "GET /v1/pods",
    "GET /v1/removed-destinations",
    "GET /v1/stats",
    "GET /v1/tokens",
    "GET /v1/tokens/{id}",
    "GET /v1/topics",
    "GET /v1/topics/{topic}",
    "PATCH /v1/destinations/{destination}",
    "POST /v1/deliveries/accept",
    "POST /v1/deliveries/extend",
    "POST /v1/deliveries/refuse",
    "POST /v1/deliveries/requeue",
    "POST /v1/destinations/{destination}/consume",
    "POST /v1/destinations/{destination}/dead-letters/discard",
    "POST /v1/destinations/{destination}/dead-letters/redrive",
    "POST /v1/destinations/{destination}/diff",
    "POST /v1/destinations/{destination}/messages",
    "POST /v1/destinations/{destination}/messages/{sequence}/run-now",
    "POST /v1/destinations/{destination}/operations/{id}/cancel",
    "POST /v1/destinations/{destination}/pause",
    "POST /v1/destinations/{destination}/purge",
    "POST /v1/destinations/{destination}/repair",
    "POST /v1/destinations/{destination}/replay",
    "POST /v1/destinations/{destination}/restore",
    "POST /v1/destinations/{destination}/resume",
    "POST /v1/destinations/{destination}/retry-head",
    "POST /v1/destinations/{destination}/rollback",
    "POST /v1/destinations/{destination}/run-now",
    "POST /v1/destinations/{destination}/skip-head",
    "POST /v1/leases",
    "POST /v1/leases/complete",
    "POST /v1/leases/extend",
    "POST /v1/leases/fail",
    "POST /v1/leases/requeue",
    "POST /v1/messages",
    "POST /v1/tokens",
    "POST /v1/topics/{topic}/messages",
    "PUT /v1/destinations/{destination}",
    "PUT /v1/topics/{topic}",
];

/// The routes of the document, each with its description.
async fn documented(service: &Service) -> BTreeMap<String, Value> {
    let answer = service.get("/openapi.json").send().await.unwrap();
    assert_eq!(answer.headers()["content-type"], "application/json");
    let document: Value = serde_json::from_str(&answer.text().await.unwrap()).unwrap();
    let mut routes = BTreeMap::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, route) in methods.as_object().unwrap() {
            routes.insert(format!("{} {path}", method.to_uppercase()), route.clone());
        }
    }
    routes
}

/// A request for a route, with a value for each parameter of its path.
fn request(service: &Service, route: &str, query: &str) -> RequestBuilder {
    let (method, path) = route.split_once(' ').unwrap();
    let values = [
        ("{destination}", "erp"),
        ("{topic}", "orders"),
        ("{sequence}", "7"),
        ("{id}", "x"),
        ("{code}", "paused"),
    ];
    let path = values.iter().fold(path.to_owned(), |path, (name, value)| path.replace(name, value));
    assert!(!path.contains('{'), "{path}");
    let mut request = client().request(method.parse().unwrap(), service.pod.url(&(path + query)));
    // By default its answer takes a minute.
    if route == "GET /v1/deliveries" && !query.contains("duration_ms=") {
        request = request.query(&[("duration_ms", 1)]);
    }
    match method {
        "POST" | "PUT" | "PATCH" => request.header("content-type", "application/json").body("{}"),
        _ => request,
    }
}

#[tokio::test]
async fn document_lists_every_route_and_only_existing_ones() {
    let service = Service::start().await;
    let documented = documented(&service).await;
    let listed: Vec<&str> = documented.keys().map(String::as_str).collect();
    assert_eq!(listed, ROUTES);
    for (route, told) in &documented {
        let answer = request(&service, route, "").send().await.unwrap();
        let (status, text) = (answer.status().as_u16(), answer.bytes().await.unwrap());
        let text = String::from_utf8_lossy(&text);
        assert_ne!(status, 405, "{route}");
        assert!(!text.contains("\"not_found\"") || route == "GET /openapi.json", "{route}: {text}");
        let answers = told["responses"].as_object().unwrap();
        assert!(answers.contains_key(&status.to_string()), "{route}: {status} is not documented");
    }
}

/// All references of a part of the document.
fn references(part: &Value, found: &mut BTreeSet<String>) {
    match part {
        Value::Object(fields) => {
            let named = fields.get("$ref").and_then(Value::as_str).map(str::to_owned);
            found.extend(named);
            fields.values().for_each(|field| references(field, found));
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        _ => {}
    }
}

#[tokio::test]
async fn the_document_is_whole_and_a_page_shows_it() {
    let service = Service::start().await;
    let document = said(service.get("/openapi.json")).await.body;
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1"), "{}", document["openapi"]);
    let mut found = BTreeSet::new();
    references(&document, &mut found);
    assert!(found.len() > 20, "{found:?}");
    for reference in &found {
        let path = reference.strip_prefix('#').unwrap();
        assert!(document.pointer(path).is_some(), "{reference} leads nowhere");
    }
    let mut ids = BTreeSet::new();
    for (route, told) in documented(&service).await {
        let id = told["operationId"].as_str().unwrap_or_else(|| panic!("{route} has no id"));
        assert!(ids.insert(id.to_owned()), "{id} is there twice");
    }

    // The version 3.0 of the document, for older generators, has the same parts, and no features of 3.1.
    let older = said(service.get("/openapi.json?version=3.0")).await.body;
    assert!(older["openapi"].as_str().unwrap().starts_with("3.0"), "{}", older["openapi"]);
    let mut same = BTreeSet::new();
    references(&older, &mut same);
    assert_eq!(same, found);
    assert!(document.to_string().contains("\"null\"") && !older.to_string().contains("\"null\""));

    // The page loads only what this pod serves.
    let answer = service.get("/docs").send().await.unwrap();
    assert_eq!(answer.status().as_u16(), 200);
    let policy = answer.headers()["content-security-policy"].to_str().unwrap();
    assert!(policy.contains("default-src 'none'"), "{policy}");
    let page = answer.text().await.unwrap();
    let mut parts = Vec::new();
    for attribute in ["src=\"", "href=\""] {
        parts.extend(page.split(attribute).skip(1).map(|rest| rest.split('"').next().unwrap()));
    }
    assert_eq!(parts.len(), 3, "{page}");
    for part in parts {
        assert!(part.starts_with("/docs/"), "{part}");
        let answer = service.get(part).send().await.unwrap();
        assert_eq!(answer.status().as_u16(), 200, "{part}");
    }
}

#[tokio::test]
async fn route_refuses_an_unknown_parameter_and_names_the_nearest() {
    let service = Service::start().await;
    let before = service.holds().await;
    for (route, told) in documented(&service).await {
        let parameters = told["parameters"].as_array().map(Vec::as_slice).unwrap_or_default();
        let in_query = parameters.iter().filter(|parameter| parameter["in"] == "query");
        let known: Vec<&str> =
            in_query.map(|parameter| parameter["name"].as_str().unwrap()).collect();
        // A name with one extra letter, and an unrelated name.
        let slips = known.iter().map(|name| (format!("{name}x"), format!("did you mean {name}?")));
        let other = if known.is_empty() { "this path takes none" } else { "did you mean " };
        for (name, hint) in slips.chain([("colour".to_owned(), other.to_owned())]) {
            let answer = said(request(&service, &route, &format!("?{name}=1"))).await;
            answer.is_problem(400, "invalid_field", &hint);
            assert_eq!(answer.body["errors"][0]["parameter"], *name, "{route}: {}", answer.body);
        }
        for name in known {
            let answer = said(request(&service, &route, &format!("?{name}=1"))).await;
            let detail = answer.body["detail"].as_str().unwrap_or_default();
            assert!(!detail.contains("there is no such parameter"), "{route}: {detail}");
        }
    }
    assert_eq!(service.holds().await, before);
}
