//! Tests the HTTP API against its OpenAPI document: schemathesis sends thousands of requests,
//! valid and invalid, and checks each answer.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    process::Command,
};

use serde_json::Value;

use crate::support::{
    pods::{Pod, Settings, client},
    redis::TestRedis,
    source::root,
};

/// The exit code of the script if schemathesis is missing and cannot be installed.
const NOT_INSTALLED: i32 = 75;
/// Requests for each operation and kind of data.
const CASES: &str = "10";

#[tokio::test(flavor = "multi_thread")]
async fn every_answer_is_as_the_document_says() {
    let redis = TestRedis::start().await;
    let mut settings = Settings::new(redis.url());
    // The run creates tokens. Without this, other calls would then need a token.
    settings.environment = vec![("RESEQ_AUTH_MODE".into(), "none".into())];
    let pod = Pod::start("reseq", "ingest,processor,sender", &settings).await;
    let document = pod.url("/openapi.json");
    let parsed: Value = client().get(&document).send().await.unwrap().json().await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let calls = dir.path().join("calls");
    let mut command = Command::new(root().join("scripts/schemathesis.sh"));
    command.current_dir(dir.path());
    command.env("RESEQ_URL", pod.url("")).env("RESEQ_CALLS", &calls);
    command.env("SCHEMATHESIS_HOOKS", "hooks");
    command.env("PYTHONPATH", root().join("tests/schemathesis"));
    command.arg("--config-file").arg(root().join("tests/schemathesis/schemathesis.toml"));
    command.args(["run", &document, "--seed", "1", "--max-examples", CASES]);
    command.args(["--phases", "examples,coverage,fuzzing", "--no-color", "--continue-on-failure"]);
    command.args(["--checks", CHECKS, "--suppress-health-check", "all", "--warnings", "off"]);
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(NOT_INSTALLED) {
        eprintln!("NOT RUN: schemathesis cannot be installed here\n{errors}");
        return;
    }
    assert!(output.status.success(), "{text}\n{errors}");

    // Each operation was called, and answered 2xx at least once.
    let mut by_operation: BTreeMap<String, BTreeSet<u16>> = BTreeMap::new();
    let calls = fs::read_to_string(calls).unwrap();
    for (operation, status) in calls.lines().filter_map(|line| line.split_once(' ')) {
        let status = status.parse().unwrap();
        by_operation.entry(operation.to_owned()).or_default().insert(status);
    }
    // Schemathesis itself reads the document.
    for operation in operations(&parsed).into_iter().filter(|one| one != "openapi") {
        let statuses = by_operation.get(&operation);
        let succeeded = statuses.is_some_and(|all| all.iter().any(|one| (200..300).contains(one)));
        assert!(succeeded, "{operation} was answered with {statuses:?}");
    }
    let count = calls.lines().count();
    assert!(count >= 2000, "only {count} calls");
}

/// The checks of each answer. Schemas cannot express all invalid data (such as a range in a
/// header), so refusing data that they allow is not a failure.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
                      response_headers_conformance,response_schema_conformance,negative_data_rejection,\
                      unsupported_method";

/// The ids of the operations of a document.
fn operations(document: &Value) -> Vec<String> {
    let paths = document["paths"].as_object().unwrap().values();
    let operations = paths.flat_map(|path| path.as_object().unwrap().values());
    operations.filter_map(|one| Some(one["operationId"].as_str()?.to_owned())).collect()
}
