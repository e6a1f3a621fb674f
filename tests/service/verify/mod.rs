//! Tests destinations that verify signatures: a signature is a credential, and a request without one needs a token.

mod libraries;
mod refused;

use std::time::{SystemTime, UNIX_EPOCH};

use base64::{Engine, prelude::BASE64_STANDARD};
use reqwest::{Method, RequestBuilder};
use ring::hmac;
use serde_json::{Value, json};
use support::{
    checker::stats,
    pods::{Pod, Settings, client},
    redis::TestRedis,
    wait::within,
};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
};

use crate::{common, support};

const ADMIN: &str = "an-admin-token-from-the-environment";
const JSON: &str = "application/json";
const NDJSON: &str = "application/x-ndjson";

/// Secrets of the four destinations. Each destination also knows an old secret.
const STANDARD: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const STANDARD_OLD: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
const STRIPE: &str = "whsec_a_secret_of_stripe_as_it_is";
const GITHUB: &str = "It's a Secret to Everybody";
const SLACK: &str = "8f742231b10e8888abcd99yyyzzz85a5";

type Headers = Vec<(&'static str, String)>;

/// One pod, four destinations that verify signatures, one that does not, and a topic with two destinations.
struct Service {
    pod: Pod,
    receiver: common::Receiver,
    _redis: TestRedis,
}

/// An answer: its status, and its JSON.
type Said = (u16, Value);

async fn said(request: RequestBuilder) -> Said {
    let answer = request.send().await.unwrap();
    let status = answer.status().as_u16();
    if status == 401 {
        assert_eq!(answer.headers()["www-authenticate"], "Bearer");
    }
    let text = answer.text().await.unwrap();
    (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
}

/// Asserts that an answer is this problem.
fn is_problem(said: &Said, status: u16, code: &str, named: &str) {
    assert_eq!((said.0, &said.1["code"]), (status, &json!(code)), "{named}: {}", said.1);
    let detail = said.1["detail"].as_str().unwrap().to_lowercase();
    assert!(detail.contains(&named.to_lowercase()), "{detail:?} does not name {named:?}");
}

/// Sequence and duplicate flag of the only delivery in an answer.
fn position(said: &Said) -> (u64, bool) {
    assert_eq!(said.0, 202, "{}", said.1);
    let delivery = &said.1["deliveries"][0];
    (delivery["sequence"].as_u64().unwrap(), delivery["duplicate"].as_bool().unwrap())
}

fn path(destination: &str) -> String {
    format!("/v1/destinations/{destination}/messages")
}

/// The time in seconds.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

fn sha256(secret: &[u8], content: &str) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), content.as_bytes()).as_ref().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    domain::hex::hex(bytes)
}

fn standard(secret: &str, id: &str, time: u64, body: &str) -> Headers {
    let key = BASE64_STANDARD.decode(secret.strip_prefix("whsec_").unwrap()).unwrap();
    let tag = sha256(&key, &format!("{id}.{time}.{body}"));
    vec![
        ("webhook-id", id.to_owned()),
        ("webhook-timestamp", time.to_string()),
        ("webhook-signature", format!("v1,{}", BASE64_STANDARD.encode(tag))),
    ]
}

fn stripe(time: u64, body: &str) -> Headers {
    let tag = hex(&sha256(STRIPE.as_bytes(), &format!("{time}.{body}")));
    vec![("stripe-signature", format!("t={time},v1={tag},v0={}", "0".repeat(64)))]
}

fn github(delivery: &str, body: &str) -> Headers {
    let tag = hex(&sha256(GITHUB.as_bytes(), body));
    vec![
        ("x-github-delivery", delivery.to_owned()),
        ("x-hub-signature-256", format!("sha256={tag}")),
    ]
}

fn slack(time: u64, body: &str) -> Headers {
    let tag = hex(&sha256(SLACK.as_bytes(), &format!("v0:{time}:{body}")));
    vec![
        ("x-slack-request-timestamp", time.to_string()),
        ("x-slack-signature", format!("v0={tag}")),
    ]
}

