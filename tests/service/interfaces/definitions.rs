//! Tests changes of a destination: of a part of its definition, only if it has a certain version,
//! and never of its secrets by accident.

use reqwest::RequestBuilder;
use serde_json::{Value, json};

use super::{Said, Service, said};
use crate::{
    common,
    support::{
        checker::stats,
        pods::client,
        wait::{eventually, within},
    },
};

const CRM: &str = "/v1/destinations/crm";

impl Service {
    fn patch(&self, path: &str, patch: &Value) -> RequestBuilder {
        let request = client().patch(self.pod.url(path)).body(patch.to_string());
        request.header("content-type", "application/merge-patch+json")
    }

    /// The API's view of the destination.
    async fn shown(&self, path: &str) -> Said {
        let shown = said(self.get(path)).await;
        assert_eq!(shown.status, 200, "{}", shown.body);
        // The tag of each answer is its version.
        assert_eq!(tag(&shown), format!("\"{}\"", shown.body["version"]), "{}", shown.body);
        shown
    }
}

fn tag(said: &Said) -> &str {
    said.headers["etag"].to_str().unwrap()
}

/// A view without the fields that differ between versions or destinations.
fn definition(mut view: Value) -> Value {
    let fields = view.as_object_mut().unwrap();
    for field in ["name", "version", "partition", "defined_in_file", "paused"] {
        assert!(fields.remove(field).is_some(), "{field}: {fields:?}");
    }
    view
}

#[tokio::test]
async fn patch_changes_only_its_fields_and_null_means_default() {
    let service = Service::start().await;
    let fields = json!({"weight": 3, "headers": {"x-tenant": "7", "x-site": "a"},
        "delivery": {"lanes_max": 7, "batch_max": 5}, "on_exhausted": "drop"});
    service.define("crm", fields).await;
    service.define("plain", json!({})).await;
    let mut expected = service.shown(CRM).await.body;
    for (patch, change) in [
        (json!({"weight": 5}), json!({"weight": 5})),
        (json!({"name": "crm", "backlog_max": 9}), json!({"backlog_max": 9})),
        // Objects are merged: fields that they do not name stay.
        (json!({"delivery": {"lanes_max": 9}}), json!({"delivery/lanes_max": 9})),
        (json!({"headers": {"x-more": "b"}}), json!({"headers/x-more": "***"})),
    ] {
        let before = expected["version"].as_u64();
        let changed = said(service.patch(CRM, &patch)).await;
        assert_eq!(changed.status, 200, "{patch}: {}", changed.body);
        for (path, value) in change.as_object().unwrap() {
            match path.split_once('/') {
                Some((outer, inner)) => expected[outer][inner] = value.clone(),
                None => expected[path] = value.clone(),
            }
        }
        assert!(changed.body["version"].as_u64() > before, "{patch}: {}", changed.body);
        expected["version"] = changed.body["version"].clone();
        assert_eq!(changed.body, expected, "{patch}");
        assert_eq!(service.shown(CRM).await.body, expected, "{patch}");
    }
    // A patch without a change makes no version.
    for patch in [json!({}), json!({"weight": 5}), json!({"headers": {"x-absent": null}})] {
        let same = said(service.patch(CRM, &patch)).await;
        assert_eq!((same.status, &same.body), (200, &expected), "{patch}");
        assert_eq!(tag(&same), format!("\"{}\"", expected["version"]), "{patch}");
    }
    let nothing = json!({"weight": null, "backlog_max": null, "on_exhausted": null,
        "headers": {"x-tenant": null, "x-site": null, "x-more": null}, "delivery": {"lanes_max": null,
        "batch_max": null}});
    let changed = said(service.patch(CRM, &nothing)).await;
    assert_eq!(changed.status, 200, "{}", changed.body);
    let plain = service.shown("/v1/destinations/plain").await.body;
    assert_eq!(definition(changed.body), definition(plain));
}

