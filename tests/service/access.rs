//! Tests of tokens: which requests each token allows.

use std::collections::BTreeSet;

use reqwest::{Method, RequestBuilder, StatusCode, header};
use serde_json::{Value, json};
use support::{
    pods::{Pod, Settings, client},
    redis::TestRedis,
    wait::{eventually, within},
};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
    process::Command,
};

use crate::support;

const ADMIN: &str = "an-admin-token-from-the-environment";

/// Pods that require tokens.
struct Guarded {
    redis: TestRedis,
    settings: Settings,
    pod: Pod,
}

/// An answer: its status, and its JSON.
type Said = (u16, Value);

async fn said(request: RequestBuilder) -> Said {
    let answer = request.send().await.unwrap();
    let status = answer.status().as_u16();
    if status == StatusCode::UNAUTHORIZED {
        assert_eq!(answer.headers()[header::WWW_AUTHENTICATE], "Bearer");
    }
    let text = answer.text().await.unwrap();
    (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
}

impl Guarded {
    async fn start() -> Guarded {
        let redis = TestRedis::start().await;
        let mut settings = Settings::new(redis.url());
        settings.tcp = vec![("erp", "lines")];
        settings.environment = vec![("RESEQ_AUTH_ADMIN_TOKEN".into(), ADMIN.into())];
        let pod = Pod::start("guarded", "ingest,processor,sender", &settings).await;
        Guarded { redis, settings, pod }
    }

    async fn ask(&self, token: &str, method: Method, path: &str, body: Option<Value>) -> Said {
        self.ask_at(&self.pod, token, method, path, body).await
    }

    async fn ask_at(
        &self,
        pod: &Pod,
        token: &str,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> Said {
        let mut request = client().request(method, pod.url(path));
        if !token.is_empty() {
            request = request.bearer_auth(token);
        }
        if let Some(body) = body {
            request = request.json(&body);
        }
        said(request).await
    }

    async fn make(&self, request: Value) -> (String, String) {
        let (status, made) = self.ask(ADMIN, Method::POST, "/v1/tokens", Some(request)).await;
        assert_eq!(status, 201, "{made}");
        let word = |field: &str| made[field].as_str().unwrap().to_owned();
        (word("token"), word("id"))
    }

    async fn make_with(&self, scope: &str, destinations: &[&str]) -> String {
        let mut request = json!({"name": format!("may {scope}"), "scopes": [scope]});
        if !destinations.is_empty() {
            request["destinations"] = json!(destinations);
        }
        self.make(request).await.0
    }

    async fn define(&self, name: &str) {
        let definition = json!({"url": "http://127.0.0.1:9/", "transform": {"kind": "worker"}});
        let path = format!("/v1/destinations/{name}");
        let (status, made) = self.ask(ADMIN, Method::PUT, &path, Some(definition)).await;
        assert_eq!(status, 201, "{made}");
    }
}

/// The routes of the document that need a token, and the scope that each needs.
async fn routes_of(guarded: &Guarded) -> Vec<(Method, String, &'static str)> {
    let (status, document) = guarded.ask("", Method::GET, "/openapi.json", None).await;
    assert_eq!(status, 200);
    let mut routes = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for method in item.as_object().unwrap().keys() {
            let method: Method = method.to_uppercase().parse().unwrap();
            if let Some(scope) = scope_of(&method, path) {
                routes.push((method, path.clone(), scope));
            }
        }
    }
    routes
}

/// The expected scope of a route, independent of the code under test. An unknown route fails the test.
fn scope_of(method: &Method, path: &str) -> Option<&'static str> {
    let verb = method.as_str();
    Some(match (verb, path) {
        ("GET", "/healthz" | "/readyz" | "/openapi.json" | "/problems" | "/problems/{code}") => {
            return None;
        }
        ("GET", path) if path.starts_with("/docs") => return None,
        ("POST", "/v1/messages")
        | ("POST", "/v1/destinations/{destination}/messages" | "/v1/topics/{topic}/messages") => {
            "ingest"
        }
        ("POST", "/v1/leases")
        | (
            "POST",
            "/v1/leases/complete" | "/v1/leases/fail" | "/v1/leases/extend" | "/v1/leases/requeue",
        ) => "work",
        ("POST", "/v1/destinations/{destination}/consume")
        | (
            "POST",
            "/v1/deliveries/accept"
            | "/v1/deliveries/refuse"
            | "/v1/deliveries/extend"
            | "/v1/deliveries/requeue",
        ) => "work",
        (_, "/v1/tokens" | "/v1/tokens/{id}" | "/v1/audit") => "admin",
        ("GET", "/metrics") => "read",
        ("GET", path) if path.ends_with("/result") => "ingest",
        ("GET", path) if path.starts_with("/v1/") => "read",
        ("PUT" | "PATCH" | "DELETE", "/v1/destinations/{destination}" | "/v1/topics/{topic}") => {
            "admin"
        }
        ("POST", path)
            if ["diff", "rollback", "restore"]
                .iter()
                .any(|end| path == format!("/v1/destinations/{{destination}}/{end}")) =>
        {
            "admin"
        }
        ("POST" | "DELETE", path)
            if [
                "pause",
                "resume",
                "retry-head",
                "run-now",
                "skip-head",
                "purge",
                "repair",
                "replay",
                "redrive",
                "discard",
                "cancel",
                "messages",
                "sources",
                "{sequence}",
            ]
            .iter()
            .any(|end| path.ends_with(&format!("/{end}"))) =>
        {
            "operate"
        }
        other => panic!("{other:?}: which scope does this route need?"),
    })
}

