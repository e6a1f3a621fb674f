//! Tests the last versions of definitions: who wrote each, what a change would be, and the way back.

use serde_json::{Value, json};

use super::{Said, Service, each, said};
use crate::support::pods::client;

const CRM: &str = "destinations/crm";

impl Service {
    async fn put(&self, definition: &Value, token: &str) -> Said {
        let request = client().put(self.pod.url(&format!("/v1/{CRM}"))).json(definition);
        said(request.bearer_auth(token)).await
    }

    async fn versions(&self) -> Vec<Value> {
        let listed = self.get(&format!("{CRM}/versions")).await.ok();
        listed["items"].as_array().unwrap().clone()
    }

    async fn roll_back(&self, body: Value) -> Said {
        self.post(&format!("{CRM}/rollback"), body).await
    }
}

#[tokio::test]
async fn versions_say_who_wrote_what_and_hold_no_secret() {
    let service = Service::start().await;
    // The first token ends access without one.
    let made = json!({"name": "Ada", "scopes": ["admin"]});
    let ada = service.post("tokens", made).await;
    assert_eq!(ada.status, 201, "{ada:?}");
    let (token, id) = (ada.body["token"].as_str().unwrap(), &ada.body["id"]);
    let url = "http://127.0.0.1:9/";
    let first = json!({"url": url, "headers": {"authorization": "s3cret"}, "weight": 2});
    let second = json!({"url": url, "headers": {"authorization": "s3cret"}, "weight": 3});
    for definition in [&first, &first, &second, &second] {
        let put = service.put(definition, token).await;
        assert!(put.status < 300, "{put:?}");
    }
    let path = service.pod.url(&format!("/v1/{CRM}/versions"));
    let listed = said(client().get(path).bearer_auth(token)).await.ok();
    let [now, before] = &listed["items"].as_array().unwrap()[..] else { panic!("{listed}") };
    for (version, weight) in [(now, 3), (before, 2)] {
        assert_eq!((&version["actor"], &version["actor_name"]), (id, &json!("Ada")), "{version}");
        assert_eq!(version["definition"]["weight"], weight);
        assert!(version["written_at"].as_str().unwrap().ends_with('Z'));
    }
    assert_eq!(now["changes"], json!([{"field": "weight", "before": 2, "after": 3}]));
    assert_eq!(before["changes"], Value::Null);
    assert!(!listed.to_string().contains("s3cret"));
    let keys = service.store.keys().destination(&"crm".parse().unwrap());
    let mut redis = service.redis.connection().await;
    let mut stored = ::redis::cmd("HGET");
    let stored = stored.arg(keys.hash()).arg("versions").query_async::<String>(&mut redis);
    assert!(!stored.await.unwrap().contains("s3cret"));
}

#[tokio::test]
async fn rollback_defines_as_before_and_a_second_one_undoes_it() {
    let service = Service::start().await;
    let headers = json!({"authorization": "s3cret"});
    for weight in [2, 3, 4] {
        service.define("crm", json!({"weight": weight, "headers": headers})).await;
    }
    let listed = service.versions().await;
    let back = service.roll_back(json!({})).await.ok();
    assert_eq!((&back["weight"], &back["headers"]), (&json!(3), &json!({"authorization": "***"})));
    assert!(back["version"].as_u64() > listed[0]["version"].as_u64(), "{back}");
    assert_eq!(service.roll_back(json!({})).await.ok()["weight"], 4);
    let oldest = &listed[2]["version"];
    assert_eq!(service.roll_back(json!({"to": oldest})).await.ok()["weight"], 2);
    // Sent again, it changes nothing.
    assert_eq!(service.roll_back(json!({"to": oldest})).await.ok()["weight"], 2);
    assert_eq!(service.versions().await.len(), 6);
    let entries = service.get("audit?action=roll_back_destination").await.ok();
    assert_eq!(each(&entries, "outcome"), vec!["succeeded"; 4]);
    assert_eq!(each(&entries, "target")[0], json!(oldest.to_string()));

    service.roll_back(json!({"to": 7})).await.is_problem(400, "invalid_field", "kept are");
    let nowhere = service.post("destinations/nowhere/rollback", json!({})).await;
    nowhere.is_problem(404, "unknown_destination", "nowhere");
    service.define("once", json!({})).await;
    let once = service.post("destinations/once/rollback", json!({})).await;
    once.is_problem(400, "invalid_field", "no such version");
}

