//! `reseq tail`.

use std::process::Stdio;

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::{Child, ChildStderr, ChildStdout, Command},
};

use super::terminal::Terminal;
use crate::{
    policies::scenario::{ERP, Scenario},
    support::wait::{eventually, within},
};

/// A running `reseq tail`.
struct Tailing {
    child: Child,
    out: Lines<BufReader<ChildStdout>>,
    _err: Lines<BufReader<ChildStderr>>,
}

impl Tailing {
    /// Starts the command, and waits until it listens.
    async fn start(scenario: &Scenario, args: &[&str]) -> Tailing {
        let mut command = Command::new(env!("CARGO_BIN_EXE_reseq"));
        command.arg("tail").args(args).args(["-o", "json"]).env("RESEQ_URL", scenario.pod.url(""));
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut err = BufReader::new(child.stderr.take().unwrap()).lines();
        let line = within("it listens", err.next_line()).await.unwrap();
        assert_eq!(line.as_deref(), Some("reseq: listening"));
        Tailing { child, out, _err: err }
    }

    async fn next(&mut self) -> Value {
        let line = within("a delivery is shown", self.out.next_line()).await.unwrap().unwrap();
        serde_json::from_str(&line).unwrap()
    }
}

impl Scenario {
    /// The number of pods that subscribe to published deliveries.
    async fn watched(&self) -> u64 {
        let answer: (String, u64) =
            self.redis.ask(&["PUBSUB", "SHARDNUMSUB", "reseq:tail"]).await.unwrap();
        answer.1
    }

    /// Waits until senders publish deliveries. The request to them is asynchronous.
    async fn shows(&self, tail: &mut Tailing, what: &str) -> Value {
        let mut sent = 0;
        loop {
            self.send(&format!("{what}{sent}"), json!({"key": "a b"})).await;
            sent += 1;
            let shown = tokio::time::timeout(std::time::Duration::from_millis(500), tail.next());
            match shown.await {
                Ok(shown) => return shown,
                Err(_) => assert!(sent < 60, "nothing is shown"),
            }
        }
    }
}

#[tokio::test]
async fn tail_shows_deliveries_live_and_only_while_watched() {
    let scenario = Scenario::start(json!({"ordering": "key"})).await;
    assert_eq!(scenario.watched().await, 0);
    let mut all = Tailing::start(&scenario, &[]).await;
    let shown = scenario.shows(&mut all, "first").await;
    assert_eq!((&shown["type"], &shown["outcome"]), (&json!("delivery"), &json!("accepted")));
    assert_eq!((&shown["destination"], &shown["key"]), (&json!(ERP), &json!("a b")), "{shown}");
    assert!(shown["id"].is_string() && shown["took_ms"].is_u64(), "{shown}");

    // Filters: another watcher sees only refused deliveries of its key.
    let mut refused =
        Tailing::start(&scenario, &[ERP, "--key", "k", "--outcome", "refused", "--count", "2"])
            .await;
    scenario.receiver.refuse("\"bad\"", 503, Some(2));
    scenario.send("good", json!({"key": "k"})).await;
    scenario.send("bad", json!({"key": "k"})).await;
    for attempt in [1, 2] {
        let shown = refused.next().await;
        assert_eq!((&shown["outcome"], &shown["attempt"]), (&json!("refused"), &json!(attempt)));
        assert_eq!(shown["error"]["status"], 503, "{shown}");
    }
    // The command ends after the requested count.
    let ended = within("the command ends", refused.child.wait()).await.unwrap();
    assert_eq!(ended.code(), Some(0));

    // The service refuses an unknown destination.
    scenario.command(&["tail", "nowhere"]).await.failed(3, "unknown_destination");
    scenario.command(&["tail", "--outcome", "other"]).await.ended(2);
    // With the last watcher, the subscription ends.
    assert_eq!(scenario.watched().await, 1);
    all.child.kill().await.unwrap();
    eventually("nobody watches", async || match scenario.watched().await {
        0 => Ok(()),
        count => Err(count.to_string()),
    })
    .await;
}

#[tokio::test]
async fn on_a_terminal_lines_are_coloured_and_ctrl_c_ends_it() {
    let scenario = Scenario::start(json!({"ordering": "key"})).await;
    let url = scenario.pod.url("");
    let mut terminal = Terminal::start(&["tail", ERP], &[("RESEQ_URL", &url)]);
    terminal.shows("reseq: listening").await;
    eventually("a delivery is shown", async || {
        scenario.send("one", json!({"key": "a b"})).await;
        let screen = terminal.screen();
        match screen.contains("accepted") && screen.contains("of key \"a b\"") {
            true => Ok(()),
            false => Err(screen),
        }
    })
    .await;
    assert!(terminal.is_coloured("accepted"), "{}", terminal.screen());
    terminal.types("\u{3}");
    assert_eq!(terminal.ended().await, 0);

    // The limit of Redis's memory is missing, which is a warning.
    let plain = [("RESEQ_URL", url.as_str()), ("NO_COLOR", "1")];
    for (variables, is_coloured) in [(&plain[..1], true), (&plain, false)] {
        let mut terminal = Terminal::start(&["doctor"], variables);
        assert_eq!(terminal.ended().await, 7);
        let raw = terminal.raw();
        assert!(raw.contains("redis_memory"), "{raw:?}");
        assert_eq!(raw.contains('\u{1b}'), is_coloured, "{raw:?}");
    }
}