/// A path with names instead of its parameters.
fn filled(path: &str, destination: &str) -> String {
    let path = path.replace("{destination}", destination).replace("{topic}", "all");
    // Without a duration, the answer lasts for a minute.
    let path = match path.as_str() {
        "/v1/deliveries" => "/v1/deliveries?duration_ms=0".to_owned(),
        _ => path,
    };
    path.replace("{sequence}", "1").replace("{id}", "abc").replace("{code}", "forbidden")
}

#[tokio::test]
async fn each_route_refuses_who_may_not_and_lets_in_who_may() {
    let guarded = Guarded::start().await;
    guarded.define("erp").await;
    guarded.define("crm").await;
    let topic = json!({"destinations": ["erp"]});
    assert_eq!(guarded.ask(ADMIN, Method::PUT, "/v1/topics/all", Some(topic)).await.0, 201);
    let scopes = ["ingest", "work", "read", "operate", "admin"];
    let mut by_scope = Vec::new();
    for scope in scopes {
        by_scope.push((scope, guarded.make_with(scope, &[]).await));
    }
    let only_crm = guarded.make_with("admin", &["crm"]).await;
    let (revoked, id) = guarded.make(json!({"name": "x", "scopes": ["admin"]})).await;
    let path = format!("/v1/tokens/{id}");
    assert_eq!(guarded.ask(ADMIN, Method::DELETE, &path, None).await.0, 200);
    assert_eq!(guarded.ask(ADMIN, Method::DELETE, &path, None).await.0, 404);
    // A token that expires before its use. The test asks the pod until the token has expired.
    let ends = json!({"name": "ends", "scopes": ["admin"], "expires_in_ms": 1000});
    let (expired, id) = guarded.make(ends).await;
    eventually("a token ends", async || {
        let path = format!("/v1/tokens/{id}");
        let shown = guarded.ask(ADMIN, Method::GET, &path, None).await.1;
        if shown["expired"] == true { Ok(()) } else { Err(shown.to_string()) }
    })
    .await;
    let mut wrong = guarded.make_with("admin", &[]).await;
    let last = if wrong.pop() == Some('a') { 'b' } else { 'a' };
    wrong.push(last);

    let routes = routes_of(&guarded).await;
    assert!(routes.len() > 35, "{routes:?}");
    for (method, path, scope) in routes {
        let at = filled(&path, "erp");
        let what = format!("{method} {path}");
        let invalid =
            ["", &*wrong, &*revoked, &*expired, "nonsense", &format!("rsq_{}", "x".repeat(56))];
        for token in invalid {
            let (status, body) = guarded.ask(token, method.clone(), &at, None).await;
            assert_eq!((status, &body["code"]), (401, &json!("unauthorized")), "{what}: {body}");
        }
        for (held, token) in &by_scope {
            let (status, body) = guarded.ask(token, method.clone(), &at, None).await;
            let may = *held == scope || *held == "admin" || (*held == "operate" && scope == "read");
            let is_refused = status == 403 || status == 401;
            assert_eq!(is_refused, !may, "{what} with {held}: {status} {body}");
            if !may {
                assert!(body["detail"].as_str().unwrap().contains(scope), "{what}: {body}");
            }
            // Define again what an earlier round removed.
            if may && method == Method::DELETE {
                let definition =
                    json!({"url": "http://127.0.0.1:9/", "transform": {"kind": "worker"}});
                let put = guarded.ask(ADMIN, Method::PUT, "/v1/destinations/erp", Some(definition));
                assert!(put.await.0 < 300);
                let topic = json!({"destinations": ["erp"]});
                guarded.ask(ADMIN, Method::PUT, "/v1/topics/all", Some(topic)).await;
            }
        }
        if path.contains("{destination}")
            || path == "/metrics"
            || path == "/v1/audit"
            || path.starts_with("/v1/tokens")
        {
            let (status, body) = guarded.ask(&only_crm, method.clone(), &at, None).await;
            let body_is_read_first = method == Method::POST && path == "/v1/tokens";
            let expected = if body_is_read_first { 400 } else { 403 };
            assert_eq!(status, expected, "{what}: {body}");
        }
    }
    for open in ["/healthz", "/readyz", "/docs", "/problems/forbidden"] {
        assert_eq!(guarded.ask("", Method::GET, open, None).await.0, 200, "{open}");
    }
}