impl Service {
    /// Starts a pod with tokens, or one that serves only its own machine without tokens.
    async fn start(has_tokens: bool) -> Service {
        let redis = TestRedis::start().await;
        let receiver = common::receiver(|| "").await;
        let url = format!("url = \"{}\"\nlog_bodies = true\n", receiver.url());
        let mut settings = Settings::new(redis.url());
        for (name, fields) in [
            ("plain", String::new()),
            (
                "standard",
                format!(
                    "kind = \"standard_webhooks\"\nsecrets = [\"{STANDARD}\", \"{STANDARD_OLD}\"]"
                ),
            ),
            ("stripe", format!("kind = \"stripe\"\nsecrets = [\"{STRIPE}\"]")),
            ("github", format!("kind = \"github\"\nsecrets = [\"{GITHUB}\"]")),
            // A destination with a header as idempotency key, which is not signed.
            (
                "headed",
                format!(
                    "kind = \"hmac\"\nsecrets = [\"{GITHUB}\"]\nheader = \"X-Hub-Signature-256\"\nprefix = \"sha256=\""
                ),
            ),
            (
                "slack",
                format!(
                    "kind = \"hmac\"\nsecrets = [\"{SLACK}\"]\nheader = \"X-Slack-Signature\"\n\
                     prefix = \"v0=\"\ntimestamp_header = \"X-Slack-Request-Timestamp\"\n\
                     signed = \"v0:{{timestamp}}:{{body}}\""
                ),
            ),
        ] {
            let verify = if fields.is_empty() { "" } else { "[destination.verify]\n" };
            let keyed = if name == "headed" {
                "idempotency_key_from = { header = \"x-event\" }\n"
            } else {
                ""
            };
            settings = settings.destination(name, &format!("{url}{keyed}{verify}{fields}"));
        }
        settings.destinations +=
            "[[topic]]\nname = \"all\"\ndestinations = [\"plain\", \"github\"]\n";
        settings.tcp = vec![("github", "lines")];
        if has_tokens {
            settings.environment = vec![("RESEQ_AUTH_ADMIN_TOKEN".into(), ADMIN.into())];
        }
        let pod = Pod::start("verifies", "ingest,processor,sender", &settings).await;
        Service { pod, receiver, _redis: redis }
    }

    fn post(&self, path: &str, headers: &Headers, body: &str) -> RequestBuilder {
        let request = client().post(self.pod.url(path)).body(body.to_owned());
        let request = request.header("content-type", JSON);
        headers
            .iter()
            .fold(request, |request, (name, value)| request.header(*name, value.as_bytes()))
    }

    async fn send(&self, destination: &str, headers: &Headers, body: &str) -> Said {
        said(self.post(&path(destination), headers, body)).await
    }

    async fn token(&self, scope: &str, destinations: &[&str]) -> String {
        let request = client().post(self.pod.url("/v1/tokens")).bearer_auth(ADMIN);
        let body = json!({"name": scope, "scopes": [scope], "destinations": destinations});
        let (status, made) = said(request.json(&body)).await;
        assert_eq!(status, 201, "{made}");
        made["token"].as_str().unwrap().to_owned()
    }

    /// The bodies of the next deliveries.
    async fn delivered(&mut self, count: usize) -> Vec<common::Seen> {
        let mut seen = Vec::new();
        while seen.len() < count {
            seen.push(within("it is delivered", self.receiver.seen.recv()).await.unwrap());
        }
        seen
    }

    /// The answers to lines over TCP.
    async fn frames(&self, lines: &str, count: usize) -> Vec<String> {
        let stream = TcpStream::connect(self.pod.addresses.tcp(0)).await.unwrap();
        let mut stream = BufReader::new(stream);
        stream.write_all(lines.as_bytes()).await.unwrap();
        let mut answers = Vec::new();
        for _ in 0..count {
            let mut line = String::new();
            within("a frame is answered", stream.read_line(&mut line)).await.unwrap();
            answers.push(line.trim_end().to_owned());
        }
        answers
    }
}

