//! Tests the exit codes, and the questions before destructive commands.

use serde_json::{Value, json};

use super::{Service, run_at};

#[tokio::test]
async fn a_refusal_is_3_and_a_service_that_is_not_there_is_4() {
    let service = Service::start().await;
    service.define_worker("crm", "destination").await;
    let unknown = service.run(&["messages", "show", "nowhere", "1", "-o", "json"]).await;
    let problem: Value = serde_json::from_str(&unknown.failed(3, "unknown_destination")).unwrap();
    assert_eq!(problem["code"], "unknown_destination");
    service.run(&["messages", "show", "crm", "99"]).await.failed(3, "never stamped");
    service.run(&["messages", "list", "nowhere"]).await.failed(3, "unknown_destination");
    service.run(&["purge", "nowhere", "--yes"]).await.failed(3, "unknown_destination");
    service.run(&["retry-head", "crm", "--all", "--detach", "--key", "k"]).await.ended(2);

    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let nobody = format!("http://127.0.0.1:{port}");
    for command in [
        &["status"][..],
        &["destinations", "list"],
        &["purge", "crm", "--yes"],
        &["send", "-d", "crm", "--retry", "0ms", "x"],
    ] {
        run_at(&nobody, command, &[], "").await.failed(4, "does not answer");
    }
    run_at("nobody:1", &["status"], &[], "").await.failed(2, "http://host:port");
}

#[tokio::test]
async fn status_check_exits_with_5_while_lane_halted_or_data_damaged() {
    let service = Service::start().await;
    service.define_worker("crm", "destination").await;
    service.define_worker("erp", "destination").await;
    let healthy = service.run(&["status", "--check"]).await.ended(0);
    assert_eq!(healthy.trim(), "no destination needs attention, and no data is damaged");

    service.send("crm", json!(1), json!({})).await;
    service.halt_next("crm", "cannot read this").await;
    let halted = service.run(&["status", "--check"]).await.ended(5);
    assert!(halted.contains("1 is halted for") && !halted.contains("erp"), "{halted}");
    let halted = service.run(&["status", "--check", "-o", "json"]).await.ended(5);
    let halted: Value = serde_json::from_str(&halted).unwrap();
    assert_eq!(halted["items"][0]["destination"], "crm");
    assert_eq!((&halted["items"][1], &halted["damaged"]), (&Value::Null, &json!([])));
    service.run(&["status"]).await.ended(0);
    let skipped = ["skip-head", "crm", "--sequence", "1", "--yes"];
    service.run(&skipped).await.ended(0);

    let hash = service.store.keys().destination(&"erp".parse().unwrap()).hash();
    let _: i64 = service.redis.ask(&["HSET", &hash, "bytes", "x"]).await.unwrap();
    let damaged = service.run(&["status", "--check"]).await.ended(5);
    assert!(damaged.contains("! damaged: ") && damaged.contains("erp"), "{damaged}");
}

#[tokio::test]
async fn nothing_is_destroyed_without_a_terminal_and_without_yes() {
    let service = Service::start().await;
    service.define("crm", json!({})).await;
    for n in 1..=3 {
        service.send("crm", json!(n), json!({})).await;
    }
    service.run(&["skip-head", "crm", "--sequence", "1", "--yes"]).await.ended(0);
    service.hand("crm").await.deliver(None).await;
    for n in 4..=5 {
        service.send("crm", json!(n), json!({})).await;
    }
    let topic = service.run_with_input(&["topics", "apply", "-"], TOPIC).await;
    topic.ended(0);
    let counts = service.counts("crm").await;
    let delete = "crm has 2 pending messages and 1 dead letter. Delete the destination";
    for (command, question) in [
        (&["purge", "crm"][..], "This cancels 2 pending messages of crm (2 ready)"),
        (&["skip-head", "crm", "--sequence", "4"], "Make message 4 of crm a dead letter?"),
        (&["messages", "cancel", "crm", "4"], "Cancel message 4 of crm?"),
        (&["messages", "cancel", "crm", "--idempotency-key", "k"], "idempotency key \"k\" of crm?"),
        (&["dead-letters", "discard", "crm", "--all"], "This deletes 1 dead letter of crm"),
        (&["destinations", "delete", "crm"], delete),
        (&["destinations", "delete", "crm", "--force"], delete),
        (&["topics", "delete", "orders"], "orders has the destinations crm, which stay"),
    ] {
        let asked = service.run(command).await;
        assert!(asked.err.contains("Add --yes: there is no terminal"), "{}", asked.err);
        asked.failed(1, question);
    }
    assert_eq!(service.counts("crm").await["pending"], counts["pending"]);
    assert_eq!(service.counts("crm").await["dead_letters"], 1);
    service.run(&["skip-head", "crm", "--yes"]).await.failed(2, "--sequence");

    let deleted = service.said(&["topics", "delete", "orders", "--yes"]).await;
    assert_eq!(deleted, "orders was deleted");
    service.run(&["destinations", "delete", "crm", "--yes"]).await.failed(3, "wrong_state");
    let deleted = service.said(&["destinations", "delete", "crm", "--force", "--yes"]).await;
    assert_eq!(deleted, "crm was deleted, with 2 pending messages");
}

const TOPIC: &str = r#"{"name": "orders", "destinations": ["crm"]}"#;