#[tokio::test]
async fn limited_token_sees_and_acts_on_only_its_destinations() {
    let guarded = Guarded::start().await;
    guarded.define("erp").await;
    guarded.define("crm").await;
    for (topic, destinations) in [("erp-only", vec!["erp"]), ("both", vec!["erp", "crm"])] {
        let body = json!({"destinations": destinations});
        let path = format!("/v1/topics/{topic}");
        assert_eq!(guarded.ask(ADMIN, Method::PUT, &path, Some(body)).await.0, 201);
    }
    let erp = guarded.make_with("admin", &["erp"]).await;
    let ask = async |method, path: &str, body: Value| {
        let body = Some(body).filter(|body| !body.is_null());
        guarded.ask(&erp, method, path, body).await
    };
    let names = |list: &Value| -> Vec<String> {
        let items = list["items"].as_array().unwrap();
        items.iter().map(|item| item["name"].as_str().unwrap().to_owned()).collect()
    };
    for (path, expected) in
        [("/v1/destinations", "erp"), ("/v1/stats", "erp"), ("/v1/topics", "erp-only")]
    {
        let (status, list) = ask(Method::GET, path, Value::Null).await;
        assert_eq!((status, names(&list)), (200, vec![expected.to_owned()]), "{path}");
    }
    let to = |names: &[&str]| json!({"destinations": names, "body": 1});
    let (post, put, delete, get) = (Method::POST, Method::PUT, Method::DELETE, Method::GET);
    let claim = |names: &[&str]| json!({"destinations": names});
    for (method, path, body, expected) in [
        (post.clone(), "/v1/messages", to(&["erp"]), 202),
        (post.clone(), "/v1/messages", to(&["erp", "crm"]), 403),
        (post.clone(), "/v1/topics/erp-only/messages", json!(1), 202),
        (post.clone(), "/v1/topics/both/messages", json!(1), 403),
        (post.clone(), "/v1/leases", claim(&["erp", "crm"]), 403),
        (
            post.clone(),
            "/v1/destinations/erp/replay",
            json!({"from_sequence": 1, "to_destination": "crm"}),
            403,
        ),
        (post.clone(), "/v1/destinations/crm/consume", json!({}), 403),
        (put.clone(), "/v1/topics/both", claim(&["erp"]), 403),
        (put.clone(), "/v1/topics/new", claim(&["crm"]), 403),
        (put, "/v1/destinations/other", json!({"url": "http://127.0.0.1:9/"}), 403),
        (delete, "/v1/topics/both", Value::Null, 403),
        (get.clone(), "/v1/topics/both", Value::Null, 403),
        (get.clone(), "/v1/destinations/c%72m/stats", Value::Null, 403),
        (get.clone(), "/v1/destinations/%65rp/stats", Value::Null, 200),
        (get.clone(), "/v1/tokens", Value::Null, 403),
        (get, "/metrics", Value::Null, 403),
    ] {
        let (status, answer) = ask(method.clone(), path, body.clone()).await;
        assert_eq!(status, expected, "{method} {path} {body}: {answer}");
    }
    // Neither the status nor the text may reveal which names exist.
    for (method, path, body) in [
        (Method::GET, "/v1/destinations/{crm}", Value::Null),
        (Method::GET, "/v1/destinations/{crm}/stats", Value::Null),
        (Method::GET, "/v1/topics/{both}", Value::Null),
        (Method::DELETE, "/v1/topics/{both}", Value::Null),
        (Method::POST, "/v1/topics/{both}/messages", json!(1)),
        (Method::POST, "/v1/messages", json!({"topic": "{both}", "body": 1})),
        (Method::POST, "/v1/messages", to(&["{crm}"])),
        (Method::POST, "/v1/leases", claim(&["{crm}"])),
        (Method::GET, "/v1/deliveries?destination={crm}", Value::Null),
        (
            Method::POST,
            "/v1/destinations/erp/replay",
            json!({"from_sequence": 1, "to_destination": "{crm}"}),
        ),
    ] {
        let with = |text: &str, is_known: bool| {
            let (crm, both) = if is_known { ("crm", "both") } else { ("none", "none") };
            text.replace("{crm}", crm).replace("{both}", both)
        };
        let mut answers = Vec::new();
        for is_known in [true, false] {
            let body = serde_json::from_str(&with(&body.to_string(), is_known)).unwrap();
            let (status, mut answer) = ask(method.clone(), &with(path, is_known), body).await;
            assert_eq!(status, 403, "{method} {path}: {answer}");
            let text = answer["detail"].take().as_str().unwrap().to_owned();
            assert!(!text.contains("crm") && !text.contains("none"), "{text}");
            answers.push(text);
        }
        assert_eq!(answers[0], answers[1], "{method} {path}");
    }
    // No message was stored for the other destination, and only one line of a batch is refused.
    let lines = format!("{}\n{}\n", to(&["crm"]), to(&["erp"]));
    let batch = client().post(guarded.pod.url("/v1/messages")).bearer_auth(&erp).body(lines);
    let (status, answers) = said(batch.header(header::CONTENT_TYPE, "application/x-ndjson")).await;
    assert_eq!(status, 202, "{answers}");
    let answers = answers.as_str().unwrap().to_owned();
    assert!(answers.lines().next().unwrap().contains("forbidden"), "{answers}");
    let stats = guarded.ask(ADMIN, Method::GET, "/v1/destinations/crm/stats", None).await.1;
    assert_eq!(stats["last_sequence"], 0, "{stats}");

    // The token cannot lease messages of another destination.
    let send = Some(to(&["crm"]));
    assert_eq!(guarded.ask(ADMIN, Method::POST, "/v1/messages", send).await.0, 202);
    let leases = guarded.ask(ADMIN, Method::POST, "/v1/leases", Some(claim(&["crm"]))).await.1;
    let item = json!({"items": [{"token": leases["leases"][0]["token"]}]});
    for call in ["complete", "fail", "extend", "requeue"] {
        let mut item = item.clone();
        if call == "complete" {
            item["items"][0]["body"] = json!(1);
        }
        let path = format!("/v1/leases/{call}");
        let (status, answer) = ask(Method::POST, &path, item).await;
        assert_eq!(status, 403, "{call}: {answer}");
    }
}

