//! The commands for interventions, as people type them.

use std::process::Stdio;

use serde_json::{Value, json};
use tokio::process::Command;

use super::{Service, support::wait::within};

pub(super) struct Ran {
    pub(super) ok: bool,
    pub(super) out: String,
    pub(super) err: String,
}

impl Service {
    /// Runs `reseq` with these arguments against the pod.
    pub(super) async fn run(&self, args: &[&str]) -> Ran {
        let mut command = Command::new(env!("CARGO_BIN_EXE_reseq"));
        command.args(args).env("RESEQ_URL", self.pod.url("")).stdin(Stdio::null());
        let output = within("a command ends", command.kill_on_drop(true).output()).await.unwrap();
        Ran {
            ok: output.status.success(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Runs a command that must succeed; returns its output.
    pub(super) async fn said(&self, args: &[&str]) -> String {
        let Ran { ok, out, err } = self.run(args).await;
        assert!(ok, "{args:?}: {err}");
        out
    }
}

#[tokio::test]
async fn a_stuck_lane_is_found_and_freed_by_command() {
    let service = Service::start().await;
    service.define_worker("crm", "key").await;
    for n in 1..=4 {
        service.send("crm", json!(n), json!({"key": "acct 7"})).await;
    }
    service.halt_next("crm", "cannot read this").await;
    service.said(&["pause", "crm", "delivery"]).await;

    let status = service.said(&["status"]).await;
    assert!(status.contains("! delivery is paused; reseq resume crm delivery"), "{status}");
    assert!(status.contains("1 of key \"acct 7\" is halted since"), "{status}");
    assert!(status.contains("cannot read this"), "{status}");
    assert!(status.contains("reseq retry-head crm --key 'acct 7' --sequence 1"), "{status}");

    assert!(service.said(&["resume", "crm"]).await.contains("delivery is running"));
    let listed = service.said(&["messages", "crm", "--state", "halted"]).await;
    assert!(listed.contains("halted") && listed.contains("cannot read this"), "{listed}");
    let shown = service.said(&["show", "crm", "1"]).await;
    assert!(shown.contains("headers") && shown.contains("cannot read this"), "{shown}");

    let file = tempfile::NamedTempFile::new().unwrap();
    // No number changes between the file and the destination.
    let good = "{\"good\":12345678901234567890123,\"net\":1.50}";
    std::fs::write(file.path(), good).unwrap();
    let path = file.path().to_str().unwrap();
    let retried = service
        .said(&["retry-head", "crm", "--key", "acct 7", "--sequence", "1", "--body", path])
        .await;
    assert_eq!(retried.trim(), "1 is waiting again");
    let shown = service.said(&["show", "crm", "1", "--json"]).await;
    assert!(shown.contains(&format!("\"body\":{good}")), "{shown}");
    let shown = service.said(&["show", "crm", "1"]).await;
    assert!(shown.contains(&format!("body           {good}\n")), "{shown}");

    let refused = service.run(&["retry-head", "crm", "--key", "acct 7"]).await;
    assert!(!refused.ok && refused.err.contains("nothing is to be retried"), "{}", refused.err);
    let unknown = service.run(&["show", "crm", "99"]).await;
    assert!(!unknown.ok && unknown.err.contains("never stamped"), "{}", unknown.err);
    let nowhere = service.run(&["messages", "nowhere"]).await;
    assert!(!nowhere.ok && nowhere.err.contains("unknown_destination"), "{}", nowhere.err);
}

#[tokio::test]
async fn messages_are_skipped_cancelled_purged_and_brought_back_by_command() {
    let service = Service::start().await;
    service.define("crm", json!({"log_bodies": true})).await;
    for n in 1..=8 {
        let more = json!({"idempotency_key": format!("key-{n}")});
        service.send("crm", json!(n), more).await;
    }
    assert_eq!(service.said(&["skip-head", "crm"]).await.trim(), "1 is dead_lettered");
    assert_eq!(service.said(&["cancel", "crm", "3"]).await.trim(), "3 is cancelled");
    let by_key = service.said(&["cancel", "crm", "--idempotency-key", "key-4"]).await;
    assert_eq!(by_key.trim(), "4 is cancelled");
    let listed = service.said(&["dead-letters", "list", "crm"]).await;
    assert!(listed.contains("skipped by hand"), "{listed}");
    let shown = service.said(&["dead-letters", "show", "crm", "1"]).await;
    assert!(shown.contains("reason"), "{shown}");
    let which = service.run(&["dead-letters", "redrive", "crm"]).await;
    assert!(!which.ok && which.err.contains("--all"), "{}", which.err);
    let dry = service.said(&["dead-letters", "redrive", "crm", "--all", "--dry-run"]).await;
    assert_eq!(dry.trim(), "1 would be enqueued again");
    let redriven = service.said(&["dead-letters", "redrive", "crm", "1"]).await;
    assert_eq!(redriven.trim(), "1 were enqueued again");
    let none = service.said(&["dead-letters", "discard", "crm", "--all", "--yes"]).await;
    assert_eq!(none.trim(), "0 were discarded");

    let hand = service.hand("crm").await;
    assert_eq!(hand.deliver(None).await.len(), 9);
    service
        .store
        .resign_partition(
            super::known(&service.store, "crm").await.partition,
            &hand.owner.token,
            None,
        )
        .await
        .unwrap();
    let log = service.said(&["log", "crm", "--limit", "3"]).await;
    assert!(log.contains("delivered") && log.contains("--cursor"), "{log}");
    let dry = service.said(&["replay", "crm", "--from-sequence", "1", "--dry-run"]).await;
    assert_eq!(dry.trim(), "6 would be enqueued again (of 2 to 9)");
    let replayed = service.said(&["replay", "crm", "--from-sequence", "8"]).await;
    assert_eq!(replayed.trim(), "2 were enqueued again (of 8 to 9)");
    let asked = service.run(&["purge", "crm"]).await;
    assert!(!asked.ok && asked.err.contains("2 messages of crm are pending"), "{}", asked.err);
    let dry = service.said(&["purge", "crm", "--dry-run"]).await;
    assert_eq!(dry.trim(), "2 would be cancelled (2 ready)");
    assert_eq!(service.said(&["purge", "crm", "--yes"]).await.trim(), "2 were cancelled");
}

#[tokio::test]
async fn a_problem_is_json_too_and_definitions_are_made_and_removed_by_command() {
    let service = Service::start().await;
    let unknown = service.run(&["show", "nowhere", "1", "--json"]).await;
    let problem: Value = serde_json::from_str(&unknown.out).unwrap();
    assert!(!unknown.ok && problem["code"] == "unknown_destination", "{problem}");

    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), json!({"name": "crm", "url": "http://h/"}).to_string()).unwrap();
    let made = service.said(&["destinations", "put", file.path().to_str().unwrap()]).await;
    assert!(made.starts_with("crm has version "), "{made}");
    let listed = service.said(&["destinations", "list"]).await;
    assert!(listed.lines().any(|line| line.starts_with("crm") && line.contains("http://h/")));
    let set = service.said(&["topics", "set", "orders", "crm"]).await;
    assert_eq!(set.trim(), "orders goes to crm");
    assert!(service.said(&["topics", "list"]).await.contains("orders"));
    assert_eq!(service.said(&["topics", "remove", "orders"]).await.trim(), "orders was removed");
    let removed = service.said(&["destinations", "delete", "crm", "--force"]).await;
    assert_eq!(removed.trim(), "crm was removed, with 0 pending messages");
}
