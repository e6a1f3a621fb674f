//! Tests that callers without a credential cannot keep out callers with one, and that one token
//! cannot take all shared resources.

use reqwest::{Method, RequestBuilder, header};
use serde_json::{Value, json};
use support::{
    pods::{Pod, Settings, client},
    redis::TestRedis,
    wait::{eventually, within},
};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
};

use crate::support;

const ADMIN: &str = "an-admin-token-from-the-environment";

struct Guarded {
    pod: Pod,
    _redis: TestRedis,
}

impl Guarded {
    /// A pod that requires tokens, with a destination for workers, one for consumers, and one
    /// that verifies signatures.
    async fn start(http: &str, ingest: &str) -> Guarded {
        let redis = TestRedis::start().await;
        let of_workers = "url = \"http://127.0.0.1:9/\"\ntransform = { kind = \"worker\" }";
        let signed = "url = \"http://127.0.0.1:9/\"\nverify = { kind = \"github\", secrets = [\"a-secret-of-the-sender\"] }";
        let mut settings = Settings::new(redis.url())
            .destination("erp", of_workers)
            .destination("pulled", "delivery = { kind = \"pull\" }")
            .destination("signed", signed);
        (settings.http, settings.ingest) = (http.into(), ingest.into());
        settings.tcp = vec![("erp", "lines")];
        settings.environment = vec![("RESEQ_AUTH_ADMIN_TOKEN".into(), ADMIN.into())];
        let pod = Pod::start("guarded", "ingest,processor,sender", &settings).await;
        Guarded { pod, _redis: redis }
    }

    fn ask(&self, token: &str, method: Method, path: &str) -> RequestBuilder {
        client().request(method, self.pod.url(path)).bearer_auth(token)
    }

    /// A new token, and its path.
    async fn token(&self, scopes: &[&str]) -> (String, String) {
        let request = self.ask(ADMIN, Method::POST, "/v1/tokens");
        let made = request.json(&json!({"name": "x", "scopes": scopes})).send().await.unwrap();
        let made: Value = made.json().await.unwrap();
        let word = |field: &str| made[field].as_str().unwrap().to_owned();
        (word("token"), format!("/v1/tokens/{}", word("id")))
    }

    async fn http(&self, bytes: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.pod.addresses.http().unwrap()).await.unwrap();
        stream.write_all(bytes.as_bytes()).await.unwrap();
        stream
    }

    async fn tcp(&self) -> TcpStream {
        TcpStream::connect(self.pod.addresses.tcp(0)).await.unwrap()
    }
}

async fn status(request: RequestBuilder) -> u16 {
    within("an answer", request.send()).await.unwrap().status().as_u16()
}

/// Reads all input until the pod closes the connection.
async fn rest(stream: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    let _ = within("the connection is closed", stream.read_to_end(&mut answer)).await;
    String::from_utf8_lossy(&answer).into_owned()
}

/// Reads the first line.
async fn line(stream: &mut TcpStream) -> String {
    let mut line = String::new();
    within("a line", BufReader::new(stream).read_line(&mut line)).await.unwrap();
    line
}

/// A request whose body the pod must read before it can verify the caller.
const SLOW: &str = "POST /v1/destinations/signed/messages HTTP/1.1\r\nhost: localhost\r\n\
                    x-hub-signature-256: sha256=0000000000000000000000000000000000000000000000000000000000000000\r\nx-github-delivery: 1\r\ncontent-length: 9\r\nexpect: 100-continue\r\n\r\n";