#[tokio::test]
async fn tokens_hold_on_all_pods_without_redis_and_show_last_use() {
    let guarded = Guarded::start().await;
    let mut settings = guarded.settings.clone();
    settings.tcp.clear();
    settings.environment.clear();
    // This pod has no configured admin token: the tokens in Redis count.
    let other = Pod::start("other", "ingest", &settings).await;
    assert_eq!(guarded.ask_at(&other, "", Method::GET, "/v1/stats", None).await.0, 200);
    let (token, id) = guarded.make(json!({"name": "n", "scopes": ["read"]})).await;
    let stats =
        async |token: &str| guarded.ask_at(&other, token, Method::GET, "/v1/stats", None).await.0;
    eventually("the other pod wants a token", async || {
        let status = stats("").await;
        if status == 401 { Ok(()) } else { Err(status.to_string()) }
    })
    .await;
    assert_eq!(stats(&token).await, 200);
    let shown = eventually("its last use is noted", async || {
        let path = format!("/v1/tokens/{id}");
        let shown = guarded.ask(ADMIN, Method::GET, &path, None).await.1;
        if shown["last_used_at"].is_string() { Ok(shown) } else { Err(shown.to_string()) }
    })
    .await;
    assert_eq!((&shown["name"], &shown["scopes"]), (&json!("n"), &json!(["read"])));
    assert!(!shown.to_string().contains(&token));
    // Redis does not hold the text of a token.
    let keys: Vec<String> = guarded.redis.ask(&["KEYS", "*tokens*"]).await.unwrap();
    let held: Vec<String> = guarded.redis.ask(&["HVALS", "reseq:{index}:tokens"]).await.unwrap();
    assert!(keys.len() >= 2 && !format!("{held:?}").contains(&token[20..]), "{keys:?} {held:?}");

    guarded.redis.written().await;
    guarded.redis.kill();
    let metrics =
        async |token: &str| guarded.ask_at(&other, token, Method::GET, "/metrics", None).await.0;
    assert_eq!((metrics(&token).await, metrics("").await), (200, 401));
    guarded.redis.restart().await;
    let path = format!("/v1/tokens/{id}");
    eventually("it is revoked", async || {
        let status = guarded.ask(ADMIN, Method::DELETE, &path, None).await.0;
        if status == 200 || status == 404 { Ok(()) } else { Err(status.to_string()) }
    })
    .await;
    eventually("the other pod refuses it", async || {
        let status = metrics(&token).await;
        // Without any token, the pod is open to its own machine again.
        if status == 200 && metrics("").await == 200 || status == 401 {
            Ok(())
        } else {
            Err(status.to_string())
        }
    })
    .await;
}