#[tokio::test]
async fn a_signed_request_needs_no_token_and_is_stored_once() {
    let mut service = Service::start(true).await;
    // The signature covers the exact bytes, including spaces.
    let body = "{ \"n\":  1.0 }\n";
    let now = now();
    for (name, headers) in [
        ("standard", standard(STANDARD, "msg_1", now, body)),
        ("stripe", stripe(now, body)),
        ("github", github("72d3162e-cc78-11e3-81ab-4c9367dc0958", body)),
        ("slack", slack(now, body)),
        ("headed", [vec![("x-event", "1".to_owned())], github("1", body)].concat()),
    ] {
        assert_eq!(position(&service.send(name, &headers, body).await), (1, false), "{name}");
        let seen = service.delivered(1).await;
        assert_eq!(
            (&*seen[0].headers["reseq-destination"], &*seen[0].body),
            (name, body.as_bytes())
        );
        // A recorded request is sent again. It stays a repeat if a header changes that is not signed.
        let mut again = headers.clone();
        again.retain(|(name, _)| *name != "x-github-delivery");
        for unsigned in ["idempotency-key", "x-github-delivery", "x-event"] {
            again.push((unsigned, "another".to_owned()));
        }
        assert_eq!(position(&service.send(name, &again, body).await), (1, true), "{name}");
        // Another body under this signature.
        let refused = service.send(name, &headers, "{}").await;
        is_problem(&refused, 401, "invalid_signature", "no secret of the destination");
        // Headers that describe the message are not signed either.
        for name_of in ["reseq-key", "reseq-id", "reseq-priority", "reseq-delay"] {
            let mut more = headers.clone();
            more.push((name_of, "1".to_owned()));
            let refused = service.send(name, &more, body).await;
            is_problem(&refused, 400, "invalid_field", "the signature does not cover it");
        }
        let refused = service.send(name, &Headers::new(), body).await;
        is_problem(&refused, 401, "no_signature", headers.last().unwrap().0);
    }
    // The old secret counts while the definition has it.
    let old = standard(STANDARD_OLD, "msg_2", now, "2");
    assert_eq!(position(&service.send("standard", &old, "2").await), (2, false));
    // A retry of the sender has a new time and the same id.
    let retry = standard(STANDARD, "msg_2", now - 200, "2");
    assert_eq!(position(&service.send("standard", &retry, "2").await), (2, true));
    service.delivered(1).await;
    for time in [now - 400, now + 400] {
        for (name, headers) in [
            ("standard", standard(STANDARD, "msg_3", time, "3")),
            ("stripe", stripe(time, "3")),
            ("slack", slack(time, "3")),
        ] {
            let refused = service.send(name, &headers, "3").await;
            is_problem(&refused, 401, "timestamp_outside_tolerance", "verify.tolerance_ms");
        }
    }
    // Reseq verifies a long body too.
    let long = "x".repeat(300_000);
    let headers = standard(STANDARD, "msg_4", now, &long);
    let refused = service.send("standard", &headers, &long.replace("xx", "xy")).await;
    is_problem(&refused, 401, "invalid_signature", "no secret");
    assert_eq!(position(&service.send("standard", &headers, &long).await), (3, false));
    assert_eq!(service.delivered(1).await[0].body.len(), long.len());
    assert!(service.receiver.take().is_empty());
    let metrics = client().get(service.pod.url("/metrics")).bearer_auth(ADMIN);
    let metrics = said(metrics).await.1.as_str().unwrap().to_owned();
    let counted =
        "reseq_refused_total{destination=\"stripe\",code=\"timestamp_outside_tolerance\"} 2";
    assert!(metrics.contains(counted), "{metrics}");
}

