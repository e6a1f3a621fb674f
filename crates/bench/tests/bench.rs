//! Small runs of `reseq-bench`: it measures the requested values, and checks order and
//! completeness. The tests do not check the numbers: speed depends on the machine.

use serde_json::Value;
use tokio::process::Command;

/// Runs the bench. Returns its report.
async fn bench(arguments: &[&str]) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_reseq-bench"));
    command.arg("--json").args(arguments).kill_on_drop(true);
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
async fn sparse_case_has_many_destinations_and_says_blocks_per_call() {
    let small = ["--case", "sparse", "--destinations", "20", "--rate", "200", "--seconds", "1"];
    let report = bench(&small).await;
    is_well(&report, 200);
    let settings = &report["settings"];
    assert_eq!((&settings["destinations"], &settings["senders"]), (&20.into(), &3.into()));
    assert_eq!((&settings["in"], &settings["work_min_us"]), (&"http-batch".into(), &5000.into()));
    // Each message needs several calls, and a call has at least one block.
    let calls = &report["redis_calls_per_message"];
    assert!(calls["blocks_per_call"].as_f64() >= Some(0.9), "{report}");
}

#[tokio::test]
async fn each_destination_has_a_jq_expression_of_its_own() {
    let jq = ["--transform", "jq", "--destinations", "5", "--rate", "100", "--seconds", "1"];
    let report = bench(&[&["--case", "sparse"], &jq[..]].concat()).await;
    is_well(&report, 100);
    let settings = &report["settings"];
    assert_eq!((&settings["transform"], &settings["work_max_us"]), (&"jq".into(), &0.into()));
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
async fn idle_it_says_what_redis_and_the_pods_use() {
    let report = bench(&["--idle", "--pods", "2", "--destinations", "2", "--seconds", "1"]).await;
    assert_eq!((&report["partitions"], &report["pods"]), (&64.into(), &2.into()), "{report}");
    assert_eq!(report["all_owned"], true, "{report}");
    for part in ["redis_percent", "redis_main_percent", "redis_alone_percent", "commands_per_s"] {
        assert!(report[part].is_f64(), "{part}: {report}");
    }
    for role in ["ingest", "processor", "sender"] {
        assert!(report["cpu_percent"][role].is_f64(), "{role}: {report}");
    }
    // Senders renew their leases even when nothing is sent.
    assert!(report["scripts_per_s"].as_f64() > Some(0.0), "{report}");
    let commands = report["redis_commands"].as_array().unwrap();
    assert!(commands.iter().any(|command| command["name"] == "evalsha"), "{report}");
    assert_eq!(report["problems"].as_array().map(Vec::len), Some(0), "{report}");
}

#[tokio::test]
async fn senders_that_go_and_come_leave_order_as_it_is() {
    let lanes = ["--failover", "1", "--destinations", "6", "--rate", "60"];
    let report = bench(&[&lanes[..], &["--set", "sender.lease_ms=1000"]].concat()).await;
    assert_eq!((&report["complete"], &report["in_order"]), (&true.into(), &true.into()));
    assert_eq!((&report["senders"], &report["lease_ms"]), (&2.into(), &1000.into()), "{report}");
    assert_eq!(report["delivered"], report["accepted"], "{report}");
    let cases = report["cases"].as_array().unwrap();
    for (case, name, events) in [(0, "killed", 1), (1, "ended", 1), (2, "joined", 2)] {
        let case = &cases[case];
        assert_eq!((&case["case"], &case["events"]), (&name.into(), &events.into()), "{report}");
    }
    // The stopped sender had lanes, so there are gaps.
    for struck in &cases[..2] {
        assert!(struck["lanes"].as_u64() > Some(0), "{report}");
        assert!(struck["gap_max_ms"].as_f64() > Some(0.0), "{report}");
    }
}

#[tokio::test]
async fn messages_and_traces_arrive_with_tokens_tls_and_tracing() {
    // The bench itself fails if ingest accepts other tokens, or if no traces arrive.
    let around = ["--tokens", "--tls", "--traces", "1", "--messages", "200"];
    let http: &[&str] = &["--in", "http", "--out", "http", "--ingest", "2"];
    for ways in [http, &["--in", "tcp", "--out", "tcp"]] {
        let report = bench(&[&around[..], ways].concat()).await;
        is_well(&report, 200);
        let settings = &report["settings"];
        assert_eq!((&settings["tokens"], &settings["tls"]), (&true.into(), &true.into()));
        assert_eq!(settings["traces"], 1.0, "{report}");
    }
}

#[tokio::test]
async fn a_pair_says_what_arguments_cost() {
    let with = ["pairs", "--count", "1", "--with", "--redis-tcp", "--json", "--"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_reseq-bench"));
    command.args(with).args(["--messages", "2000", "--in", "http"]).kill_on_drop(true);
    let output = command.output().await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let comparison = &report["comparisons"][0];
    assert_eq!((&comparison["with"], &report["count"]), (&"--redis-tcp".into(), &1.into()));
    let costs = comparison["costs"].as_array().unwrap();
    let of = |part: &str| costs.iter().find(|cost| cost["part"] == part).unwrap();
    for part in ["ingest", "all pods", "redis", "pods and redis"] {
        assert!(of(part)["without"].as_f64() > Some(0.0), "{part}: {report}");
        assert!(of(part)["ratio"].as_f64() > Some(0.0), "{part}: {report}");
    }
}

#[tokio::test]
async fn producers_are_measured_among_strangers() {
    let arguments = ["--hostile", "2", "--strangers", "60", "--seconds", "1", "--rate", "100"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_reseq-bench"));
    command.args(["--json"]).args(arguments).kill_on_drop(true);
    // Ignore the exit status: it depends on the latencies, and so on the load of this machine.
    let output = command.output().await.unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&report["idle"], &report["slow"]), (&50.into(), &10.into()), "{report}");
    let pairs = report["pairs"].as_array().unwrap();
    assert_eq!(pairs.len(), 2, "{report}");
    for pair in pairs {
        assert_eq!(pair["open"], 60, "{report}");
        assert!(pair["quiet_p99"].as_f64() > Some(0.0), "{report}");
        assert!(pair["hostile_p99"].as_f64() > Some(0.0), "{report}");
    }
    assert_eq!(report["problems"].as_array().map(Vec::len), Some(0), "{report}");
}

#[tokio::test]
async fn what_contradicts_itself_is_refused_with_a_way_out() {
    for (arguments, way_out) in [
        (&["--transform", "none", "--work-max-us", "5"][..], "--transform native"),
        (&["--set", "sender.release_batch_max"], "FIELD=VALUE"),
        (&["--failover", "1", "--senders", "1"], "2 or more"),
        (&["--idle", "--rate", "5"], "cannot be used with"),
        (&["--hostile", "1", "--tls"], "cannot be used with"),
        (&["--traces", "2"], "0 to 1"),
        (&["--pending", "5", "--preload"], "cannot be used with"),
        (&["--reseq", "/nowhere/reseq"], "/nowhere/reseq; run `cargo build --release`"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_reseq-bench"));
        let output = command.args(arguments).output().await.unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && errors.contains(way_out), "{errors}");
    }
}
