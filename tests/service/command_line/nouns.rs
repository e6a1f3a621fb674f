//! The commands as nouns with verbs, their earlier spellings, and the options that many of them share.

use std::process::Stdio;

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::{Child, ChildStdout, Command},
};

use crate::{
    operations::commands::run_at,
    policies::scenario::{ERP, Scenario},
    support::{redis::TestRedis, wait::within},
};

/// A command that goes on.
struct Running {
    _child: Child,
    out: Lines<BufReader<ChildStdout>>,
}

impl Running {
    fn start(scenario: &Scenario, args: &[&str]) -> Running {
        let mut command = Command::new(env!("CARGO_BIN_EXE_reseq"));
        command.args(args).env("RESEQ_URL", scenario.pod.url(""));
        let mut child = command.stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap()).lines();
        Running { _child: child, out }
    }

    async fn line(&mut self) -> String {
        within("a line is printed", self.out.next_line()).await.unwrap().unwrap()
    }
}

async fn halted(key: &str) -> Scenario {
    let definition = json!({"ordering": key, "delivery": {"attempts_max": 1}});
    let scenario = Scenario::start(definition).await;
    scenario.receiver.refuse("\"bad\"", 400, None);
    scenario
}

#[tokio::test]
async fn earlier_spellings_and_aliases_do_the_same() {
    let scenario = Scenario::start(json!({})).await;
    let paused = scenario.command(&["pause", ERP, "delivery"]).await.ended(0);
    assert!(paused.contains("delivery is paused"), "{paused}");
    let resumed = scenario.command(&["dest", "resume", ERP]).await.ended(0);
    assert!(resumed.contains("delivery is running"), "{resumed}");
    for (earlier, today) in [
        (&["lanes", ERP][..], &["lanes", "list", ERP][..]),
        (&["why", ERP], &["lanes", "why", ERP]),
        (&["purge", ERP, "--dry-run"], &["destinations", "purge", ERP, "--dry-run"]),
        (&["dlq", "list", ERP], &["dead-letters", "list", ERP]),
        (&["msg", "list", ERP], &["messages", "list", ERP]),
    ] {
        let (earlier, today) = (scenario.command(earlier).await, scenario.command(today).await);
        assert_eq!(earlier.ended(0), today.ended(0));
    }
    let help = run_at("", &["retry-head", "--help"], &[], "").await.ended(0);
    assert!(help.contains("Usage: reseq lanes retry"), "{help}");
}

#[tokio::test]
async fn set_changes_only_the_fields_given() {
    let scenario = Scenario::start(json!({"backlog_max": 9, "log_max": 50})).await;
    let set = ["destinations", "set", ERP, "backlog_max=7", "delivery.timeout_ms=1234"];
    let said = scenario.command(&set).await.ended(0);
    let shown = scenario.json(&["destinations", "show", ERP], 0).await;
    assert_eq!(said, format!("{ERP} is changed: version {}\n", shown["version"]));
    let found = [&shown["backlog_max"], &shown["delivery"]["timeout_ms"], &shown["log_max"]];
    assert_eq!(found, [&json!(7), &json!(1234), &json!(50)]);
    scenario.command(&["destinations", "set", ERP, "backlog_max"]).await.failed(2, "FIELD=VALUE");
    scenario.command(&["destinations", "set", ERP, "no_such=1"]).await.failed(3, "no_such");
}

#[tokio::test]
async fn a_message_is_retried_without_its_key() {
    let scenario = halted("key").await;
    scenario.send("bad", json!({"key": "a b"})).await;
    scenario.until("it is halted", |stats| stats["halted"] == 1).await;
    let body = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(body.path(), "\"good\"").unwrap();
    let retry = ["messages", "retry", ERP, "1", "--body", body.path().to_str().unwrap()];
    assert_eq!(scenario.command(&retry).await.ended(0), "1 is ready again\n");
    scenario.command(&["messages", "retry", ERP, "99"]).await.failed(3, "99");
}

#[tokio::test]
async fn names_and_yaml_are_output_and_all_pages_are_read() {
    let scenario = Scenario::start(json!({"transform": {"kind": "worker"}})).await;
    for n in 1..=120 {
        scenario.send(&n.to_string(), json!({})).await;
    }
    let listed = async |more: &[&str]| {
        let list = ["messages", "list", ERP, "-o", "name"];
        scenario.command(&[&list, more].concat()).await.ended(0)
    };
    assert_eq!(listed(&["--limit", "2"]).await, "1\n2\n");
    assert_eq!(listed(&[]).await.lines().count(), 100);
    assert_eq!(listed(&["--all"]).await.lines().count(), 120);
    assert_eq!(
        scenario.command(&["dest", "list", "-o", "name"]).await.ended(0),
        format!("{ERP}\n")
    );
    let yaml = scenario.command(&["destinations", "show", ERP, "-o", "yaml"]).await.ended(0);
    assert!(yaml.starts_with("---\n") && yaml.contains("\n  kind: worker\n"), "{yaml}");
    let refused = scenario.command(&["dest", "show", "none", "-o", "yaml"]).await.ended(3);
    assert!(refused.contains("\nstatus: 404\n"), "{refused}");
}

#[tokio::test]
async fn log_is_followed_and_why_is_watched() {
    let scenario = Scenario::start(json!({"ordering": "key"})).await;
    for n in 1..=3 {
        scenario.send(&n.to_string(), json!({"key": "k"})).await;
    }
    scenario.is_drained().await;
    let follow = ["log", ERP, "--follow", "--key", "k", "-o", "json"];
    let mut log = Running::start(&scenario, &follow);
    let sequence = |line: String| serde_json::from_str::<Value>(&line).unwrap()["sequence"].clone();
    for n in 1..=3 {
        assert_eq!(sequence(log.line().await), n);
    }
    scenario.send("4", json!({"key": "other"})).await;
    scenario.send("5", json!({"key": "k"})).await;
    assert_eq!(sequence(log.line().await), 5);

    let mut why = Running::start(&scenario, &["lanes", "why", ERP, "--watch", "-o", "json"]);
    for _ in 0..2 {
        let shown: Value = serde_json::from_str(&why.line().await).unwrap();
        assert_eq!(shown["head"], json!(null));
    }
}

#[tokio::test]
async fn shells_complete_the_names_of_destinations() {
    let scenario = Scenario::start(json!({})).await;
    let words = ["--", "reseq", "lanes", "why", "e"];
    let variables = [("COMPLETE", "bash"), ("_CLAP_COMPLETE_INDEX", "3")];
    let offered = run_at(&scenario.pod.url(""), &words, &variables, "").await.ended(0);
    assert_eq!(offered.trim_end(), ERP);
    // A service that does not answer offers nothing.
    assert_eq!(run_at("http://127.0.0.1:1", &words, &variables, "").await.ended(0).trim_end(), "");
}

#[tokio::test]
async fn check_leaves_no_pod_and_knows_a_replica() {
    let scenario = Scenario::start(json!({})).await;
    let pods = async || scenario.command(&["pods", "-o", "name"]).await.ended(0);
    let before = pods().await;
    let check = async |url: &str| run_at("", &["check"], &[("RESEQ_REDIS_URL", url)], "").await;
    check(scenario.redis.url()).await.ended(0);
    assert_eq!((pods().await, before.lines().count()), (before, 1));

    let replica = TestRedis::start_on_tcp(&[]).await;
    replica.ask::<()>(&["REPLICAOF", "127.0.0.1", "1"]).await.unwrap();
    check(replica.url()).await.failed(1, "is a replica of 127.0.0.1:1");
}