#[tokio::test]
async fn a_patch_that_cannot_be_is_refused_and_changes_nothing() {
    let service = Service::start().await;
    service.define("crm", json!({})).await;
    let before = service.holds().await;
    for (path, patch, status, code, named) in [
        ("/v1/destinations/nowhere", json!({}), 404, "unknown_destination", "nowhere"),
        ("/v1/destinations/nowhere", json!({"weight": 2}), 404, "unknown_destination", "nowhere"),
        ("/v1/destinations/C%20R", json!({}), 400, "invalid_field", "C R"),
        ("/v1/destinations/erp", json!({"weight": 2}), 409, "defined_in_file", "erp"),
        (CRM, json!({"name": "other"}), 400, "invalid_field", "name: differs"),
        (CRM, json!({"name": null}), 400, "invalid_field", "name: differs"),
        (CRM, json!({"wieght": 2}), 400, "invalid_field", "did you mean `weight`"),
        (CRM, json!({"version": 1}), 400, "invalid_field", "version"),
        (CRM, json!({"weight": 0}), 400, "invalid_field", "weight"),
        (CRM, json!({"weight": "much"}), 400, "invalid_field", "weight"),
        (CRM, json!({"url": null}), 400, "invalid_field", "url"),
        (CRM, json!({"delivery": 7}), 400, "invalid_field", "delivery"),
        (CRM, json!({"delivery": {"lanes_max": 0}}), 400, "invalid_field", "delivery.lanes_max"),
        (CRM, json!([]), 400, "invalid_field", ""),
        (CRM, json!(7), 400, "invalid_field", ""),
    ] {
        println!("{path} {patch}");
        said(service.patch(path, &patch)).await.is_problem(status, code, named);
    }
    let garbage = service.patch(CRM, &json!({})).body("{");
    said(garbage).await.is_problem(400, "invalid_json", "");
    assert_eq!(service.holds().await, before);
}

#[tokio::test]
async fn a_change_of_another_version_than_the_current_one_is_refused() {
    let service = Service::start().await;
    let url = service.receiver.url();
    let with = |weight: u64| json!({"url": url, "weight": weight});
    let put = |weight: u64| service.put("crm", &with(weight));
    let absent = put(1).header("if-match", "*");
    said(absent).await.is_problem(412, "wrong_version", "does not exist");
    let absent = put(1).header("if-match", "\"1\"");
    said(absent).await.is_problem(412, "wrong_version", "does not exist");
    let made = said(put(1).header("if-none-match", "*")).await;
    assert_eq!(made.status, 201, "{}", made.body);
    let stale = tag(&made).to_owned();
    assert_eq!(tag(&service.shown(CRM).await), stale);
    let again = said(put(2).header("if-none-match", "*")).await;
    again.is_problem(412, "wrong_version", &stale);

    let changed = said(put(2).header("if-match", &stale)).await;
    assert_eq!((changed.status, &changed.body["weight"]), (200, &json!(2)), "{}", changed.body);
    let current = tag(&changed).to_owned();
    assert_ne!(current, stale);
    let before = service.holds().await;
    let patch = |weight: u64| service.patch(CRM, &json!({"weight": weight}));
    for tags in
        [stale.clone(), format!("W/{current}"), "\"x\"".to_owned(), format!("{stale}, \"7\"")]
    {
        for refused in [put(9).header("if-match", &tags), patch(9).header("if-match", &tags)] {
            said(refused).await.is_problem(412, "wrong_version", &current);
        }
    }
    for refused in [put(9), patch(9)] {
        let both = refused.header("if-match", &current).header("if-none-match", "*");
        said(both).await.is_problem(400, "invalid_field", "If-None-Match");
    }
    assert_eq!(service.holds().await, before);
    // `If-Match` accepts several tags, and any version.
    let one_of = patch(3).header("if-match", format!("{stale}, {current}"));
    assert_eq!(said(one_of).await.body["weight"], 3);
    for request in [put(4), patch(5)] {
        assert_eq!(said(request.header("if-match", "*")).await.status, 200);
    }
    let nowhere = service.patch("/v1/destinations/nowhere", &json!({})).header("if-match", "*");
    said(nowhere).await.is_problem(404, "unknown_destination", "nowhere");
    assert_eq!(service.shown(CRM).await.body["weight"], 5);
}

