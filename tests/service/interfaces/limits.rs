//! Limits of rates, connections and requests, and HTTP/2.

use std::{sync::Arc, time::Duration};

use reqwest::{Certificate, RequestBuilder, Version, header::HeaderMap};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use super::Service;
use crate::support::{
    certificates::Authority,
    pods::{Pod, Settings, client},
    redis::TestRedis,
    wait::{eventually, within},
};

const ADMIN: &str = "an-admin-token-for-the-limits";

/// An answer: its status, its headers, and its JSON.
async fn said(request: RequestBuilder) -> (u16, HeaderMap, Value) {
    let answer = request.send().await.unwrap();
    let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
    (status, headers, answer.json().await.unwrap_or_default())
}

async fn guarded(environment: &[(&str, &str)]) -> Service {
    Service::start_with(|mut settings| {
        let more = environment.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        settings.environment = vec![("RESEQ_AUTH_ADMIN_TOKEN".into(), ADMIN.into())];
        settings.environment.extend(more);
        settings
    })
    .await
}

async fn token(service: &Service, request: Value) -> String {
    let make = client().post(service.pod.url("/v1/tokens")).bearer_auth(ADMIN).json(&request);
    let (status, _, made) = said(make).await;
    assert_eq!(status, 201, "{made}");
    made["token"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn token_and_destination_take_no_more_than_their_rate() {
    let service = guarded(&[]).await;
    let slow = json!({"name": "slow", "scopes": ["ingest"], "rate_per_second_max": 2});
    let (slow, free) = (
        token(&service, slow).await,
        token(&service, json!({"name": "free", "scopes": ["ingest"]})).await,
    );
    let refused = json!({"name": "x", "scopes": ["ingest"], "rate_per_second_max": 1_000_001});
    let make = client().post(service.pod.url("/v1/tokens")).bearer_auth(ADMIN).json(&refused);
    assert_eq!(said(make).await.0, 400);
    let send = |token: &str, name: &str| {
        let path = format!("/v1/destinations/{name}/messages");
        client().post(service.pod.url(&path)).bearer_auth(token).body("x")
    };
    let text = |headers: &HeaderMap, name: &str| -> String {
        headers.get(name).map_or("", |value| value.to_str().unwrap()).to_owned()
    };
    // The third message within a second is refused, even on a slow machine: each costs half a second.
    let begun = std::time::Instant::now();
    let (mut accepted, mut problems) = (0, Vec::new());
    while problems.is_empty() {
        let (status, headers, answer) = said(send(&slow, "erp")).await;
        assert_eq!(text(&headers, "ratelimit-policy"), "\"token\";q=2;w=1", "{answer}");
        assert!(text(&headers, "ratelimit").starts_with("\"token\";r="), "{headers:?}");
        match status {
            202 => accepted += 1,
            _ => problems.push((status, text(&headers, "retry-after"), answer)),
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "{accepted} were accepted");
    }
    let (status, wait, problem) = problems.remove(0);
    assert_eq!((status, &problem["code"]), (429, &json!("rate_limited")), "{problem}");
    assert!(accepted >= 2 && wait == "1", "{accepted} {wait}");
    assert_eq!(said(send(&free, "erp")).await.0, 202, "others are not affected");
    // A batch counts each line. Later requests must wait for all of them.
    let lines = "{\"destinations\": [\"erp\"], \"body\": 1}\n".repeat(20);
    let batch = client().post(service.pod.url("/v1/messages")).bearer_auth(&slow);
    let batch = batch.header("content-type", "application/x-ndjson").body(lines);
    eventually("the batch has its turn", async || {
        let answer = batch.try_clone().unwrap().send().await.unwrap();
        if answer.status() == 202 { Ok(()) } else { Err(answer.status().to_string()) }
    })
    .await;
    let (status, headers, _) = said(send(&slow, "erp")).await;
    let wait: u64 = text(&headers, "retry-after").parse().unwrap();
    assert!(status == 429 && (5..=10).contains(&wait), "{status} {wait}");

    let rate = json!({"url": service.receiver.url(), "ingest_rate_per_second_max": 1});
    let put = client().put(service.pod.url("/v1/destinations/calm")).bearer_auth(ADMIN);
    assert_eq!(said(put.json(&rate)).await.0, 201);
    let mut last = said(send(&free, "calm")).await;
    assert_eq!(text(&last.1, "ratelimit-policy"), "\"destination\";q=1;w=1");
    while last.0 == 202 {
        last = said(send(&free, "calm")).await;
    }
    assert_eq!((last.0, &last.2["code"]), (429, &json!("rate_limited")), "{}", last.2);
    assert!(text(&last.1, "ratelimit").starts_with("\"destination\";r=0;t=1"), "{:?}", last.1);
    // The request counted for the other rate too.
    assert_eq!(said(send(&slow, "calm")).await.0, 429);
}

#[tokio::test]
async fn over_tcp_a_rate_only_slows_the_producer_down() {
    let service = Service::start().await;
    service.define("small", json!({"ingest_rate_per_second_max": 4})).await;
    let mut stream =
        BufReader::new(TcpStream::connect(service.pod.addresses.tcp(2)).await.unwrap());
    stream.write_all(&b"x\n".repeat(10)).await.unwrap();
    for sequence in 1..=10 {
        let mut line = String::new();
        within("a frame is answered", stream.read_line(&mut line)).await.unwrap();
        assert_eq!(line, format!("OK {sequence}\n"));
    }
}

#[tokio::test]
async fn address_and_token_keep_connection_and_request_limits() {
    let service = guarded(&[
        ("RESEQ_HTTP_CONNECTIONS_PER_ADDRESS_MAX", "3"),
        ("RESEQ_INGEST_CONNECTIONS_PER_ADDRESS_MAX", "2"),
        ("RESEQ_AUTH_REQUESTS_PER_TOKEN_MAX", "2"),
    ])
    .await;
    let sender = token(&service, json!({"name": "a", "scopes": ["ingest", "work"]})).await;
    // The token may have at most two TCP connections.
    let connect = async || {
        let mut stream =
            BufReader::new(TcpStream::connect(service.pod.addresses.tcp(0)).await.unwrap());
        let frame = format!("AUTH {sender}\n");
        let _ = stream.write_all(frame.as_bytes()).await;
        let mut line = String::new();
        let _ = within("the frame is answered", stream.read_line(&mut line)).await;
        (stream, line)
    };
    let (first, second) = (connect().await, connect().await);
    assert_eq!((first.1.as_str(), second.1.as_str()), ("OK\n", "OK\n"));
    // The address has reached its limit at this listener, so another connection is closed at once.
    assert_eq!(connect().await.1, "");
    let send = || {
        let path = service.pod.url("/v1/destinations/erp/messages");
        // Each request uses a new connection, which ends with the answer.
        client().post(path).bearer_auth(&sender).header("connection", "close").body("x")
    };
    let (status, _, problem) = said(send()).await;
    assert_eq!((status, &problem["code"]), (429, &json!("too_many_requests")), "{problem}");
    drop(first);
    eventually("a request has its turn", async || {
        let status = said(send()).await.0;
        if status == 202 { Ok(()) } else { Err(status.to_string()) }
    })
    .await;

    let address = service.pod.addresses.http().unwrap();
    let mut open = Vec::new();
    eventually("the address has all its connections", async || {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let head = format!("GET /healthz HTTP/1.1\r\nhost: {address}\r\n\r\n");
        let _ = stream.write_all(head.as_bytes()).await;
        let mut answer = [0; 12];
        match within("an answer or the end", stream.read_exact(&mut answer)).await {
            Ok(_) => {
                open.push(stream);
                Err(format!("{} are open", open.len()))
            }
            Err(_) => Ok(()),
        }
    })
    .await;
    assert_eq!(open.len(), 3);
    open.clear();
    let closed = eventually("connections are free again", async || {
        let path = service.pod.url("/metrics");
        let metrics = client().get(path).bearer_auth(ADMIN).send().await;
        let metrics = metrics.map_err(|error| error.to_string())?.text().await.unwrap();
        let line = metrics.lines().find(|line| line.contains("reason=\"address\""));
        line.and_then(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).ok_or(metrics)
    })
    .await;
    assert!(closed >= 2.0, "{closed}");
}

/// A pod with TLS, and the authority of its certificate.
async fn over_tls(more: &str) -> (TestRedis, Pod, Authority) {
    let (redis, authority) = (TestRedis::start().await, Authority::new("ours"));
    let server = authority.issue("server");
    let mut settings = Settings::new(redis.url());
    settings.http = more.to_owned();
    let file = |path: &std::path::Path| path.to_str().unwrap().to_owned();
    settings.environment = vec![
        ("RESEQ_HTTP_TLS_CERTIFICATE_FILE".into(), file(&server.certificate)),
        ("RESEQ_HTTP_TLS_KEY_FILE".into(), file(&server.key)),
    ];
    let pod = Pod::start_over_tls("over tls", "ingest", &settings, &authority.pem()).await;
    (redis, pod, authority)
}

/// A connection that speaks HTTP/2, and has sent its preface and these settings.
async fn http2(pod: &Pod, authority: &Authority, settings: &[u8]) -> TlsStream<TcpStream> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.pem().as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions().unwrap();
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let stream = TcpStream::connect(pod.addresses.http().unwrap()).await.unwrap();
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
    stream.write_all(&frame(4, 0, 0, settings)).await.unwrap();
    stream
}

/// A frame of HTTP/2 (RFC 9113, section 4.1).
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// `GET <path>` in HPACK, without compression of the path.
fn get(path: &str) -> Vec<u8> {
    // :method GET, :scheme https, :path and :authority as literals with indexed names.
    let mut block = vec![0x82, 0x87, 0x04, path.len() as u8];
    block.extend_from_slice(path.as_bytes());
    block.extend_from_slice(&[0x01, 9]);
    block.extend_from_slice(b"localhost");
    block
}

/// Reads until the connection ends. Returns the kinds of the frames, and the error of the last GOAWAY.
async fn ended(stream: &mut TlsStream<TcpStream>) -> (Vec<u8>, Option<u32>) {
    let (mut kinds, mut error) = (Vec::new(), None);
    let mut head = [0; 9];
    while stream.read_exact(&mut head).await.is_ok() {
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let mut payload = vec![0; length];
        if stream.read_exact(&mut payload).await.is_err() {
            break;
        }
        kinds.push(head[3]);
        if head[3] == 7 {
            error = Some(u32::from_be_bytes(payload[4..8].try_into().unwrap()));
        }
    }
    (kinds, error)
}

#[tokio::test]
async fn http2_serves_many_at_once_and_ends_connections_that_flood() {
    let (_redis, pod, authority) = over_tls("idle_timeout_ms = 3000").await;
    let root = Certificate::from_pem(authority.pem().as_bytes()).unwrap();
    let builder = reqwest::Client::builder().no_proxy().tls_built_in_root_certs(false);
    let client = builder.add_root_certificate(root).build().unwrap();
    let base = format!("https://{}", pod.addresses.http().unwrap());
    let put = client.put(format!("{base}/v1/destinations/erp"));
    let made = put.json(&json!({"url": "http://127.0.0.1:9/"})).send().await.unwrap();
    assert_eq!((made.version(), made.status().as_u16()), (Version::HTTP_2, 201));
    // Sends more requests over one connection than it may have in progress.
    let path = format!("{base}/v1/destinations/erp/messages");
    let sends = (0..200).map(|_| client.post(&path).body("x").send());
    for answer in futures::future::join_all(sends).await {
        let answer = answer.unwrap();
        assert_eq!((answer.version(), answer.status().as_u16()), (Version::HTTP_2, 202));
    }
    let long = client.get(format!("{base}/{}", "a".repeat(9000))).send().await.unwrap();
    assert_eq!(long.status(), 414);

    // Rapid resets: each request is reset before it is answered.
    let mut stream = http2(&pod, &authority, &[]).await;
    let flood = async {
        for number in 0..20_000u32 {
            let id = number * 2 + 1;
            let both = [frame(1, 5, id, &get("/healthz")), frame(3, 0, id, &[0, 0, 0, 8])].concat();
            if stream.write_all(&both).await.is_err() {
                return;
            }
        }
        let _ = stream.flush().await;
    };
    within("the flood ends", flood).await;
    let (_, error) = within("a flood of resets ends the connection", ended(&mut stream)).await;
    // The error is ENHANCE_YOUR_CALM. It is missing if the reset that follows it was faster.
    assert!(error.is_none_or(|error| error == 11), "{error:?}");

    // A head that never ends.
    let mut stream = http2(&pod, &authority, &[]).await;
    let flood = async {
        let _ = stream.write_all(&frame(1, 1, 1, &get("/healthz"))).await;
        for _ in 0..20_000 {
            let header = [&[0x00, 1, b'x', 100][..], &[b'y'; 100]].concat();
            if stream.write_all(&frame(9, 0, 1, &header)).await.is_err() {
                return;
            }
        }
        let _ = stream.flush().await;
    };
    within("the flood ends", flood).await;
    within("a flood of continuations ends the connection", ended(&mut stream)).await;

    // The pod closes a connection whose client gives no room for the answer.
    let mut stream = http2(&pod, &authority, &[0, 4, 0, 0, 0, 0]).await;
    stream.write_all(&frame(1, 5, 1, &get("/openapi.json"))).await.unwrap();
    stream.flush().await.unwrap();
    within("a client that does not read is cut off", ended(&mut stream)).await;
    let again = client.post(&path).body("x").send().await.unwrap();
    assert_eq!(again.status(), 202);
}
