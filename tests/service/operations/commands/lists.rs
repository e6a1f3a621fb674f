//! Tests the filters of lists, which have the same names in all commands.

use serde_json::{Value, json};

use super::Service;

/// Filters that every message here passes.
const RANGE: [&str; 8] = [
    "--from-sequence",
    "1",
    "--to-sequence",
    "9",
    "--from-time",
    "2020-01-01T00:00:00Z",
    "--to-time",
    "2120-01-01T00:00:00Z",
];

impl Service {
    /// The sequences that a list prints.
    async fn sequences(&self, command: &[&str], filter: &[&str]) -> Vec<u64> {
        let json = &["-o", "json"][..];
        let page = self.said(&[command, &["crm"], filter, json].concat()).await;
        let page: Value = serde_json::from_str(&page).unwrap();
        super::super::each(&page, "sequence").iter().map(|one| one.as_u64().unwrap()).collect()
    }
}

#[tokio::test]
async fn list_goes_on_over_pages_without_a_match() {
    let service = Service::start().await;
    service.define_worker("crm", "destination").await;
    for n in 1..=60 {
        service.send("crm", json!(n), json!({})).await;
    }
    let leases = service.lease("crm", 60).await;
    service.fail(leases.last().unwrap(), "broken pipe", false).await;
    // With this limit, one answer is about 50 messages.
    let list = ["messages", "list", "crm", "--limit", "1", "--error"];
    let found = service.sequences(&list[..2], &["--limit", "1", "--error", "pipe"]).await;
    assert_eq!(found, [60]);
    assert_eq!(service.said(&[&list[..], &["other"]].concat()).await, "none");
}

#[tokio::test]
async fn lists_are_filtered_by_the_same_options() {
    let service = Service::start().await;
    service.define_worker("crm", "key").await;
    for n in 1..=4 {
        let key = if n % 2 == 0 { "even" } else { "odd" };
        service.send("crm", json!(n), json!({"key": key})).await;
    }
    service.halt_next("crm", "broken pipe").await;
    let messages = ["messages", "list"];
    for (filter, found) in [
        (&RANGE[..], vec![1, 2, 3, 4]),
        (&["--key", "even"], vec![2, 4]),
        (&["--state", "halted"], vec![1]),
        (&["--error", "pipe"], vec![1]),
        (&["--error", "other"], vec![]),
        (&["--from-sequence", "3"], vec![3, 4]),
        (&["--to-sequence", "2"], vec![1, 2]),
        (&["--from-time", "2120-01-01T00:00:00Z"], vec![]),
    ] {
        let mut sequences = service.sequences(&messages, filter).await;
        sequences.sort_unstable();
        assert_eq!(sequences, found, "{filter:?}");
    }
    let skip = ["skip-head", "crm", "--key", "odd", "--sequence", "1", "--yes"];
    service.run(&skip).await.ended(0);
    service.hand("crm").await.deliver(Some("odd")).await;
    for (filter, found) in [
        (&RANGE[..], vec![1]),
        (&["--key", "odd", "--stage", "transform", "--error", "by hand"], vec![1]),
        (&["--stage", "delivery"], vec![]),
        (&["--from-sequence", "2"], vec![]),
    ] {
        assert_eq!(service.sequences(&["dead-letters", "list"], filter).await, found, "{filter:?}");
        let counted = [&["dead-letters", "redrive", "crm", "--dry-run"][..], filter].concat();
        let would = format!("{} would be enqueued again", found.len());
        assert_eq!(service.said(&counted).await, would, "{filter:?}");
    }
    for (filter, found) in [
        (&RANGE[..], vec![1]),
        (&["--state", "dead_lettered", "--key", "odd"], vec![1]),
        (&["--state", "delivered"], vec![]),
        (&["--to-time", "2020-01-01T00:00:00Z"], vec![]),
    ] {
        assert_eq!(service.sequences(&["log"], filter).await, found, "{filter:?}");
    }
    for wrong in [
        &["messages", "list", "crm", "--state", "halt"][..],
        &["messages", "list", "crm", "--limit", "0"],
        &["dead-letters", "list", "crm", "--stage", "ingest"],
        &["log", "crm", "--from-sequence", "x"],
        &["replay", "crm", "--to-sequence", "1"],
    ] {
        service.run(wrong).await.ended(2);
    }
    service.run(&["log", "crm", "--from-time", "today"]).await.failed(3, "from_time");
}
