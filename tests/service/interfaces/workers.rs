//! `/v1/leases`.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Value, json};

use super::{Service, said};

async fn results(service: &Service, verb: &str, items: Value) -> Vec<String> {
    let answer = said(service.json(&format!("/v1/leases/{verb}"), &json!({"items": items}))).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    let results = answer.body["results"].as_array().unwrap();
    results.iter().map(|result| result["status"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn forged_and_garbled_lease_tokens_change_nothing() {
    let service = Service::start().await;
    for name in ["work", "other"] {
        service.define(name, json!({"transform": {"kind": "worker"}, "ordering": "key"})).await;
        let path = format!("/v1/destinations/{name}/messages");
        let request = service.post(&path, "application/json", "1").header("Reseq-Key", "lane");
        assert_eq!(said(request).await.status, 202);
    }
    let request = json!({"destinations": ["work"], "max": 1, "wait_ms": 1000, "lease_ms": 60000});
    let leased = said(service.json("/v1/leases", &request)).await.body;
    let token = leased["leases"][0]["token"].as_str().unwrap().to_owned();
    let mut forged =
        vec![String::new(), "garbage".into(), "x".repeat(3000), "a.b.c".into(), "\u{0}".into()];
    // Forged tokens with another destination, another secret, no secret, or no time.
    let plain = String::from_utf8(URL_SAFE_NO_PAD.decode(&token).unwrap()).unwrap();
    let parts: Vec<&str> = plain.split('\n').collect();
    let [_, sequence, secret, claimed, key] = parts[..] else { panic!("{plain}") };
    let encoded = |parts: [&str; 5]| URL_SAFE_NO_PAD.encode(parts.join("\n"));
    let other_secret: String = secret.chars().rev().collect();
    forged.push(encoded(["other", sequence, secret, claimed, key]));
    forged.push(encoded(["work", sequence, &other_secret, claimed, key]));
    forged.push(encoded(["work", sequence, "", claimed, key]));
    forged.push(encoded(["work", sequence, secret, "yesterday", key]));
    // Truncated, so that it is not valid base64.
    forged.push(token[..token.len() / 4 * 4 - 3].to_owned());
    let before = service.holds().await;
    for token in &forged {
        for (verb, more) in [
            ("complete", json!({"body": 2})),
            ("fail", json!({"error": "no"})),
            ("fail", json!({"error": "no", "final": true})),
            ("extend", json!({"lease_ms": 1000, "checkpoint": {"page": 7}})),
            ("requeue", json!({})),
        ] {
            let mut item = more;
            item["token"] = json!(token);
            assert_eq!(
                results(&service, verb, json!([item])).await,
                ["stale_lease"],
                "{verb} {token:?}"
            );
        }
    }
    assert_eq!(service.holds().await, before);
    // The holder cannot complete it in another lane.
    let astray =
        json!([{"token": encoded(["work", sequence, secret, claimed, "other lane"]), "body": 2}]);
    assert_eq!(results(&service, "complete", astray).await, ["stale_lease"]);
    assert_eq!(service.holds().await, before);
    // The valid token among forged ones counts, and only once.
    let items = json!([
        {"token": "garbage", "body": 0}, {"token": forged[6], "body": 0}, {"token": token, "body": "done"},
    ]);
    assert_eq!(results(&service, "complete", items).await, ["stale_lease", "stale_lease", "ok"]);
    let again = json!([{"token": token, "body": "done twice"}]);
    service.inbox.journal.reaches(1).await;
    crate::support::wait::eventually("it is settled", async || {
        let said = results(&service, "complete", again.clone()).await;
        if said == ["settled"] { Ok(()) } else { Err(said.join(" ")) }
    })
    .await;
    assert_eq!(service.inbox.journal.all().len(), 1);
    assert_eq!(service.inbox.journal.all()[0].body, "\"done\"");
}

#[tokio::test]
async fn calls_of_workers_that_cannot_be_are_refused_by_name() {
    let service = Service::start().await;
    service.define("work", json!({"transform": {"kind": "worker"}})).await;
    let before = service.holds().await;
    let lease = "/v1/leases";
    let cases = [
        (lease, json!({"destinations": ["nowhere"]}), 404, "unknown_destination", "nowhere"),
        (lease, json!({"destinations": ["erp"]}), 400, "invalid_field", "worker"),
        (lease, json!({"destinations": []}), 400, "invalid_field", "destinations"),
        (lease, json!({}), 400, "invalid_field", "destinations"),
        (lease, json!({"destinations": ["W O"]}), 400, "invalid_field", "destinations[0]"),
        (lease, json!({"destinations": ["work"], "max": 0}), 400, "invalid_field", "max"),
        (
            lease,
            json!({"destinations": ["work"], "wait_ms": 1_000_000}),
            400,
            "invalid_field",
            "wait_ms",
        ),
        (lease, json!({"destinations": ["work"], "lease_ms": 1}), 400, "invalid_field", "lease_ms"),
        (lease, json!({"destinations": ["work"], "colour": 1}), 400, "invalid_field", "colour"),
        (lease, json!({"destinations": ["work"], "min": 0}), 400, "invalid_field", "min"),
        (lease, json!({"destinations": ["work"], "min": 2}), 400, "invalid_field", "min"),
        (
            lease,
            json!({"destinations": ["work"], "min": 65, "max": 100}),
            400,
            "invalid_field",
            "1 to 64",
        ),
        (
            "/v1/leases/complete",
            json!({"items": [{"token": "t", "body_base64": "", "content_type": "a\nb"}]}),
            400,
            "invalid_field",
            "items[0]: content_type",
        ),
        (
            lease,
            json!({"destinations": ["work", "erp"], "min": 2, "max": 2}),
            400,
            "invalid_field",
            "min",
        ),
        (
            "/v1/leases/extend",
            json!({"items": [{"token": "t", "check_point": 1}]}),
            400,
            "invalid_field",
            "check_point",
        ),
        ("/v1/leases/complete", json!({"items": []}), 400, "invalid_field", "items"),
        ("/v1/leases/complete", json!({"items": [{"body": 1}]}), 400, "invalid_field", "items[0]"),
        (
            "/v1/leases/complete",
            json!({"items": [{"token": "t"}]}),
            400,
            "invalid_field",
            "items[0]",
        ),
        (
            "/v1/leases/complete",
            json!({"items": [{"token": "t", "body_base64": "?"}]}),
            400,
            "invalid_field",
            "items[0]",
        ),
        (
            "/v1/leases/fail",
            json!({"items": [{"token": "t", "retry_ms": 1e12 as u64}]}),
            400,
            "invalid_field",
            "items[0].retry_ms",
        ),
        (
            "/v1/leases/extend",
            json!({"items": [{"token": "t", "lease_ms": 1}]}),
            400,
            "invalid_field",
            "items[0].lease_ms",
        ),
        ("/v1/leases/requeue", json!({"item": []}), 400, "invalid_field", "item"),
    ];
    for (path, body, status, code, named) in cases {
        println!("{path} {body}");
        said(service.json(path, &body)).await.is_problem(status, code, named);
    }
    said(service.post(lease, "application/json", "{")).await.is_problem(400, "invalid_json", "");
    let long = " ".repeat(super::BATCH_MAX + 1);
    said(service.post(lease, "application/json", long)).await.is_problem(
        413,
        "body_too_large",
        "4000",
    );
    assert_eq!(service.holds().await, before);
}