#[tokio::test]
async fn a_version_that_cannot_run_today_is_refused_with_advice() {
    let service = Service::start().await;
    let (here, there) = ("http://127.0.0.1:9/", "http://127.0.0.1:10/");
    let token = json!({"authorization": "s3cret"});
    service.define("crm", json!({"url": here, "headers": token})).await;
    service.define("crm", json!({"url": there, "headers": token})).await;
    let refused = service.roll_back(json!({})).await;
    refused.is_problem(409, "wrong_state", "must be given again");
    refused.is_problem(409, "wrong_state", "and PUT it");
    service.define("crm", json!({"url": here})).await;
    let refused = service.roll_back(json!({"to": service.versions().await[2]["version"]})).await;
    refused.is_problem(409, "wrong_state", "there is no such secret");
    // As an earlier program, with other fields, could have stored it.
    let keys = service.store.keys().destination(&"crm".parse().unwrap());
    let mut redis = service.redis.connection().await;
    let lines =
        "9 9 {\"definition\":{}}\n8 8 {\"definition\":{\"name\":\"crm\",\"url\":7}}\nbroken\n";
    let mut set = ::redis::cmd("HSET");
    let set = set.arg(keys.hash()).arg("versions").arg(lines).query_async::<u64>(&mut redis);
    set.await.unwrap();
    assert_eq!(service.versions().await.len(), 2);
    service.roll_back(json!({})).await.is_problem(409, "wrong_state", "url: invalid type");
    // What waits does not change its order.
    service.define_worker("crm", "key").await;
    service.define_worker("crm", "destination").await;
    service.send("crm", json!(1), json!({})).await;
    service.roll_back(json!({})).await.is_problem(409, "wrong_state", "ordering cannot change");
}

#[tokio::test]
async fn twenty_versions_are_kept() {
    let service = Service::start().await;
    for weight in 1..=25 {
        service.define("crm", json!({"weight": weight})).await;
    }
    let weights = service.versions().await;
    let weights: Vec<_> = weights.iter().map(|one| one["definition"]["weight"].as_u64()).collect();
    assert_eq!(weights, (6..=25).rev().map(Some).collect::<Vec<_>>());
}

#[tokio::test]
async fn commands_compare_set_and_roll_back_definitions() {
    let service = Service::start().await;
    let file = tempfile::Builder::new().suffix(".toml").tempfile().unwrap();
    let path = file.path().to_str().unwrap();
    let write = |fields: &str| {
        let text =
            format!("[[destination]]\nname = \"crm\"\nurl = \"http://127.0.0.1:9/\"\n{fields}");
        std::fs::write(path, text).unwrap();
    };
    write("weight = 2\nheaders.authorization = \"one\"\n");
    let apply = ["destinations", "apply", path];
    let dry = service.said(&["destinations", "diff", path]).await;
    assert!(dry.starts_with("crm would be created\n") && dry.contains("weight: 1 -> 2"), "{dry}");
    service.get(CRM).await.is_problem(404, "unknown_destination", "crm");
    assert_eq!(service.said(&apply).await, "crm created");
    assert_eq!(service.said(&["destinations", "diff", path]).await, "crm unchanged");

    write("weight = 3\nheaders.authorization = \"two\"\n");
    let dry = service.said(&[&apply[..], &["--dry-run"]].concat()).await;
    assert_eq!(
        dry,
        "crm would be changed\n  headers.authorization: another secret\n  weight: 2 -> 3"
    );
    let set = ["destinations", "set", "crm", "delivery.lanes_max=7", "url=http://127.0.0.1:9/x"];
    let dry = service.said(&[&set[..], &["--dry-run"]].concat()).await;
    let url = "url: \"http://127.0.0.1:9/\" -> \"http://127.0.0.1:9/x\"";
    assert!(dry.contains("delivery.lanes_max: ") && dry.ends_with(url), "{dry}");
    assert_eq!(service.versions().await.len(), 1);
    assert!(service.said(&set).await.starts_with("crm is changed: version "));
    service.run(&["destinations", "set", "crm", "weight"]).await.failed(2, "write FIELD=VALUE");
    service.run(&["destinations", "set", "crm", "wait=1"]).await.failed(3, "unknown field");

    let versions = service.said(&["destinations", "versions", "crm"]).await;
    assert!(versions.contains("loopback_without_token"), "{versions}");
    assert!(versions.contains("delivery.lanes_max, url"), "{versions}");
    let first = service.versions().await[1]["version"].to_string();
    let show = ["destinations", "versions", "crm", "--show", &first];
    let shown: Value = serde_json::from_str(&service.said(&show).await).unwrap();
    assert_eq!((&shown["name"], &shown["weight"]), (&json!("crm"), &json!(2)));
    let rollback = ["destinations", "rollback", "crm", "--to", &first];
    let dry = service.said(&[&rollback[..], &["--dry-run"]].concat()).await;
    assert!(dry.contains("delivery.lanes_max: 7 -> "), "{dry}");
    let done = service.said(&rollback).await;
    assert!(done.starts_with(&format!("crm is defined as in version {first}: ")), "{done}");
    service.run(&["destinations", "rollback", "crm", "--to", "7"]).await.failed(3, "kept are");
    let topic = "{\"name\": \"all\", \"destinations\": [\"crm\"]}";
    let dry = service.run_with_input(&["topics", "apply", "-", "--dry-run"], topic).await;
    assert_eq!(dry.ended(0), "all would be created\n  destinations: null -> [\"crm\"]\n");
}