#[tokio::test]
async fn credentials_in_a_stored_definition_are_ignored() {
    let guarded = Guarded::start().await;
    guarded.define("erp").await;
    // Store the definition as an earlier version did, in the partition and in the index.
    let mut redis = guarded.redis.connection().await;
    let keys = redis::cmd("KEYS").arg("reseq:{p*}:d:erp").to_owned();
    let keys: Vec<String> = keys.query_async(&mut redis).await.unwrap();
    for (key, field) in [(&*keys[0], "definition"), ("reseq:{index}:destinations", "erp")] {
        let read = redis::cmd("HGET").arg(key).arg(field).to_owned();
        let text: String = read.query_async(&mut redis).await.unwrap();
        let (mark, json) = text.split_at(text.find('{').unwrap());
        let mut definition: Value = serde_json::from_str(json).unwrap();
        definition["forward_headers"] = json!(["authorization", "cook*", "x-*"]);
        definition["key_from"] = json!({"header": "authorization"});
        definition["idempotency_key_from"] = json!({"header": "Cookie"});
        let stored = format!("{mark}{definition}");
        let write = redis::cmd("HSET").arg(key).arg(field).arg(stored).to_owned();
        let () = write.query_async(&mut redis).await.unwrap();
    }
    let pod = Pod::start("later", "ingest,processor,sender", &guarded.settings).await;
    let victim = guarded.make_with("ingest", &["erp"]).await;
    let send = client().post(pod.url("/v1/destinations/erp/messages")).bearer_auth(&victim);
    let send = send.header("cookie", "session=secret").header("x-tenant", "7").body("one");
    let (status, answer) = said(send).await;
    assert_eq!(status, 202, "{answer}");
    let path = "/v1/destinations/erp/messages/1";
    let (_, shown) = guarded.ask_at(&pod, ADMIN, Method::GET, path, None).await;
    assert_eq!(
        (&shown["headers"], &shown["key"]),
        (&json!({"x-tenant": "7"}), &Value::Null),
        "{shown}"
    );
    let keys: Vec<String> = redis::cmd("KEYS").arg("*").query_async(&mut redis).await.unwrap();
    assert!(keys.iter().all(|key| !key.contains("secret") && !key.contains(&victim)), "{keys:?}");
    let (_, report) = guarded.ask_at(&pod, ADMIN, Method::GET, "/v1/doctor", None).await;
    let mut findings = report["findings"].as_array().unwrap().iter();
    let found = findings.find(|one| one["check"] == "credentials").expect("it is reported");
    let named = "forward_headers names a credential";
    assert_eq!(found["subject"], "erp");
    assert!(found["summary"].as_str().unwrap().starts_with(named), "{found}");
}