#[tokio::test]
async fn slow_bodies_without_a_token_yield_to_who_has_one() {
    let guarded = Guarded::start("connections_max = 2", "").await;
    let mut strangers = Vec::new();
    for _ in 0..40 {
        let mut stream = guarded.http(SLOW).await;
        assert_eq!(line(&mut stream).await, "HTTP/1.1 100 Continue\r\n");
        strangers.push(stream);
    }
    // Two connections hold the places. A request that waits for messages takes the place of the first.
    let waiting = guarded.ask(ADMIN, Method::POST, "/v1/leases");
    let waiting = waiting.json(&json!({"destinations": ["erp"], "wait_ms": 60_000}));
    let waiting = tokio::spawn(waiting.send());
    for _ in 0..3 {
        assert_eq!(status(guarded.ask(ADMIN, Method::GET, "/v1/stats")).await, 200);
    }
    for stream in &mut strangers {
        assert!(!rest(stream).await.contains("HTTP/1.1 2"));
    }
    // That request was not closed for other connections.
    let sent = guarded.ask(ADMIN, Method::POST, "/v1/destinations/erp/messages").body("x");
    assert_eq!(status(sent).await, 202);
    let answer = within("the message is leased", waiting).await.unwrap().unwrap();
    let leases: Value = answer.json().await.unwrap();
    assert_eq!(leases["leases"][0]["sequence"], 1, "{leases}");
    let displaced = "reseq_connections_closed_total{reason=\"displaced\"}";
    let metrics = guarded.ask(ADMIN, Method::GET, "/metrics").send().await.unwrap();
    let metrics = metrics.text().await.unwrap();
    let line = metrics.lines().find(|line| line.starts_with(displaced)).unwrap();
    let count: f64 = line.rsplit(' ').next().unwrap().parse().unwrap();
    assert!(count >= 40.0, "{line}");
}

#[tokio::test]
async fn signing_in_reads_little_and_only_from_its_page() {
    let guarded = Guarded::start("", "").await;
    let origin = guarded.pod.url("");
    let host = origin.strip_prefix("http://").unwrap();
    let head = |length: usize, more: &str| {
        format!(
            "POST /console/session HTTP/1.1\r\nhost: {host}\r\n{more}content-length: {length}\r\n\r\n"
        )
    };
    let of_page = format!("origin: {origin}\r\n");
    // The pod answers before the body arrives.
    let mut stream = guarded.http(&head(100, "origin: http://evil.example\r\n")).await;
    assert_eq!(line(&mut stream).await, "HTTP/1.1 403 Forbidden\r\n");
    let mut stream = guarded.http(&head(5 << 10, &of_page)).await;
    assert_eq!(line(&mut stream).await, "HTTP/1.1 413 Payload Too Large\r\n");
    let chunked = head(0, &of_page).replace("content-length: 0", "transfer-encoding: chunked");
    let mut stream = guarded.http(&(chunked + "1400\r\n" + &"x".repeat(0x1400) + "\r\n")).await;
    assert_eq!(line(&mut stream).await, "HTTP/1.1 413 Payload Too Large\r\n");
    let mut stream = guarded.http(&(head(100, &of_page) + "{")).await;
    assert_eq!(line(&mut stream).await, "HTTP/1.1 408 Request Timeout\r\n");
}

#[tokio::test]
async fn tcp_connections_without_a_token_yield_and_end() {
    let guarded = Guarded::start("", "connections_max = 2").await;
    let (token, _) = guarded.token(&["ingest"]).await;
    let mut idle = [guarded.tcp().await, guarded.tcp().await];
    // The oldest connection yields its place. A connection that has shown a token does not.
    let mut producer = guarded.tcp().await;
    producer.write_all(format!("AUTH {token}\none\n").as_bytes()).await.unwrap();
    assert_eq!(line(&mut producer).await, "OK\n");
    assert_eq!(rest(&mut idle[0]).await, "");
    let mut silent = guarded.tcp().await;
    assert_eq!(rest(&mut idle[1]).await, "");
    let said = rest(&mut silent).await;
    assert!(said.starts_with("ERR unauthorized the first frame must be AUTH"), "{said}");
    // After the token, silence is allowed: this connection is older than the ended ones.
    producer.write_all(b"two\n").await.unwrap();
    let said = line(&mut producer).await;
    assert!(said.starts_with("OK "), "{said}");
}

#[tokio::test]
async fn the_first_frame_of_who_needs_a_token_is_short() {
    let guarded = Guarded::start("", "").await;
    let mut stream = guarded.tcp().await;
    stream.write_all(&[b'x'; 300]).await.unwrap();
    let said = rest(&mut stream).await;
    assert!(said.starts_with("ERR unauthorized "), "{said}");
    let mut stream = guarded.tcp().await;
    let long = "x".repeat(10_000);
    stream.write_all(format!("AUTH {ADMIN}\n{long}\n").as_bytes()).await.unwrap();
    let mut lines = BufReader::new(stream).lines();
    for expected in ["OK", "OK 1"] {
        let said = within("an answer", lines.next_line()).await.unwrap();
        assert_eq!(said.as_deref(), Some(expected));
    }
}

