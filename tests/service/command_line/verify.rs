//! Tests `reseq verify` with real deliveries.

use std::{fs, path::Path};

use serde_json::{Value, json};

use crate::{
    policies::scenario::{ERP, Scenario},
    support::wait::eventually,
};

impl Scenario {
    /// The accepted deliveries, as lines of a journal.
    fn journal(&self) -> Vec<Value> {
        let taken = self.receiver.taken.lock().unwrap();
        let line = |headers: &std::collections::HashMap<String, String>| {
            let text = |name: &str| headers.get(name).cloned();
            let number = |name: &str| text(name).unwrap().parse::<u64>().unwrap();
            json!({"destination": text("reseq-destination"), "key": text("reseq-key"),
                "epoch": number("reseq-epoch"), "sequence": number("reseq-sequence"),
                "id": text("reseq-id"), "more": "is ignored"})
        };
        taken.iter().map(|taken| line(&taken.headers)).collect()
    }
}

fn write(path: &Path, lines: &[Value]) {
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    fs::write(path, text).unwrap();
}

#[tokio::test]
async fn the_order_is_proven_and_each_violation_is_found() {
    let scenario = Scenario::start(json!({"ordering": "key"})).await;
    for n in 0..8 {
        scenario
            .send(&format!("m{n}"), json!({"key": if n % 2 == 0 { "even" } else { "odd" }}))
            .await;
    }
    scenario.until("all are delivered", |stats| stats["delivered_total"] == 8).await;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal");
    let file = path.to_str().unwrap();
    let verify = ["verify", ERP, "--journal", file];
    let good: Vec<Value> = scenario.journal();
    assert_eq!(good.len(), 8);

    let with_repeat = [
        &good[..],
        &good[6..7],
        &[json!({"destination": "other", "epoch": 1,
        "sequence": 99})],
    ]
    .concat();
    write(&path, &with_repeat);
    let report = scenario.json(&verify, 0).await;
    for (field, value) in [
        ("ok", json!(true)),
        ("complete", json!(true)),
        ("lanes", json!(2)),
        ("journal_messages", json!(8)),
        ("repeats", json!(1)),
        ("log_delivered", json!(8)),
    ] {
        assert_eq!(report[field], value, "{field}: {report}");
    }
    let text = scenario.command(&verify).await.ended(0);
    assert!(text.contains("The order held in every lane."), "{text}");
    assert!(text.contains("9 lines: 8 messages, 1 repeat (allowed)"), "{text}");

    // Two messages of one lane change places.
    let of_lane: Vec<usize> =
        (0..8).filter(|at| good[*at]["key"] == good[0]["key"]).take(2).collect();
    let mut swapped = good.clone();
    swapped.swap(of_lane[0], of_lane[1]);
    let mut unknown = good.clone();
    let epoch = &good[0]["epoch"];
    unknown
        .push(json!({"destination": ERP, "key": "odd", "epoch": epoch, "sequence": 99, "id": "x"}));
    let mut other_id = good.clone();
    other_id[3]["id"] = json!("another");
    for (kind, lines, sequence) in [
        ("reordered", swapped, good[of_lane[0]]["sequence"].clone()),
        ("missing", good[1..].to_vec(), good[0]["sequence"].clone()),
        ("unknown", unknown, json!(99)),
        ("different", other_id, good[3]["sequence"].clone()),
    ] {
        write(&path, &lines);
        let report = scenario.json(&verify, 8).await;
        assert_eq!(report["counts"], json!({kind: 1}), "{report}");
        assert_eq!(report["violations"][0]["sequence"], sequence, "{report}");
        let text = scenario.command(&verify).await.ended(8);
        assert!(text.contains("This is not what Reseq promises."), "{text}");
        assert!(text.contains(&format!("! message {sequence} of key")), "{text}");
    }
    // A journal that begins later, and whose last line is incomplete.
    let lines: String = good[4..].iter().map(|line| format!("{line}\n")).collect();
    let from = good[4..].iter().map(|line| line["sequence"].as_u64().unwrap()).min().unwrap();
    let before = good[..4].iter().map(|line| line["sequence"].as_u64().unwrap()).max().unwrap();
    fs::write(&path, lines + "{\"destination\":\"er").unwrap();
    let text = scenario.command(&verify).await.ended(8);
    assert!(text.contains("--from-sequence"), "{text}");
    let from = from.max(before + 1).to_string();
    let later = [&verify[..], &["--from-sequence", &from]].concat();
    let text = scenario.command(&later).await.ended(0);
    assert!(text.contains("The last line of the journal is incomplete"), "{text}");
    fs::write(&path, "no json\n{}\n").unwrap();
    scenario.command(&verify).await.failed(1, "line 1");
    scenario.command(&["verify", ERP, "--journal", "/nonexistent"]).await.failed(1, "--journal");

    // Pending messages are not a violation. Without a log, the command can prove little.
    scenario.define("quiet", json!({"log_max": 0})).await;
    write(
        &path,
        &[
            json!({"epoch": good[0]["epoch"], "sequence": 1}),
            json!({"epoch": good[0]["epoch"], "sequence": 2}),
        ],
    );
    let item = json!({"destinations": ["quiet"], "body": 1});
    for _ in 0..2 {
        scenario.ok("POST", "/v1/messages", item.clone()).await;
    }
    eventually("both are delivered", async || {
        let stats = scenario.ok("GET", "/v1/destinations/quiet/stats", Value::Null).await;
        if stats["delivered_total"] == 2 { Ok(()) } else { Err(stats.to_string()) }
    })
    .await;
    let quiet = ["verify", "quiet", "--journal", file];
    let text = scenario.command(&quiet).await.ended(0);
    assert!(text.contains("Without a log"), "{text}");
    assert_eq!(scenario.json(&quiet, 0).await["complete"], false);
}