#[tokio::test]
async fn without_a_signature_a_token_that_may_send_is_needed() {
    let service = Service::start(true).await;
    let [sender, reader, other] = [
        service.token("ingest", &["github"]).await,
        service.token("read", &["github"]).await,
        service.token("ingest", &["plain"]).await,
    ];
    let raw = |token: &str| service.post(&path("github"), &Headers::new(), "{}").bearer_auth(token);
    assert_eq!(position(&said(raw(&sender)).await), (1, false));
    is_problem(&said(raw(&reader)).await, 403, "forbidden", "ingest");
    is_problem(&said(raw(&other)).await, 403, "forbidden", "does not list");
    is_problem(&said(raw("nonsense")).await, 401, "unauthorized", "not valid");
    // With a valid signature, other credentials do not matter.
    let signed = github("d1", "{}");
    for (number, token) in [&reader, &other, "of-the-sender"].into_iter().enumerate() {
        let request = service.post(&path("github"), &signed, "{}").bearer_auth(token);
        assert_eq!(position(&said(request).await), (2, number > 0));
    }
    // A signature for one destination does not count for another.
    is_problem(&service.send("plain", &signed, "{}").await, 401, "unauthorized", "token");
    is_problem(&service.send("nowhere", &signed, "{}").await, 401, "unauthorized", "token");
    let json = |body: Value| service.post("/v1/messages", &signed, &body.to_string());
    let to_github = json!({"destinations": ["github"], "body": {}});
    is_problem(&said(json(to_github.clone())).await, 401, "unauthorized", "token");
    is_problem(
        &said(service.post("/v1/topics/all/messages", &signed, "{}")).await,
        401,
        "unauthorized",
        "",
    );
    assert_eq!(position(&said(json(to_github).bearer_auth(&sender)).await), (3, false));
    assert_eq!(service.frames("hello\n", 1).await[0].split(' ').nth(1), Some("unauthorized"));
    let frames = service.frames(&format!("AUTH {sender}\nhello\n"), 2).await;
    assert_eq!(frames, ["OK", "OK 4"]);
    // A token with only the scope `operate` cannot send by a replay from another destination.
    let sent = service.post(&path("plain"), &Headers::new(), "{}").bearer_auth(ADMIN);
    assert_eq!(position(&said(sent).await), (1, false));
    let operator = service.token("operate", &["plain", "github"]).await;
    let replay = |token: &str, to: &str| {
        let request = json!({"from_sequence": 1, "to_destination": to, "dry_run": true});
        let call = client().post(service.pod.url("/v1/destinations/plain/replay"));
        said(call.bearer_auth(token).json(&request))
    };
    is_problem(&replay(&operator, "github").await, 403, "forbidden", "verifies signatures");
    assert_eq!(replay(&operator, "plain").await.0, 200);
    assert_eq!(replay(ADMIN, "github").await.0, 200);
}

