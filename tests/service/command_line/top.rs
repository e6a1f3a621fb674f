//! `reseq top`, in a real pseudo-terminal.

use serde_json::json;

use super::terminal::Terminal;
use crate::policies::scenario::{ERP, Scenario};

#[tokio::test]
async fn top_shows_what_is_stuck_its_lane_and_restores_terminal() {
    let scenario =
        Scenario::start(json!({"ordering": "key", "transform": {"kind": "worker"}})).await;
    scenario.define("calm", json!({})).await;
    for n in 0..6 {
        scenario.send(&format!("m{n}"), json!({"key": if n < 4 { "a b" } else { "c" }})).await;
    }
    let lease = scenario.lease(json!({})).await;
    scenario.end("fail", &lease, json!({"error": "cannot read this", "final": true})).await;
    let url = scenario.pod.url("");
    let variables = [("RESEQ_URL", url.as_str())];

    let mut terminal = Terminal::start(&["top"], &variables);
    let screen = terminal.shows("! erp").await;
    for part in ["reseq top", "halted 1", "calm", "enter lane", "Hw"] {
        assert!(screen.contains(part), "{part:?} is missing:\n{screen}");
    }
    assert!(terminal.is_full_screen() && !terminal.is_restored());
    assert!(terminal.is_coloured("! erp"), "what is stuck is red");
    // The stuck destination is first, so it is selected.
    terminal.types("\r");
    let screen = terminal.shows("cannot read this").await;
    for part in ["lane of erp, key \"a b\"", "1H", "2w", "reseq lanes retry erp", "t tombstone"] {
        assert!(screen.contains(part), "{part:?} is missing:\n{screen}");
    }
    // The display is live: the lane continues.
    scenario
        .command(&["skip-head", ERP, "--key", "a b", "--sequence", "1", "--yes"])
        .await
        .ended(0);
    terminal.shows("waits for a worker").await;
    terminal.types("p");
    terminal.shows("ingest,processor,sender").await;
    terminal.types("?");
    terminal.shows("show the pods").await;
    terminal.types(" \u{1b}");
    terminal.shows("stuck ones first").await;
    terminal.types("q");
    assert_eq!(terminal.ended().await, 0);
    assert!(terminal.is_restored(), "{}", terminal.raw());

    // After a signal, the command restores the terminal. After a panic too.
    let mut terminal = Terminal::start(&["top"], &variables);
    terminal.shows("reseq top").await;
    terminal.signal(libc::SIGTERM);
    assert_eq!(terminal.ended().await, 0);
    assert!(terminal.is_restored(), "{}", terminal.raw());
    let panics = [variables[0], ("RESEQ_TOP_PANICS", "1")];
    let mut terminal = Terminal::start(&["top"], &panics);
    assert_ne!(terminal.ended().await, 0);
    assert!(terminal.is_restored(), "{}", terminal.raw());
    assert!(terminal.raw().contains("planted"), "{}", terminal.raw());

    // Without colours, letters show the states. Without a terminal, the command reports that.
    let plain = [variables[0], ("NO_COLOR", "1")];
    let mut terminal = Terminal::start(&["top"], &plain);
    terminal.shows("calm").await;
    assert!(!terminal.is_coloured("erp"));
    terminal.types("q");
    terminal.ended().await;
    scenario.command(&["top"]).await.failed(1, "needs a terminal");
}