#[tokio::test]
async fn answers_are_neither_guessed_nor_kept() {
    let guarded = Guarded::start().await;
    for (path, kept) in [
        ("/healthz", "no-store"),
        ("/v1/stats", "no-store"),
        ("/v1/tokens", "no-store"),
        ("/metrics", "no-store"),
        ("/nothing", "no-store"),
        ("/console/console.js", "no-cache"),
    ] {
        for token in ["", ADMIN] {
            let answer =
                client().get(guarded.pod.url(path)).bearer_auth(token).send().await.unwrap();
            let value =
                |name: header::HeaderName| answer.headers()[name].to_str().unwrap().to_owned();
            assert_eq!(value(header::X_CONTENT_TYPE_OPTIONS), "nosniff", "{path}");
            assert_eq!(value(header::CACHE_CONTROL), kept, "{path}");
        }
    }
}

#[tokio::test]
async fn a_tcp_connection_shows_its_token_in_its_first_frame() {
    let guarded = Guarded::start().await;
    guarded.define("erp").await;
    let [sender, reader, other] = [
        guarded.make_with("ingest", &["erp"]).await,
        guarded.make_with("read", &[]).await,
        guarded.make_with("ingest", &["crm"]).await,
    ];
    let connect =
        async || BufReader::new(TcpStream::connect(guarded.pod.addresses.tcp(0)).await.unwrap());
    let answers = async |stream: &mut BufReader<TcpStream>, lines: &str, count: usize| {
        stream.write_all(lines.as_bytes()).await.unwrap();
        let mut all = Vec::new();
        for _ in 0..count {
            let mut line = String::new();
            within("a frame is answered", stream.read_line(&mut line)).await.unwrap();
            all.push(line.trim_end().to_owned());
        }
        all
    };
    let mut stream = connect().await;
    let said = answers(&mut stream, &format!("AUTH {sender}\none\ntwo\n"), 3).await;
    assert_eq!(said, ["OK", "OK 1", "OK 2"]);
    for (first, code) in [
        ("hello".to_owned(), "unauthorized"),
        ("AUTH nonsense".to_owned(), "unauthorized"),
        (format!("AUTH {reader}"), "forbidden"),
        (format!("AUTH {other}"), "forbidden"),
    ] {
        let mut stream = connect().await;
        let said = answers(&mut stream, &format!("{first}\nthree\n"), 2).await;
        assert!(said[0].starts_with(&format!("ERR {code} ")), "{first}: {said:?}");
        assert_eq!(said[1], "", "{first}: the connection ends: {said:?}");
    }
    // When a token ends, its connections end.
    let list = guarded.ask(ADMIN, Method::GET, "/v1/tokens", None).await.1;
    let mut ids = list["items"].as_array().unwrap().iter();
    let id = ids.find(|item| sender.contains(item["id"].as_str().unwrap())).unwrap();
    let path = format!("/v1/tokens/{}", id["id"].as_str().unwrap());
    assert_eq!(guarded.ask(ADMIN, Method::DELETE, &path, None).await.0, 200);
    let said = answers(&mut stream, "four\n", 1).await;
    assert!(said[0].starts_with("ERR unauthorized "), "{said:?}");
    let stats = guarded.ask(ADMIN, Method::GET, "/v1/destinations/erp/stats", None).await.1;
    assert_eq!(stats["last_sequence"], 2, "{stats}");
}