#[tokio::test]
async fn where_no_token_is_needed_a_signature_is() {
    let service = Service::start(false).await;
    let none = Headers::new();
    is_problem(&service.send("github", &none, "{}").await, 401, "no_signature", "x-hub");
    assert_eq!(position(&service.send("plain", &none, "{}").await), (1, false));
    // The topic has both destinations. No message is stored for either.
    let topic = service.post("/v1/topics/all/messages", &github("d1", "{}"), "{}");
    is_problem(&said(topic).await, 401, "no_signature", "github");
    let both = json!({"destinations": ["plain", "github"], "body": {}}).to_string();
    let answer = said(service.post("/v1/messages", &none, &both)).await;
    is_problem(&answer, 401, "no_signature", "github");
    let lines = format!("{both}\n{}\n", json!({"destinations": ["plain"], "body": 2}));
    let batch = client().post(service.pod.url("/v1/messages")).header("content-type", NDJSON);
    let (status, answers) = said(batch.body(lines)).await;
    let answers: Vec<Value> =
        answers.as_str().unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((status, &answers[0]["code"]), (202, &json!("no_signature")), "{answers:?}");
    assert_eq!(answers[1]["deliveries"][0]["sequence"], 2, "{answers:?}");
    let frames = service.frames("AUTH anything\none\ntwo\n", 3).await;
    let words: Vec<_> =
        frames.iter().map(|line| line.split(' ').take(2).collect::<Vec<_>>()).collect();
    assert_eq!(words, [vec!["OK"], vec!["ERR", "no_signature"], vec!["ERR", "no_signature"]]);
    let replay = json!({"from_sequence": 1, "to_destination": "github"});
    let call = client().post(service.pod.url("/v1/destinations/plain/replay")).json(&replay);
    is_problem(&said(call).await, 401, "no_signature", "github");
    let sequence = stats(&service.pod, "github").await.unwrap()["last_sequence"].clone();
    assert_eq!(sequence, 0);
    // A web page has no secret, so a signed request may name any host, such as the host of a tunnel.
    let signed = github("d1", "{}");
    let request = |headers: &Headers| {
        service.post(&path("github"), headers, "{}").header("host", "hooks.example")
    };
    assert_eq!(position(&said(request(&signed)).await), (1, false));
    is_problem(&said(request(&none)).await, 403, "forbidden_origin", "");
    is_problem(
        &said(service.post(&path("plain"), &signed, "{}").header("host", "hooks.example")).await,
        403,
        "forbidden_origin",
        "",
    );
    // After a change of the definition, the next request needs the new secret. A mask does not count as a secret.
    let at = |method: Method, path: &str| client().request(method, service.pod.url(path));
    let definition = json!({"url": service.receiver.url(),
        "verify": {"kind": "github", "secrets": ["the first of two secrets"]}});
    let (status, shown) = said(at(Method::PUT, "/v1/destinations/made").json(&definition)).await;
    assert_eq!((status, &shown["verify"]["secrets"]), (201, &json!(["***"])), "{shown}");
    let signed_with = |secret: &str| -> Headers {
        let tag = hex(&sha256(secret.as_bytes(), "{}"));
        vec![
            ("x-github-delivery", secret.to_owned()),
            ("x-hub-signature-256", format!("sha256={tag}")),
        ]
    };
    let first = signed_with("the first of two secrets");
    assert_eq!(position(&service.send("made", &first, "{}").await), (1, false));
    is_problem(
        &service.send("made", &signed_with("***"), "{}").await,
        401,
        "invalid_signature",
        "",
    );
    let patch = |patch: Value| said(at(Method::PATCH, "/v1/destinations/made").json(&patch));
    let second = signed_with("the second of two secrets");
    // Only the body is signed, so the same body is a repeat.
    let both = patch(json!({"verify": {"secrets": ["the second of two secrets", "***"]}})).await;
    assert_eq!((both.0, &both.1["verify"]["secrets"]), (200, &json!(["***", "***"])), "{}", both.1);
    assert_eq!(position(&service.send("made", &second, "{}").await), (1, true));
    let only = patch(json!({"verify": {"secrets": ["***"]}})).await;
    assert_eq!(only.0, 200, "{}", only.1);
    is_problem(&service.send("made", &first, "{}").await, 401, "invalid_signature", "");
    for (change, named) in [
        (json!({"secrets": ["***", "***"]}), "verify.secrets: has more masks"),
        (json!({"secrets": []}), "verify.secrets: must have 1 to 10"),
        (json!({"kind": "gitlab"}), "verify.kind: unknown variant"),
        (json!({"header": "x-s"}), "verify.header: only the kind"),
    ] {
        is_problem(&patch(json!({"verify": change})).await, 400, "invalid_field", named);
    }
    let window =
        patch(json!({"verify": {"kind": "stripe"}, "idempotency_window_ms": 599_999})).await;
    is_problem(&window, 400, "invalid_field", "idempotency_window_ms: 599999 is less than twice");
}
