//! Tests the last versions of definitions: who wrote each, what a change would be, and the way back.

use serde_json::{Value, json};

use super::{Said, Service, each, said};
use crate::support::{
    pods::{Pod, Settings, client},
    redis::TestRedis,
};

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
    once.is_problem(409, "wrong_state", "no earlier version");
}

#[tokio::test]
async fn rollback_of_another_version_than_the_named_one_is_refused() {
    let service = Service::start().await;
    for weight in [2, 3] {
        service.define("crm", json!({"weight": weight})).await;
    }
    let tag = |version: &Value| format!("\"{version}\"");
    let (path, listed) = (format!("/v1/{CRM}/rollback"), service.versions().await);
    let roll_back_if = async |tag: String| {
        said(client().post(service.pod.url(&path)).header("if-match", tag)).await
    };
    let refused = roll_back_if(tag(&listed[1]["version"])).await;
    refused.is_problem(412, "wrong_version", "current");
    assert_eq!(roll_back_if(tag(&listed[0]["version"])).await.ok()["weight"], 2);
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
    assert_eq!(service.said(&[&show[..], &["-o", "name"]].concat()).await, "crm");
    let numbers = service.said(&["destinations", "versions", "crm", "-o", "name"]).await;
    assert_eq!(numbers.lines().nth(1), Some(first.as_str()), "{numbers}");
    let names = service.said(&["export", "-o", "name"]).await;
    assert_eq!(names, "destination crm\ndestination filed");
    let rollback = ["destinations", "rollback", "crm", "--to", &first];
    let dry = service.said(&[&rollback[..], &["--dry-run"]].concat()).await;
    assert!(dry.contains("delivery.lanes_max: 7 -> "), "{dry}");
    let done = service.said(&rollback).await;
    assert!(done.starts_with(&format!("crm is defined as in version {first}: ")), "{done}");
    service
        .run(&["destinations", "rollback", "crm", "--to", "7"])
        .await
        .failed(1, "not kept any more");
    let topic = "{\"name\": \"all\", \"destinations\": [\"crm\"]}";
    let dry = service.run_with_input(&["topics", "apply", "-", "--dry-run"], topic).await;
    assert_eq!(dry.ended(0), "all would be created\n  destinations: null -> [\"crm\"]\n");
}

#[tokio::test]
async fn removed_destination_is_restored_in_a_higher_epoch() {
    let service = Service::start().await;
    service.define("crm", json!({"weight": 7})).await;
    service.send("crm", json!(1), json!({})).await;
    let first = service.get(&format!("{CRM}/messages/1")).await.ok();
    let restore = format!("{CRM}/restore");
    let none = service.post(&restore, json!({})).await;
    none.is_problem(404, "unknown_destination", "no definition of \"crm\" is kept");
    let delete = ["destinations", "delete", "crm", "--force", "--yes"];
    service.said(&delete).await;
    let listed = service.get("removed-destinations").await.ok();
    let [kept] = &listed["items"].as_array().unwrap()[..] else { panic!("{listed}") };
    assert_eq!((&kept["name"], &kept["definition"]["weight"]), (&json!("crm"), &json!(7)));
    assert_eq!(kept["actor"], "loopback_without_token", "{kept}");
    let listed = service.said(&["destinations", "removed"]).await;
    assert!(listed.contains("crm ") && listed.contains("loopback_without_token"), "{listed}");

    let restored = service.said(&["destinations", "restore", "crm"]).await;
    assert!(restored.starts_with("crm is defined again: version "), "{restored}");
    // Sent again, it changes nothing.
    assert_eq!(service.post(&restore, json!({})).await.ok()["weight"], 7);
    assert_eq!(service.counts("crm").await["pending"], 0);
    assert_eq!(service.send("crm", json!(2), json!({})).await, 1);
    let second = service.get(&format!("{CRM}/messages/1")).await.ok();
    assert!(second["epoch"].as_u64() > first["epoch"].as_u64(), "{first} {second}");
    service.define("crm", json!({"weight": 8})).await;
    let exists = service.post(&restore, json!({})).await;
    exists.is_problem(409, "wrong_state", "exists again");
    // Without secrets.key they are not kept.
    service.define("crm", json!({"headers": {"authorization": "s3cret"}})).await;
    service.said(&delete).await;
    let mut redis = service.redis.connection().await;
    let mut stored = ::redis::cmd("HGET");
    let stored = stored.arg("reseq:{index}:removed-definitions").arg("crm");
    assert!(!stored.query_async::<String>(&mut redis).await.unwrap().contains("s3cret"));
    let refused = service.post(&restore, json!({})).await;
    refused.is_problem(409, "wrong_state", "its secrets were not kept");
    let kept_ms: u64 = ::redis::cmd("PTTL")
        .arg("reseq:{index}:removed-definitions")
        .query_async(&mut redis)
        .await
        .unwrap();
    assert!((1..=7 * 24 * 3_600_000).contains(&kept_ms), "{kept_ms}");
}

