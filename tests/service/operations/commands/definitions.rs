//! Tests that destinations and topics are listed, shown, applied and deleted.

use std::path::Path;

use serde_json::{Value, json};

use super::{Ran, Service, run_at};

impl Service {
    /// Runs a command that reads this from standard input.
    pub async fn run_with_input(&self, args: &[&str], input: &str) -> Ran {
        run_at(&self.pod.url(""), args, &[], input).await
    }

    /// Writes a file and applies it.
    async fn apply(&self, noun: &str, file: &Path, text: &str) -> Ran {
        std::fs::write(file, text).unwrap();
        self.run(&[noun, "apply", file.to_str().unwrap()]).await
    }
}

#[tokio::test]
async fn destinations_and_topics_are_applied_from_toml_and_json() {
    let service = Service::start().await;
    let directory = tempfile::tempdir().unwrap();
    let (toml, json) = (directory.path().join("reseq.toml"), directory.path().join("crm.json"));
    let both = "shutdown_ms = 1\n[[destination]]\nname = \"crm\"\nurl = \"http://h/\"\n\
        delivery = { timeout_ms = 5000 }\n[[destination]]\nname = \"erp\"\nurl = \"http://h/\"\n\
        [[topic]]\nname = \"orders\"\ndestinations = [\"crm\", \"erp\"]\n";
    let applied = service.apply("destinations", &toml, both).await.ended(0);
    assert_eq!(applied, "crm created\nerp created\n");
    let applied = service.apply("destinations", &toml, &both.replace("5000", "6000")).await;
    assert_eq!(applied.ended(0), "crm changed\nerp unchanged\n");
    let applied = service.apply("topics", &toml, both).await.ended(0);
    assert_eq!(applied, "orders created\n");
    let applied = service.apply("topics", &toml, both).await.ended(0);
    assert_eq!(applied, "orders unchanged\n");
    let orders = r#"[{"name": "orders", "destinations": ["erp"]}]"#;
    let applied = service.run_with_input(&["topics", "apply", "-"], orders).await.ended(0);
    assert_eq!(applied, "orders changed\n");

    // A shown definition can be applied unchanged.
    let shown = service.said(&["destinations", "show", "crm", "-o", "json"]).await;
    let applied = service.apply("destinations", &json, &shown).await.ended(0);
    assert_eq!(applied, "crm unchanged\n");
    let mut crm: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(crm["delivery"]["timeout_ms"], 6000);
    crm["log_max"] = json!(7);
    std::fs::write(&json, crm.to_string()).unwrap();
    let path = json.to_str().unwrap();
    let applied = service.said(&["destinations", "apply", path, "-o", "json"]).await;
    let applied: Value = serde_json::from_str(&applied).unwrap();
    assert_eq!((&applied["name"], &applied["result"]), (&json!("crm"), &json!("changed")));
    assert_eq!(applied["destination"]["log_max"], 7);
    let shown = service.said(&["destinations", "show", "crm"]).await;
    assert!(shown.lines().any(|line| line.starts_with("log_max ") && line.ends_with(" 7")));
    let shown = service.said(&["topics", "show", "orders"]).await;
    assert!(shown.contains("[\"erp\"]"), "{shown}");
}

#[tokio::test]
async fn refused_definition_is_named_and_earlier_ones_are_applied() {
    let service = Service::start().await;
    let all = json!([
        {"name": "crm", "url": "http://h/"},
        {"name": "erp", "url": "http://h/", "log_maxx": 1},
        {"name": "lab", "url": "http://h/"},
    ]);
    let apply = ["destinations", "apply", "-"];
    let ran = service.run_with_input(&apply, &all.to_string()).await;
    assert_eq!(ran.failed(3, "destination erp: "), "crm created\n");
    let ran = service.run_with_input(&apply, &all.to_string()).await;
    assert_eq!(ran.failed(3, "did you mean `log_max`?"), "crm unchanged\n");
    service.run_with_input(&apply, "{\"secret\"").await.failed(1, "neither JSON");
    service.run_with_input(&apply, "{}").await.failed(1, "has no name");
    service.run(&["destinations", "apply", "/no/such/file"]).await.failed(1, "/no/such/file");
    service.run(&["destinations", "show", "lab"]).await.failed(3, "unknown_destination");
    let in_file = r#"{"name": "filed", "url": "http://h/"}"#;
    service.run_with_input(&apply, in_file).await.failed(3, "defined_in_file");
}

#[tokio::test]
async fn destinations_and_topics_are_listed_page_by_page() {
    let service = Service::start().await;
    for name in ["a", "b"] {
        service.define(name, json!({})).await;
    }
    let page = service.said(&["destinations", "list", "--limit", "2"]).await;
    assert!(page.lines().any(|line| line.starts_with("a ") && line.contains("http://")), "{page}");
    assert!(page.ends_with("more with --cursor b"), "{page}");
    let page = service.said(&["destinations", "list", "--limit", "2", "--cursor", "b"]).await;
    assert!(page.contains("filed") && !page.contains("--cursor"), "{page}");
    assert_eq!(service.said(&["topics", "list"]).await, "none");
    let topic = r#"{"name": "orders", "destinations": ["a", "b"]}"#;
    service.run_with_input(&["topics", "apply", "-"], topic).await.ended(0);
    let listed = service.said(&["topics", "list", "--limit", "10"]).await;
    assert!(listed.ends_with("orders  a, b"), "{listed}");
    service.run(&["topics", "show", "nothing"]).await.failed(3, "unknown_topic");
}