#[tokio::test]
async fn without_tokens_only_this_machine_is_served_and_no_web_page() {
    let redis = TestRedis::start().await;
    let settings = Settings::new(redis.url());
    let pod = Pod::start("open", "ingest", &settings).await;
    let get = |headers: &[(&'static str, &'static str)]| {
        let request = client().get(pod.url("/v1/stats"));
        headers.iter().fold(request, |request, (name, value)| request.header(*name, *value))
    };
    assert_eq!(said(get(&[])).await.0, 200);
    assert_eq!(said(get(&[("origin", "http://localhost:3000")])).await.0, 200);
    let refused: [&[(&str, &str)]; 9] = [
        &[("forwarded", "for=192.0.2.1")],
        &[("x-forwarded-for", "192.0.2.1")],
        &[("x-forwarded-proto", "https")],
        &[("via", "1.1 proxy")],
        &[("x-real-ip", "192.0.2.1")],
        &[("sec-fetch-site", "cross-site")],
        &[("host", "evil.example")],
        &[("origin", "https://evil.example")],
        &[("host", "localhost"), ("origin", "null")],
    ];
    for headers in refused {
        let (status, problem) = said(get(headers)).await;
        assert_eq!((status, &problem["code"]), (403, &json!("forbidden_origin")), "{headers:?}");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains("reseq tokens create") && detail.contains("auth.mode"), "{detail}");
    }
    // The start refuses an address that other machines can reach, and names the settings that allow it.
    let listen = |variables: &[(&str, &str)]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_reseq"));
        command.args(["serve", "--roles", "ingest"]).kill_on_drop(true);
        command.env("RESEQ_REDIS_URL", redis.url()).env("RESEQ_HTTP_LISTEN", "0.0.0.0:0");
        command.envs(variables.iter().copied());
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        command
    };
    let ended = within("the start is refused", listen(&[]).output()).await.unwrap();
    let text = String::from_utf8_lossy(&ended.stderr).into_owned()
        + &String::from_utf8_lossy(&ended.stdout);
    assert!(!ended.status.success(), "{text}");
    for named in ["http.listen", "auth.admin_token_file", "auth.mode"] {
        assert!(text.contains(named), "{named}: {text}");
    }
    for variables in [[("RESEQ_AUTH_MODE", "none")], [("RESEQ_AUTH_ADMIN_TOKEN", ADMIN)]] {
        let mut child = listen(&variables).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut seen = BTreeSet::new();
        within("it starts", async {
            while let Some(line) = lines.next_line().await.unwrap() {
                let is_ready = line.contains("Reseq runs");
                seen.insert(line);
                if is_ready {
                    return;
                }
            }
            panic!("it ended: {seen:?}");
        })
        .await;
        assert!(seen.iter().all(|line| !line.contains(ADMIN)), "{seen:?}");
        child.kill().await.unwrap();
    }
}

