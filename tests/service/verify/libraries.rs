//! Tests Reseq with public signature libraries: each accepts only requests that the other has signed.

use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::{BASE64_STANDARD, Headers, STANDARD, is_problem, now, path, position, said};
use crate::{
    common,
    support::{
        pods::{Pod, Settings, client},
        redis::TestRedis,
        source::root,
        wait::within,
    },
};
use base64::Engine;
use ring::signature::{Ed25519KeyPair, KeyPair};

/// The exit code of the script if the libraries are missing and cannot be installed.
const NOT_INSTALLED: i32 = 75;

/// Runs `tests/webhooks/webhooks.py`. `None` if its libraries cannot be installed here.
async fn python(tasks: Value) -> Option<Vec<Value>> {
    let run = move || {
        let made =
            Command::new(root().join("scripts/python-env.sh")).arg("webhooks").output().unwrap();
        if made.status.code() == Some(NOT_INSTALLED) {
            eprintln!("NOT RUN: {}", String::from_utf8_lossy(&made.stderr));
            return None;
        }
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let home = String::from_utf8(made.stdout).unwrap();
        let mut python = Command::new(format!("{}/bin/python", home.trim_end()));
        python.arg(root().join("tests/webhooks/webhooks.py"));
        python.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = python.spawn().unwrap();
        let stdin = child.stdin.take().unwrap();
        serde_json::to_writer(stdin, &tasks).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
        Some(serde_json::from_slice(&output.stdout).unwrap())
    };
    tokio::task::spawn_blocking(run).await.unwrap()
}

#[tokio::test]
async fn reseq_and_the_libraries_verify_each_other() {
    let pair = Ed25519KeyPair::from_seed_unchecked(&[7; 32]).unwrap();
    let private = format!("whsk_{}", BASE64_STANDARD.encode([7; 32]));
    let public = format!("whpk_{}", BASE64_STANDARD.encode(pair.public_key()));
    let body = r#"{"test": "ünïcode", "n": 1.0}"#;
    let time = now().to_string();
    let of = |id: &str, time: &str| json!({"webhook-id": id, "webhook-timestamp": time});
    let sign = |secret: &str, id: &str| json!({"do": "sign", "secret": secret, "headers": of(id, &time), "body": body});
    let Some(signatures) = python(json!([sign(STANDARD, "msg_1"), sign(&private, "msg_2")])).await
    else {
        return;
    };

    // Reseq accepts the libraries' signatures, and signs the deliveries to a second Reseq itself.
    let redis = TestRedis::start().await;
    let mut receiver = common::receiver(|| "").await;
    let last = Settings::new(redis.url()).destination(
        "last",
        &format!(
            "url = \"{}\"\nordering = \"key\"\nverify = {{ kind = \"standard_webhooks\", secrets = [\"{STANDARD}\"] }}\n\
             sign = {{ secrets = [\"{STANDARD}\", \"{private}\"] }}",
            receiver.url()
        ),
    );
    let mut last = last;
    last.redis = "prefix = \"last\"".into();
    let last = Pod::start("last", "ingest,processor,sender", &last).await;
    let first = Settings::new(redis.url()).destination(
        "first",
        &format!(
            "url = \"{}\"\nordering = \"key\"\nkey_from = {{ jq = \".test\" }}\n\
             verify = {{ kind = \"standard_webhooks\", secrets = [\"{STANDARD}\", \"{public}\"] }}\n\
             sign = {{ secrets = [\"{STANDARD}\"] }}",
            last.url(&path("last"))
        ),
    );
    let first = Pod::start("first", "ingest,processor,sender", &first).await;
    let send = |headers: &Headers, body: &'static str| {
        let request = client().post(first.url(&path("first"))).body(body);
        said(headers.iter().fold(request, |request, (name, value)| request.header(*name, value)))
    };
    for (number, (id, signature)) in ["msg_1", "msg_2"].into_iter().zip(&signatures).enumerate() {
        let headers = vec![
            ("webhook-id", id.to_owned()),
            ("webhook-timestamp", time.clone()),
            ("webhook-signature", signature.as_str().unwrap().to_owned()),
        ];
        is_problem(&send(&headers, "{}").await, 401, "invalid_signature", "no secret");
        let said = send(&headers, body).await;
        assert_eq!(position(&said), (number as u64 + 1, false));
    }

    // The libraries accept the deliveries of the second Reseq, and refuse changed ones.
    let mut tasks = Vec::new();
    for sequence in ["1", "2"] {
        let seen = within("it is delivered", receiver.seen.recv()).await.unwrap();
        // The second Reseq uses the key found by the first one, because it is signed.
        assert_eq!(seen.headers["reseq-key"], "%C3%BCn%C3%AFcode");
        assert_eq!((&*seen.headers["reseq-sequence"], &*seen.body), (sequence, body.as_bytes()));
        let mut headers = json!(seen.headers);
        for secret in [STANDARD, &public] {
            let task = |headers: &Value, body: &str| json!({"do": "verify", "secret": secret, "headers": headers, "body": body});
            tasks.push(task(&headers, body));
            tasks.push(task(&headers, "{}"));
        }
        headers["webhook-id"] = json!("msg_other");
        tasks.push(json!({"do": "verify", "secret": STANDARD, "headers": headers, "body": body}));
    }
    let verdicts = python(json!(tasks)).await.unwrap();
    for verdicts in verdicts.chunks(5) {
        let accepted: Vec<bool> = verdicts.iter().map(Value::is_null).collect();
        assert_eq!(accepted, [true, false, true, false, false], "{verdicts:?}");
    }
}