#[tokio::test]
async fn two_changes_at_once_both_survive_or_one_of_them_is_told() {
    let service = Service::start().await;
    service.define("crm", json!({})).await;
    for round in 1..=20 {
        let (weight, backlog) = (json!({"weight": round}), json!({"backlog_max": 1000 + round}));
        let (one, other) =
            tokio::join!(said(service.patch(CRM, &weight)), said(service.patch(CRM, &backlog)));
        assert_eq!((one.status, other.status), (200, 200), "{} {}", one.body, other.body);
        let shown = service.shown(CRM).await;
        let both = (&shown.body["weight"], &shown.body["backlog_max"]);
        assert_eq!(both, (&json!(round), &json!(1000 + round)), "{}", shown.body);

        // Both have read the same version: one changes it, and the other must read it again.
        let if_match = |patch: Value| service.patch(CRM, &patch).header("if-match", tag(&shown));
        let (one, other) = tokio::join!(
            said(if_match(json!({"weight": 50 + round}))),
            said(if_match(json!({"log_max": 2000 + round})))
        );
        let mut statuses = [one.status, other.status];
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 412], "{} {}", one.body, other.body);
    }
}

#[tokio::test]
async fn a_masked_secret_is_kept_and_sent_to_no_other_origin() {
    let service = Service::start().await;
    let mut receiver = common::receiver(|| "").await;
    let mut elsewhere = common::receiver(|| "").await;
    let secrets = json!({"authorization": "Bearer s3cret", "x-site": "a"});
    let made = said(service.put("crm", &json!({"url": receiver.url(), "headers": secrets}))).await;
    assert_eq!(made.status, 201, "{}", made.body);
    let masked = json!({"authorization": "***", "x-site": "***"});
    assert_eq!(made.body["headers"], masked);

    // A view that was read can be written back.
    let mut read = definition(service.shown(CRM).await.body);
    read["weight"] = json!(2);
    let put = said(service.put("crm", &read)).await;
    assert_eq!((put.status, &put.body["weight"]), (200, &json!(2)), "{}", put.body);
    let other_path = receiver.url().replace("/in", "/other");
    for patch in [
        json!({"weight": 3}),
        json!({"headers": {"x-site": "b"}}),
        json!({"headers": {"authorization": "***"}}),
        json!({"url": other_path}),
        json!({"url": receiver.url(), "headers": masked}),
    ] {
        let patched = said(service.patch(CRM, &patch)).await;
        assert_eq!(patched.status, 200, "{patch}: {}", patched.body);
        assert!(!patched.body.to_string().contains("Bearer"), "{}", patched.body);
    }
    let path = format!("{CRM}/messages");
    assert_eq!(said(service.post(&path, "text/plain", "one")).await.status, 202);
    let seen = within("it is delivered", receiver.seen.recv()).await.unwrap();
    assert_eq!(seen.headers["authorization"], "Bearer s3cret");
    assert_eq!(seen.headers["x-site"], "b");
    eventually("it is settled", async || {
        let stats = stats(&service.pod, "crm").await?;
        if stats["delivered_total"] == 1 { Ok(()) } else { Err(stats.to_string()) }
    })
    .await;

    // A caller that cannot read the secret cannot have it sent elsewhere, nor store its mask as the secret.
    let before = service.holds().await;
    let mut moved = read.clone();
    moved["url"] = json!(elsewhere.url());
    let added = json!({"headers": {"x-new": "***"}});
    let secured = receiver.url().replace("http://", "https://");
    for (request, pointer, named) in [
        (service.put("crm", &moved), "#/headers/authorization", "given again"),
        (service.patch(CRM, &json!({"url": elsewhere.url()})), "#/headers/", "given again"),
        (service.patch(CRM, &json!({"url": secured})), "#/headers/", "given again"),
        (
            service.patch(CRM, &json!({"url": elsewhere.url(), "headers": {"x-site": "c"}})),
            "#/headers/authorization",
            "given again",
        ),
        (service.patch(CRM, &added), "#/headers/x-new", "no such secret"),
        (service.put("new", &read), "#/headers/", "no such secret"),
    ] {
        let refused = said(request).await;
        refused.is_problem(400, "invalid_field", named);
        let at = refused.body["errors"][0]["pointer"].as_str().unwrap();
        assert!(at.starts_with(pointer), "{}", refused.body);
    }
    assert_eq!(service.holds().await, before);

    let given =
        json!({"url": elsewhere.url(), "headers": {"authorization": "new", "x-site": null}});
    assert_eq!(said(service.patch(CRM, &given)).await.status, 200);
    assert_eq!(said(service.post(&path, "text/plain", "two")).await.status, 202);
    let seen = within("it is delivered", elsewhere.seen.recv()).await.unwrap();
    assert_eq!((&*seen.headers["authorization"], seen.headers.get("x-site")), ("new", None));
    assert!(receiver.take().is_empty() && elsewhere.take().is_empty(), "each was sent once");
}