#[tokio::test]
async fn a_token_holds_a_quarter_of_what_all_share() {
    let guarded = Guarded::start("connections_max = 8", "").await;
    let (one, _) = guarded.token(&["work", "read"]).await;
    let (other, _) = guarded.token(&["work", "read"]).await;
    let lease = |token: &str, wait_ms: u64| {
        let body = json!({"destinations": ["erp"], "wait_ms": wait_ms});
        guarded.ask(token, Method::POST, "/v1/leases").json(&body)
    };
    let consume = |token: &str, wait_ms: u64| {
        let path = "/v1/destinations/pulled/consume";
        guarded.ask(token, Method::POST, path).json(&json!({"wait_ms": wait_ms}))
    };
    // Two calls that wait without an answer are in progress. The third call is refused.
    let waiting = [lease(&one, 60_000), consume(&one, 60_000)];
    // The checks of this test also take a share for a moment.
    let waiting = waiting.map(|request| {
        tokio::spawn(async move { while status(request.try_clone().unwrap()).await == 429 {} })
    });
    eventually("no more may wait", async || match status(lease(&one, 1)).await {
        429 => Ok(()),
        other => Err(other.to_string()),
    })
    .await;
    assert_eq!(status(consume(&one, 1)).await, 429);
    assert_eq!((status(lease(&one, 0)).await, status(consume(&one, 0)).await), (200, 200));
    assert_eq!((status(lease(&other, 1)).await, status(consume(&other, 1)).await), (200, 200));
    waiting.iter().for_each(|waiting| waiting.abort());

    let guarded = Guarded::start("", "").await;
    let (one, _) = guarded.token(&["read"]).await;
    for (path, of_each) in
        [("/v1/deliveries", false), ("/console/events?view=lane&destination=erp&key=", true)]
    {
        let open = |token: &str, number: usize| {
            let path = if of_each { format!("{path}{number}") } else { path.into() };
            guarded.ask(token, Method::GET, &path).send()
        };
        let mut streams = Vec::new();
        for number in 0..16 {
            let stream = open(&one, number).await.unwrap();
            assert_eq!(stream.status(), 200, "{number}");
            streams.push(stream);
        }
        let refused = open(&one, 16).await.unwrap();
        assert_eq!(refused.status(), 429);
        let problem: Value = refused.json().await.unwrap();
        assert_eq!(problem["code"], "too_many_requests");
        assert_eq!(open(ADMIN, 16).await.unwrap().status(), 200, "{path}");
    }
}

#[tokio::test]
async fn what_lasts_ends_with_its_token() {
    let guarded = Guarded::start("", "").await;
    let (token, path) = guarded.token(&["work", "read"]).await;
    let lease = guarded.ask(&token, Method::POST, "/v1/leases");
    let lease = lease.json(&json!({"destinations": ["erp"], "wait_ms": 60_000})).send();
    let consume = guarded.ask(&token, Method::POST, "/v1/destinations/pulled/consume");
    let consume = consume.json(&json!({"wait_ms": 60_000})).send();
    let (lease, consume) = (tokio::spawn(lease), tokio::spawn(consume));
    let mut streams = Vec::new();
    for path in ["/v1/deliveries?duration_ms=600000", "/console/events?view=lane&destination=erp"] {
        let stream = guarded.ask(&token, Method::GET, path).send().await.unwrap();
        assert_eq!(stream.status(), 200);
        streams.push(stream);
    }
    assert_eq!(status(guarded.ask(ADMIN, Method::DELETE, &path)).await, 200);
    for stream in streams {
        // A stream that continued would not end within the time limit of the test.
        within("the stream ends", stream.bytes()).await.unwrap();
    }
    for call in [lease, consume] {
        let answer = within("the call ends", call).await.unwrap().unwrap();
        assert_eq!(answer.status(), 401);
        assert_eq!(answer.headers()[header::WWW_AUTHENTICATE], "Bearer");
    }
}
