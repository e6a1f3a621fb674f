//! Tests `--header`, for proxies in front of the service.

use std::sync::{Arc, Mutex};

use axum::{
    Router,
    extract::State,
    http::{HeaderMap, StatusCode, header::LOCATION},
    response::{IntoResponse, Response},
};

use super::run_at;

type Seen = Arc<Mutex<Vec<HeaderMap>>>;

/// A proxy that notes the headers and forbids everything.
async fn forbid(State(seen): State<Seen>, headers: HeaderMap) -> Response {
    let is_redirected = headers.contains_key("x-redirect");
    seen.lock().unwrap().push(headers);
    match is_redirected {
        true => (StatusCode::FOUND, [(LOCATION, "http://127.0.0.1:9/login")]).into_response(),
        false => (StatusCode::FORBIDDEN, "<h1>Forbidden</h1>").into_response(),
    }
}

#[tokio::test]
async fn headers_reach_the_service_and_their_values_are_never_shown() {
    let seen = Seen::default();
    let routes = Router::new().fallback(forbid).with_state(seen.clone());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(axum::serve(listener, routes).into_future());

    let both = ["--header", "Authorization: Bearer secret", "--header", "X-Tenant: 7"];
    for command in [
        &["status"][..],
        &["destinations", "list"],
        &["send", "-d", "crm", "x"],
        &["purge", "crm", "--yes"],
    ] {
        let ran = run_at(&url, &[command, &both].concat(), &[], "").await;
        assert!(!ran.err.contains("secret"), "{}", ran.err);
        ran.failed(3, "<h1>Forbidden</h1> (status 403)");
        let headers = seen.lock().unwrap().pop().unwrap();
        assert_eq!(
            (&headers["authorization"], &headers["x-tenant"]),
            (&"Bearer secret".parse().unwrap(), &"7".parse().unwrap())
        );
    }
    let variable = [("RESEQ_HEADER", "Authorization: Bearer secret")];
    run_at(&url, &["destinations", "list"], &variable, "").await.ended(3);
    assert_eq!(seen.lock().unwrap().pop().unwrap()["authorization"], "Bearer secret");
    // The option replaces the variable.
    let option = ["destinations", "list", "--header", "X-Tenant: 7"];
    run_at(&url, &option, &variable, "").await.ended(3);
    assert!(!seen.lock().unwrap().pop().unwrap().contains_key("authorization"));

    for wrong in [&[("RESEQ_HEADER", "Bearer secret")][..], &[]] {
        let given =
            if wrong.is_empty() { &["status", "--header", "secret"][..] } else { &["status"] };
        let ran = run_at(&url, given, wrong, "").await;
        assert!(!ran.err.contains("secret"), "{}", ran.err);
        ran.failed(2, "Name: value");
    }
    let help = run_at(&url, &["status", "--help"], &variable, "").await.ended(0);
    assert!(help.contains("RESEQ_HEADER") && !help.contains("secret"), "{help}");

    // The command does not send the headers to the target of a redirect.
    let redirected = ["status", "--header", "X-Redirect: 1"];
    run_at(&url, &redirected, &[], "").await.failed(3, "redirects to http://127.0.0.1:9/login");
    assert_eq!(seen.lock().unwrap().len(), 1);
}
