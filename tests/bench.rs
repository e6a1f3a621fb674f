//! `reseq bench` in small: it measures what it was asked to, and sees order and completeness. What
//! it measures is not judged: speed depends on the machine.

use serde_json::Value;
use tokio::process::Command;

/// Runs the bench; returns its report.
async fn bench(arguments: &[&str]) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_reseq"));
    command.args(["bench", "--json"]).args(arguments).kill_on_drop(true);
    let output = command.output().await.unwrap();
    let (text, errors) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}: {errors}{text}", output.status);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 1, "{text}");
    serde_json::from_str(lines[0]).unwrap()
}

fn is_well(report: &Value, messages: u64) {
    assert_eq!(report["complete"], true, "{report}");
    assert_eq!(report["in_order"], true, "{report}");
    assert_eq!((&report["delivered"], &report["accepted"]), (&messages.into(), &messages.into()));
    assert_eq!(report["foreign"], 0, "{report}");
}

#[tokio::test]
async fn over_tcp_with_work_the_report_has_all_its_parts() {
    let lanes = ["--messages", "200", "--destinations", "3", "--warm-up", "20"];
    let work = ["--work-min-us", "100", "--work-max-us", "5000", "--seed", "7"];
    let report = bench(&[&lanes[..], &work[..]].concat()).await;
    is_well(&report, 200);
    for quantiles in ["latency_us", "overhead_us"] {
        for quantile in ["p50", "p99", "p99_9", "max"] {
            assert!(report[quantiles][quantile].is_f64(), "{quantiles} {quantile}: {report}");
        }
    }
    for role in ["redis", "ingest", "processor", "sender", "bench"] {
        assert!(report["cpu_us_per_message"][role].is_f64(), "{role}: {report}");
    }
    assert!(report["messages_per_s"].as_f64() > Some(0.0), "{report}");
    assert!(report["redis_calls_per_message"]["scripts"].as_f64() > Some(0.0), "{report}");
    let commands = report["redis_commands"].as_array().unwrap();
    assert!((1..=12).contains(&commands.len()), "{report}");
    assert!(report["limit"].is_string(), "{report}");
}

#[tokio::test]
async fn in_batches_on_keys_with_two_of_each_role() {
    let ways = ["--in", "http-batch", "--out", "http-batch", "--batch", "16"];
    let lanes = ["--messages", "200", "--ordering", "key", "--keys", "10", "--destinations", "2"];
    let pods = ["--ingest", "2", "--processors", "2", "--senders", "2", "--idempotency-keys"];
    is_well(&bench(&[&ways[..], &lanes[..], &pods[..]].concat()).await, 200);
}

#[tokio::test]
async fn preloaded_each_by_itself_over_http_without_order() {
    let ways = ["--in", "http", "--out", "http", "--transform", "none", "--ordering", "none"];
    let report = bench(&[&ways[..], &["--messages", "200", "--preload"]].concat()).await;
    is_well(&report, 200);
    assert_eq!(report["preload"]["waiting"], 200, "{report}");
    assert!(report["preload"]["memory_bytes_per_message"].is_f64(), "{report}");
}

#[tokio::test]
async fn a_ramp_is_drawn() {
    let directory = tempfile::tempdir().unwrap();
    let picture = directory.path().join("new/ramp.svg");
    let file = picture.to_str().unwrap();
    let ramp = ["--messages", "200", "--ramp", "1,2", "--ramp-seconds", "1", "--svg", file];
    let report = bench(&[&ramp[..], &["--set", "destination.delivery.lanes_max=8"]].concat()).await;
    is_well(&report, 200);
    assert_eq!(report["ramp"].as_array().map(Vec::len), Some(2), "{report}");
    let drawn = std::fs::read_to_string(&picture).unwrap();
    assert!(drawn.starts_with("<svg") && drawn.contains("messages/s"), "{drawn}");
}

#[tokio::test]
async fn what_contradicts_itself_is_refused_with_a_way_out() {
    for (arguments, way_out) in [
        (&["--keys", "2"][..], "--in http-batch"),
        (&["--transform", "none", "--work-max-us", "5"], "--transform native"),
        (&["--set", "sender.run_max"], "FIELD=VALUE"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_reseq"));
        let output = command.arg("bench").args(arguments).output().await.unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && errors.contains(way_out), "{errors}");
    }
}
