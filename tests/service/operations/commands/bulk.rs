//! Tests bulk commands: they wait for the end of their operation, or leave it running.

use axum::{Json, Router, http::StatusCode, routing::get};
use serde_json::{Value, json};

use super::{super::support::wait::eventually, Service, run_at};

#[tokio::test]
async fn a_bulk_command_can_leave_its_operation_to_itself() {
    let service = Service::start().await;
    service.define_worker("crm", "destination").await;
    for n in 1..=2 {
        service.send("crm", json!(n), json!({})).await;
    }
    let started = service.said(&["purge", "crm", "--yes", "--detach"]).await;
    let id = started.rsplit(' ').next().unwrap();
    assert_eq!(started.split(';').nth(1), Some(&*format!(" reseq operations show crm {id}")));
    let shown = eventually("the operation ends", async || {
        let shown = service.said(&["operations", "show", "crm", id]).await;
        if shown.contains("succeeded") { Ok(shown) } else { Err(shown) }
    })
    .await;
    assert!(shown.lines().any(|line| line.starts_with("affected ") && line.ends_with(" 2")));
    let listed = service.said(&["operations", "list", "crm", "--limit", "1"]).await;
    assert!(listed.contains(id) && listed.contains("purge"), "{listed}");
    let cancelled = service.said(&["operations", "cancel", "crm", id]).await;
    assert_eq!(cancelled, format!("operation {id} has ended before: it is succeeded"));
    service.run(&["operations", "show", "crm", "none"]).await.failed(3, "unknown_operation");

    let retry = ["retry-head", "crm", "--all", "-o", "json"];
    let operation: Value = serde_json::from_str(&service.said(&retry).await).unwrap();
    assert_eq!(
        (&operation["kind"], &operation["state"]),
        (&json!("retry_heads"), &json!("succeeded"))
    );
    assert_eq!(service.said(&retry[..3]).await, "retrying 0 heads");
    let listed = service.said(&["operations", "list", "crm", "-o", "json"]).await;
    let listed: Value = serde_json::from_str(&listed).unwrap();
    assert_eq!(listed["items"].as_array().map(Vec::len), Some(3), "{listed}");
}

#[tokio::test]
async fn bulk_command_watches_operation_and_fails_if_cancelled() {
    let operation = |state: &str, affected: u64| {
        json!({"id": "7", "kind": "purge", "state": state, "affected": affected, "matched": 9,
            "failed": 0, "dry_run": false})
    };
    let begun = (StatusCode::ACCEPTED, Json(operation("running", 1)));
    let routes = Router::new()
        .route("/v1/destinations/crm/purge", axum::routing::post(async || begun))
        .route(
            "/v1/destinations/crm/operations/7",
            get(async move || Json(operation("cancelled", 4))),
        );
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(axum::serve(listener, routes).into_future());
    let purge = ["purge", "crm", "--yes"];
    let text = "the operation 7 was cancelled after 4 of 9";
    assert_eq!(run_at(&url, &purge, &[], "").await.failed(3, text), "");
    let json = run_at(&url, &[&purge[..], &["-o", "json"]].concat(), &[], "").await;
    let ended: Value = serde_json::from_str(&json.failed(3, text)).unwrap();
    assert_eq!(ended["state"], "cancelled");
}
