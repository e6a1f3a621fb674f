//! Tests the commands as people type them.

use std::process::Stdio;

use serde_json::{Value, json};
use tokio::{io::AsyncWriteExt, process::Command};

use super::{Service, support::wait::within};

mod bulk;
mod definitions;
mod exit_codes;
mod headers;
mod lists;
mod pages;

pub struct Ran {
    code: Option<i32>,
    out: String,
    err: String,
}

/// Runs `reseq` with these arguments against the service at this URL.
pub async fn run_at(url: &str, args: &[&str], variables: &[(&str, &str)], input: &str) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_reseq"));
    command.args(args).env_remove("RESEQ_HEADER").env("RESEQ_URL", url);
    command.envs(variables.iter().copied()).kill_on_drop(true);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // A command that fails at once does not read its input.
    let _ = stdin.write_all(input.as_bytes()).await;
    drop(stdin);
    let output = within("a command ends", child.wait_with_output()).await.unwrap();
    Ran {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

impl Service {
    /// Runs `reseq` with these arguments against the pod.
    pub(super) async fn run(&self, args: &[&str]) -> Ran {
        run_at(&self.pod.url(""), args, &[], "").await
    }

    /// Runs a command that must succeed. Returns its output without the last line break.
    pub(super) async fn said(&self, args: &[&str]) -> String {
        self.run(args).await.ended(0).trim_end().to_owned()
    }
}

impl Ran {
    /// Checks the exit code. Returns the output.
    #[track_caller]
    pub fn ended(self, code: i32) -> String {
        let Ran { code: ended, out, err } = self;
        assert_eq!(ended, Some(code), "out: {out}\nerr: {err}");
        out
    }

    /// Everything that it printed.
    pub fn all(&self) -> String {
        format!("{}{}", self.out, self.err)
    }

    /// True if it ended with 0.
    pub fn is_well(&self) -> bool {
        self.code == Some(0)
    }

    /// Checks the exit code, and that the error contains this.
    #[track_caller]
    pub fn failed(self, code: i32, named: &str) -> String {
        assert!(self.err.contains(named), "{named:?} is not in: {}", self.err);
        self.ended(code)
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
    assert!(
        status.contains("! delivery is paused; reseq destinations resume crm delivery"),
        "{status}"
    );
    assert!(status.contains("1 of key \"acct 7\" is halted for"), "{status}");
    assert!(status.contains("cannot read this"), "{status}");
    assert!(status.contains("reseq lanes retry crm --key 'acct 7' --sequence 1"), "{status}");

    assert!(service.said(&["resume", "crm"]).await.contains("delivery is running"));
    let listed = service.said(&["messages", "list", "crm", "--state", "halted"]).await;
    assert!(listed.contains("halted") && listed.contains("cannot read this"), "{listed}");
    let shown = service.said(&["messages", "show", "crm", "1"]).await;
    assert!(shown.contains("headers") && shown.contains("cannot read this"), "{shown}");

    let file = tempfile::NamedTempFile::new().unwrap();
    // Numbers do not change between the file and the destination.
    let good = "{\"good\":12345678901234567890123,\"net\":1.50}";
    std::fs::write(file.path(), good).unwrap();
    let path = file.path().to_str().unwrap();
    let head = ["retry-head", "crm", "--key", "acct 7", "--sequence", "1"];
    let retried = service.said(&[&head[..], &["--body", path]].concat()).await;
    assert_eq!(retried, "1 is waiting again");
    let shown = service.said(&["messages", "show", "crm", "1", "-o", "json"]).await;
    assert!(shown.contains(&format!("\"body\":{good}")), "{shown}");
    let shown = service.said(&["messages", "show", "crm", "1"]).await;
    assert!(shown.contains(&format!("body           {good}\n")), "{shown}");
    service.run(&head).await.failed(3, "nothing is to be retried");
}

#[tokio::test]
async fn commands_skip_cancel_purge_and_bring_back_messages() {
    let service = Service::start().await;
    service.define("crm", json!({"log_bodies": true})).await;
    for n in 1..=8 {
        let more = json!({"idempotency_key": format!("key-{n}")});
        service.send("crm", json!(n), more).await;
    }
    let skipped = service.said(&["skip-head", "crm", "--sequence", "1", "--yes"]).await;
    assert_eq!(skipped, "1 is dead_lettered");
    assert_eq!(service.said(&["messages", "cancel", "crm", "3", "--yes"]).await, "3 is cancelled");
    let cancel = ["messages", "cancel", "crm", "--idempotency-key", "key-4", "--yes"];
    assert_eq!(service.said(&cancel).await, "4 is cancelled");
    let listed = service.said(&["dead-letters", "list", "crm"]).await;
    assert!(listed.contains("skipped by hand"), "{listed}");
    let shown = service.said(&["dead-letters", "show", "crm", "1"]).await;
    assert!(shown.contains("reason"), "{shown}");
    service.run(&["dead-letters", "redrive", "crm"]).await.failed(2, "--all");
    let dry = service.said(&["dead-letters", "redrive", "crm", "--all", "--dry-run"]).await;
    assert_eq!(dry, "1 would be enqueued again");
    let redriven = service.said(&["dead-letters", "redrive", "crm", "1"]).await;
    assert_eq!(redriven, "1 were enqueued again");
    let gone = service.said(&["dead-letters", "redrive", "crm", "1"]).await;
    assert_eq!(gone, "0 were enqueued again; 1 are no longer dead letters");
    let none = service.said(&["dead-letters", "discard", "crm", "--all", "--yes"]).await;
    assert_eq!(none, "0 were discarded");

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
    assert_eq!(dry, "6 would be enqueued again (of 2 to 9)");
    let replayed = service.said(&["replay", "crm", "--from-sequence", "8"]).await;
    assert_eq!(replayed, "2 were enqueued again (of 8 to 9)");
    let dry = service.said(&["purge", "crm", "--dry-run"]).await;
    assert_eq!(dry, "2 would be cancelled (2 ready)");
    assert_eq!(service.said(&["purge", "crm", "--yes"]).await, "2 were cancelled");
}

#[tokio::test]
async fn messages_are_sent_by_command() {
    let service = Service::start().await;
    service.define_worker("crm", "key").await;
    let send = ["send", "-d", "crm", "--key", "k", "--delay", "2h", "--retry", "10s"];
    let sent = service.said(&[&send[..], &["a", "b"]].concat()).await;
    assert_eq!(sent, "sent 2 messages to crm: sequences 1 to 2");
    let sent = run_at(&service.pod.url(""), &["send", "-d", "crm", "-o", "json"], &[], "c\n").await;
    let sent: Value = serde_json::from_str(&sent.ended(0)).unwrap();
    let crm = json!({"destination": "crm", "messages": 1, "first_sequence": 3, "last_sequence": 3});
    assert_eq!(sent, json!({"items": [crm]}));
    let delayed = service.said(&["messages", "list", "crm", "--state", "delayed"]).await;
    assert_eq!(delayed.lines().count(), 3, "{delayed}");
    service.run(&["send", "-d", "nowhere", "x"]).await.failed(3, "line 1: ");
    service.run(&["send", "-d", "crm", "--delay", "15", "x"]).await.failed(2, "with a unit");
}