#[tokio::test]
async fn a_person_makes_lists_and_revokes_tokens_by_command() {
    let guarded = Guarded::start().await;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("token");
    std::fs::write(&file, format!("{ADMIN}\n")).unwrap();
    let run = async |token: &str, args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_reseq"));
        command.args(args).env("RESEQ_URL", guarded.pod.url("")).kill_on_drop(true);
        if !token.is_empty() {
            command.env("RESEQ_TOKEN", token);
        }
        let ran = within("a command ends", command.output()).await.unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
        (ran.status.code().unwrap(), text(&ran.stdout), text(&ran.stderr))
    };
    let (code, _, error) = run("", &["tokens", "list"]).await;
    assert!(code == 3 && error.contains("unauthorized"), "{code} {error}");
    let path = file.to_str().unwrap();
    let create = [
        "tokens",
        "create",
        "for erp",
        "--scope",
        "ingest",
        "--scope",
        "read",
        "--destination",
        "erp",
        "--expires-in",
        "90d",
        "--token-file",
        path,
    ];
    let (code, token, error) = run("", &create).await;
    assert!(code == 0 && token.starts_with("rsq_"), "{code} {token} {error}");
    let (code, list, _) = run(ADMIN, &["tokens", "list"]).await;
    assert!(code == 0 && list.contains("for erp") && list.contains("ingest,read"), "{list}");
    assert!(!list.contains(&token), "{list}");
    let (code, _, error) = run(&token, &["tokens", "list"]).await;
    assert!(code == 3 && error.contains("admin"), "{code} {error}");
    let id = &token[4..16];
    let (code, shown, _) = run(ADMIN, &["tokens", "show", id]).await;
    assert!(code == 0 && shown.contains("for erp"), "{shown}");
    let (code, said, _) = run(ADMIN, &["tokens", "revoke", id, "--yes"]).await;
    assert_eq!((code, said.as_str()), (0, &*format!("{id} is revoked")));
    let (code, _, error) = run(&token, &["status"]).await;
    assert!(code == 3 && error.contains("unauthorized"), "{code} {error}");
    let (code, _, error) = run("", &["status", "--token-file", "/nonexistent"]).await;
    assert!(code == 1 && error.contains("--token-file"), "{code} {error}");
}

#[tokio::test]
async fn operators_may_have_a_listener_of_their_own() {
    let redis = TestRedis::start().await;
    let admin = support::ports::free_address();
    let mut settings = Settings::new(redis.url());
    settings.environment = vec![("RESEQ_ADMIN_LISTEN".into(), admin.to_string())];
    let pod = Pod::start("apart", "ingest", &settings).await;
    let definition = json!({"url": "http://127.0.0.1:9/"});
    let at = |base: String, method: Method, path: &str| client().request(method, base + path);
    let path = "/v1/destinations/erp";
    let refused = said(at(pod.url(""), Method::PUT, path).json(&definition)).await;
    assert_eq!((refused.0, &refused.1["code"]), (404, &json!("not_found")), "{refused:?}");
    let base = format!("http://{admin}");
    assert_eq!(said(at(base.clone(), Method::PUT, path).json(&definition)).await.0, 201);
    for path in ["/v1/stats", "/metrics", "/v1/tokens", "/v1/destinations/erp/messages"] {
        assert_eq!(said(at(pod.url(""), Method::GET, path)).await.0, 404, "{path}");
        assert_eq!(said(at(base.clone(), Method::GET, path)).await.0, 200, "{path}");
    }
    for base in [pod.url(""), base] {
        let sent = at(base.clone(), Method::POST, "/v1/destinations/erp/messages").body("x");
        assert_eq!(said(sent).await.0, 202);
        assert_eq!(said(at(base, Method::GET, "/healthz")).await.0, 200);
    }
}