#[tokio::test]
async fn the_secrets_of_a_transform_are_kept_in_the_same_way() {
    let service = Service::start().await;
    let mut transformer = common::receiver(|| "done").await;
    let elsewhere = common::receiver(|| "done").await;
    let transform = json!({"kind": "http", "url": transformer.url(),
        "headers": {"x-token": "s3cret"}});
    service.define("crm", json!({"transform": transform})).await;
    let patched = said(service.patch(CRM, &json!({"transform": {"timeout_ms": 5000}}))).await;
    assert_eq!(
        (patched.status, &patched.body["transform"]["headers"]["x-token"]),
        (200, &json!("***"))
    );
    let moved = json!({"transform": {"url": elsewhere.url()}});
    let refused = said(service.patch(CRM, &moved)).await;
    refused.is_problem(400, "invalid_field", "transform.headers.x-token: must be given again");
    // The url of the destination may change: this secret is not sent there.
    let elsewhere = json!({"url": elsewhere.url()});
    assert_eq!(said(service.patch(CRM, &elsewhere)).await.status, 200);
    let sent = service.post(&format!("{CRM}/messages"), "text/plain", "one");
    assert_eq!(said(sent).await.status, 202);
    let seen = within("it is transformed", transformer.seen.recv()).await.unwrap();
    assert_eq!(seen.headers["x-token"], "s3cret");
}

#[tokio::test]
async fn signature_secrets_stay_hidden_and_are_kept_by_masks() {
    let service = Service::start().await;
    let secret = |byte: &str| format!("whsec_{}", byte.repeat(32));
    let (old, new) = (secret("A"), secret("B"));
    service.define("crm", json!({"sign": {"secrets": [old]}})).await;
    let masked = |count: usize| json!({"secrets": vec!["***"; count]});
    assert_eq!(service.shown(CRM).await.body["sign"], masked(1));
    // A new secret before the existing one, for which the mask stands.
    let patch = json!({"sign": {"secrets": [new, "***"]}});
    let said_of = said(service.patch(CRM, &patch)).await;
    assert_eq!((said_of.status, &said_of.body["sign"]), (200, &masked(2)));
    let stored = service.holds().await;
    let holds = |secret: &str| {
        let text = |value: &Vec<u8>| String::from_utf8_lossy(value).contains(secret);
        stored.values().flatten().any(text)
    };
    assert!(holds(&old) && holds(&new));
    for (secrets, problem) in [
        (json!(["***", "***", "***"]), "more masks"),
        (json!(["whsec_short"]), "secret 1"),
        (json!([]), "1 to 10"),
    ] {
        let refused = said(service.patch(CRM, &json!({"sign": {"secrets": secrets}}))).await;
        refused.is_problem(400, "invalid_field", problem);
        refused.is_problem(400, "invalid_field", "sign.secrets");
    }
}
