//! Tests bodies that producers compress (`Content-Encoding`).

use std::io::Write;

use base64::{Engine, prelude::BASE64_STANDARD};
use flate2::{
    Compression,
    write::{DeflateEncoder, GzEncoder, ZlibEncoder},
};
use serde_json::{Value, json};

use crate::policies::scenario::{ERP, Scenario};

fn gzip(plain: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(plain).unwrap();
    encoder.finish().unwrap()
}

/// A message whose JSON body has this encoding.
fn encoded(encoding: &str, body: &[u8]) -> Value {
    json!({"destinations": [ERP], "body_base64": BASE64_STANDARD.encode(body),
        "content_type": "application/json", "headers": {"content-encoding": encoding}})
}

#[tokio::test]
async fn an_encoding_travels_with_its_body_and_not_with_an_output() {
    let scenario = Scenario::start(json!({})).await;
    let body = gzip(b"{\"order\":7}");
    let request = crate::support::pods::client()
        .post(scenario.pod.url("/v1/destinations/erp/messages"))
        .header("content-encoding", "gzip")
        .body(body.clone());
    assert_eq!(request.send().await.unwrap().status(), 202);
    scenario.is_drained().await;
    assert_eq!(scenario.receiver.header(0, "content-encoding"), "gzip");

    // Reseq forwards a body with an unknown encoding if it does not need to read the body.
    scenario.ok("POST", "/v1/messages", encoded("zstd", b"\x28\xb5\x2f\xfd")).await;
    scenario.is_drained().await;
    assert_eq!(scenario.receiver.header(1, "content-encoding"), "zstd");

    scenario
        .define(ERP, json!({"transform": {"kind": "worker"}, "log_max": 9, "log_bodies": true}))
        .await;
    for _ in 0..2 {
        scenario.ok("POST", "/v1/messages", encoded("gzip", &body)).await;
    }
    let leases = scenario.lease(json!({"max": 2})).await;
    assert_eq!(leases[0]["headers"], json!({"content-encoding": "gzip"}));
    assert_eq!(leases[0]["body_base64"], BASE64_STANDARD.encode(&body));
    scenario.end("complete", &leases[..1], json!({"body": 7})).await;
    let unchanged =
        json!({"body_base64": leases[1]["body_base64"], "content_type": "application/json"});
    scenario.end("complete", &leases[1..], unchanged).await;
    scenario.is_drained().await;
    assert_eq!(scenario.receiver.header(2, "content-encoding"), "", "the output is not encoded");
    assert_eq!(scenario.receiver.header(3, "content-encoding"), "gzip", "it is the same body");

    // A replay sends the body as it arrived, so it is encoded.
    scenario.steer("replay", json!({"from_sequence": 3, "to_sequence": 3})).await;
    let again = scenario.lease(json!({"wait_ms": 20_000})).await;
    assert_eq!(again[0]["headers"]["content-encoding"], "gzip", "{}", again[0]);
    assert_eq!(again[0]["body_base64"], BASE64_STANDARD.encode(&body));
}

#[tokio::test]
async fn expressions_read_encoded_bodies_or_they_are_refused() {
    let scenario = Scenario::start(json!({})).await;
    scenario
        .define(
            ERP,
            json!({"ordering": "key", "key_from": {"jq": ".order"},
                "transform": {"kind": "jq", "expression": "{order, encoding: $headers[\"content-encoding\"]}"}}),
        )
        .await;
    let plain = b"{\"order\":\"7\"}";
    let (mut zlib, mut raw) = (
        ZlibEncoder::new(Vec::new(), Compression::fast()),
        DeflateEncoder::new(Vec::new(), Compression::fast()),
    );
    zlib.write_all(plain).unwrap();
    raw.write_all(plain).unwrap();
    let brotli = b"\x0b\x06\x80{\"order\":\"7\"}\x03";
    let all: [(&str, Vec<u8>); 5] = [
        ("GZIP", gzip(plain)),
        ("deflate", zlib.finish().unwrap()),
        ("deflate", raw.finish().unwrap()),
        ("br", brotli.to_vec()),
        ("identity", plain.to_vec()),
    ];
    for (encoding, body) in &all {
        scenario.ok("POST", "/v1/messages", encoded(encoding, body)).await;
    }
    scenario.is_drained().await;
    let bodies: Vec<String> = all
        .iter()
        .map(|(encoding, _)| format!("{{\"order\":\"7\",\"encoding\":\"{encoding}\"}}"))
        .collect();
    assert_eq!(scenario.receiver.bodies(), bodies);
    for at in 0..all.len() {
        assert_eq!(scenario.receiver.header(at, "content-encoding"), "");
        assert_eq!(scenario.receiver.header(at, "reseq-key"), "7");
    }
    for encoding in ["zstd", "gzip, br"] {
        let (status, problem) =
            scenario.ask("POST", "/v1/messages", encoded(encoding, plain)).await;
        let code = &problem["code"];
        assert_eq!((status, code), (415, &json!("unsupported_media_type")), "{problem}");
        assert!(problem["detail"].as_str().unwrap().contains(encoding), "{problem}");
    }
    // A body longer than http.body_bytes_max after decoding, and a body that is not gzip.
    for body in [gzip(&vec![b' '; 2 << 20]), b"no gzip".to_vec()] {
        let (status, problem) = scenario.ask("POST", "/v1/messages", encoded("gzip", &body)).await;
        assert_eq!((status, &problem["code"]), (422, &json!("no_key")), "{problem}");
    }
    let many = client_encoded(&scenario).await;
    assert_eq!(many, 415);
}

/// Sends a whole batch with an encoding. Returns the status.
async fn client_encoded(scenario: &Scenario) -> u16 {
    let request = crate::support::pods::client()
        .post(scenario.pod.url("/v1/messages"))
        .header("content-type", "application/x-ndjson")
        .header("content-encoding", "gzip")
        .body(gzip(b"{}"));
    request.send().await.unwrap().status().as_u16()
}