#[tokio::test]
async fn a_hundred_removed_definitions_of_a_week_are_kept() {
    let service = Service::start().await;
    let mut redis = service.redis.connection().await;
    let now = service.store.server_time_ms().await.unwrap();
    let week = 7 * 24 * 3_600_000;
    let mut fill = ::redis::cmd("HSET");
    fill.arg("reseq:{index}:removed-definitions");
    let line = |at: u64| format!("1 {at} {{\"definition\":{{}}}}");
    for n in 0..100 {
        fill.arg(format!("old-{n:02}")).arg(line(now - 1_000_000 + n));
    }
    fill.arg("ended").arg(line(now - week - 1)).query_async::<u64>(&mut redis).await.unwrap();
    let names = async || {
        let listed = service.get("removed-destinations").await.ok();
        each(&listed, "name")
            .into_iter()
            .map(|name| name.as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(names().await.len(), 100);
    service.define("crm", json!({})).await;
    service.said(&["destinations", "delete", "crm", "--yes"]).await;
    let kept = names().await;
    assert_eq!((kept.len(), kept[0].as_str(), kept[1].as_str()), (100, "crm", "old-01"));
    let held: u64 = ::redis::cmd("HLEN")
        .arg("reseq:{index}:removed-definitions")
        .query_async(&mut redis)
        .await
        .unwrap();
    assert_eq!(held, 100);
}

#[tokio::test]
async fn an_export_is_imported_twice_and_replaces_nothing_unasked() {
    let service = Service::start().await;
    let sign = json!({"secrets": ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"]});
    let crm = json!({"weight": 7, "headers": {"authorization": "s3cret"}, "sign": sign,
        "key_from": {"jq": ".customer"}, "ordering": "key"});
    service.define("crm", crm).await;
    let topic = "{\"name\": \"all\", \"destinations\": [\"crm\", \"filed\"]}";
    service.run_with_input(&["topics", "apply", "-"], topic).await.ended(0);
    let export = service.said(&["export"]).await;
    assert!(!export.contains("s3cret") && export.starts_with("export_format = 1\n"), "{export}");
    let json: Value = serde_json::from_str(&service.said(&["export", "-o", "json"]).await).unwrap();
    assert_eq!(json["destination"].as_array().unwrap().len(), 2);
    for _ in 0..2 {
        let same = service.run_with_input(&["import", "-"], &export).await.ended(0);
        let expected =
            "destination crm unchanged\ndestination filed unchanged\ntopic all unchanged\n";
        assert_eq!(same, expected);
    }
    let file = tempfile::Builder::new().suffix(".json").tempfile().unwrap();
    let path = file.path().to_str().unwrap();
    let mut only_crm = json.clone();
    only_crm["destination"].as_array_mut().unwrap().retain(|one| one["name"] == "crm");
    let write = |value: &Value| std::fs::write(path, value.to_string()).unwrap();
    let checked = service.run_with_input(&["import", "-", "--check"], &export).await.ended(0);
    assert_eq!(checked, "ok: 2 destinations, 1 topic, 0 tokens\n");

    only_crm["destination"][0]["weight"] = json!(8);
    write(&only_crm);
    let versions = service.versions().await.len();
    service.run(&["import", path]).await.failed(1, "exist with other definitions: destination crm");
    assert_eq!(service.versions().await.len(), versions);
    let replaced = service.said(&["import", path, "--replace"]).await;
    assert_eq!(replaced, "destination crm changed\ntopic all unchanged");
    // Elsewhere its secrets are missing, and nothing of the file is imported.
    let mut renamed = only_crm.clone();
    renamed["destination"][0]["name"] = json!("new");
    renamed["topic"] = json!([]);
    write(&renamed);
    service.run(&["import", path]).await.failed(3, "has more masks than there are secrets");
    renamed["destination"][0]["headers"] = json!({"authorization": {"env": "NEW_AUTHORIZATION"}});
    renamed["destination"][0].as_object_mut().unwrap().remove("sign");
    write(&renamed);
    let url = service.pod.url("");
    let ran =
        super::commands::run_at(&url, &["import", path], &[("NEW_AUTHORIZATION", "given")], "")
            .await;
    assert_eq!(ran.ended(0), "destination new created\n");
}

#[tokio::test]
async fn import_names_each_problem_of_a_file_without_a_service() {
    let of = |more: Value| {
        let mut whole = json!({"export_format": 1});
        whole.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        whole.to_string()
    };
    let twice = json!({"topic": [{"name": "t", "destinations": ["a"]}, {"name": "t", "destinations": ["a"]}]});
    let wrong = json!({"destination": [{"name": "a", "url": "http://h/", "wieght": 1}, {"name": "b", "url": 7},
        {"name": "c", "url": "http://h/", "weight": 0}]});
    let masked = json!({"destination": [{"name": "a", "url": "http://h/", "sign": {"secrets": ["***"]},
        "headers": {"authorization": {"env": "NOT_THERE"}}}]});
    for (text, problem) in [
        ("{}".to_owned(), "it has no field export_format"),
        ("{\"export_format\": 2}".to_owned(), "of another version of Reseq"),
        (of(json!({"tokens": []})), "unknown field tokens"),
        (of(json!({"topic": 7})), "write [[topic]]"),
        (of(twice), "topic t: is there twice"),
        (of(wrong.clone()), "destination a: unknown field `wieght` (did you mean `weight`?)"),
        (of(wrong.clone()), "destination b: invalid type"),
        (of(wrong), "destination c: weight"),
        (of(masked), ""),
    ] {
        let ran =
            super::commands::run_at("http://127.0.0.1:1", &["import", "-", "--check"], &[], &text)
                .await;
        match problem {
            "" => assert_eq!(ran.ended(0), "ok: 1 destination, 0 topics, 0 tokens\n"),
            problem => drop(ran.failed(1, problem)),
        }
    }
}

#[tokio::test]
async fn import_says_how_to_make_the_tokens_that_are_missing() {
    let service = Service::start().await;
    let (path, dir) = ("/v1/tokens", tempfile::tempdir().unwrap());
    let make = async |name: &str, scopes: Value, token: &str| {
        let body = json!({"name": name, "scopes": scopes, "destinations": ["crm"]});
        let body = if name == "Ada" { json!({"name": name, "scopes": scopes}) } else { body };
        let made = said(client().post(service.pod.url(path)).json(&body).bearer_auth(token)).await;
        assert_eq!(made.status, 201, "{made:?}");
        made.body
    };
    let ada = make("Ada", json!(["admin"]), "").await;
    let token = ada["token"].as_str().unwrap();
    let url = service.pod.url("");
    let run = async |args: &[&str]| {
        super::commands::run_at(&url, args, &[("RESEQ_TOKEN", token)], "").await
    };
    let orders = make("orders", json!(["ingest", "read"]), token).await;
    let mut export: Value =
        serde_json::from_str(&run(&["export", "-o", "json"]).await.ended(0)).unwrap();
    assert!(!export.to_string().contains(orders["token"].as_str().unwrap()));
    export["destination"] = json!([]);
    let file = dir.path().join("all.json");
    std::fs::write(&file, export.to_string()).unwrap();
    let file = file.to_str().unwrap();
    assert_eq!(run(&["import", file]).await.ended(0), "");
    let id = orders["id"].as_str().unwrap();
    run(&["tokens", "revoke", id, "--yes"]).await.ended(0);
    let command = "reseq tokens create orders --scope ingest --scope read --destination crm\n";
    let said = run(&["import", file]).await.ended(0);
    assert!(said.starts_with("token missing") && said.ends_with(command), "{said}");
}

#[tokio::test]
async fn encrypted_secrets_come_back_with_a_restored_destination() {
    let redis = TestRedis::start().await;
    let mut settings = Settings::new(redis.url());
    let key = format!("{}AQE=", "AQEB".repeat(10));
    settings.environment = vec![("RESEQ_SECRETS_KEY".into(), key)];
    let pod = Pod::start("reseq", "ingest,processor", &settings).await;
    let url = |path: &str| pod.url(&format!("/v1/{path}"));
    let definition =
        json!({"url": "http://127.0.0.1:9/", "headers": {"authorization": "s3cret"}, "weight": 2});
    assert_eq!(said(client().put(url(CRM)).json(&definition)).await.status, 201);
    said(client().delete(url(CRM))).await.ok();
    let listed = said(client().get(url("removed-destinations"))).await.ok();
    let kept = &listed["items"][0]["definition"];
    assert_eq!((&kept["headers"]["authorization"], &kept["sealed"]), (&json!("***"), &Value::Null));
    let restored = said(client().post(url(&format!("{CRM}/restore")))).await;
    assert_eq!(restored.status, 201, "{restored:?}");
    let same = said(client().post(url(&format!("{CRM}/diff"))).json(&definition)).await.ok();
    assert_eq!(same["changes"], json!([]), "{same}");
}
