//! Tests the console: its session, its pages in a real Chromium, and the load of a view on Redis.

use std::process::Command;

use base64::{Engine, prelude::BASE64_STANDARD};
use reqwest::{RequestBuilder, StatusCode, header};
use serde_json::{Value, json};
use support::{
    pods::{Pod, Settings, client},
    ports::free_address,
    redis::TestRedis,
    source::{program, root},
    wait::{eventually, within},
};

use crate::support;

const ADMIN: &str = "an-admin-token-for-the-console";

/// A pod with a listener for operators.
struct Console {
    redis: TestRedis,
    settings: Settings,
    pod: Pod,
    /// The listener for operators.
    base: String,
}

impl Console {
    async fn start() -> Console {
        let redis = TestRedis::start().await;
        let mut settings = Settings::new(redis.url());
        let admin = free_address();
        settings.environment = vec![
            ("RESEQ_ADMIN_LISTEN".into(), admin.to_string()),
            ("RESEQ_AUTH_ADMIN_TOKEN".into(), ADMIN.into()),
        ];
        let pod = Pod::start("console", "ingest,processor,sender", &settings).await;
        Console { redis, settings, pod, base: format!("http://{admin}") }
    }

    fn get(&self, path: &str) -> RequestBuilder {
        client().get(format!("{}{path}", self.base))
    }

    /// Signs in. Returns the cookie and the secret.
    async fn sign_in(&self, token: &str) -> Result<Session, (u16, Value)> {
        let request = client().post(format!("{}/console/session", self.base));
        let request = request.header(header::ORIGIN, &self.base).json(&json!({"token": token}));
        let answer = request.send().await.unwrap();
        let status = answer.status();
        let cookie = answer.headers().get(header::SET_COOKIE).cloned();
        if !status.is_success() {
            assert_eq!(cookie, None);
            return Err((status.as_u16(), answer.json().await.unwrap()));
        }
        let cookie = cookie.unwrap().to_str().unwrap().to_owned();
        assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
        let cookie = cookie.split(';').next().unwrap().to_owned();
        let said: Value = answer.json().await.unwrap();
        Ok(Session { cookie, secret: said["secret"].as_str().unwrap().to_owned() })
    }
}

/// The session data in a browser.
#[derive(Debug)]
struct Session {
    cookie: String,
    secret: String,
}

impl Session {
    fn shown(&self, request: RequestBuilder) -> RequestBuilder {
        request.header(header::COOKIE, &self.cookie).header("reseq-session", &self.secret)
    }
}

async fn status(request: RequestBuilder) -> u16 {
    request.send().await.unwrap().status().as_u16()
}

#[tokio::test]
async fn session_needs_pages_of_the_console_and_ends_with_its_token() {
    let console = Console::start().await;
    assert_eq!(console.sign_in("rsq_wrong").await.unwrap_err().0, 401);
    let made = client().post(format!("{}/v1/tokens", console.base)).bearer_auth(ADMIN);
    let made = made.json(&json!({"name": "browser", "scopes": ["operate"]})).send().await.unwrap();
    let made: Value = made.json().await.unwrap();
    let token = made["token"].as_str().unwrap();
    let session = console.sign_in(token).await.unwrap();
    let with = |request: RequestBuilder| session.shown(request);

    assert_eq!(status(with(console.get("/v1/stats"))).await, 200);
    assert_eq!(status(console.get("/v1/stats")).await, 401);
    // Another server on the host gets the cookie, but not the secret. It finds no token in the cookie.
    let value = session.cookie.split_once('=').unwrap().1;
    let bytes = BASE64_STANDARD.decode(value).unwrap();
    assert!(!bytes.windows(8).any(|part| part == &token.as_bytes()[..8]), "{value}");
    let cookie_alone = || console.get("/v1/stats").header(header::COOKIE, &session.cookie);
    assert_eq!(status(cookie_alone()).await, 401);
    let other = console.sign_in(token).await.unwrap();
    assert_eq!(status(cookie_alone().header("reseq-session", &other.secret)).await, 401);
    // The scope of the token counts.
    assert_eq!(status(with(console.get("/v1/tokens"))).await, 403);
    // A page of another origin, and a form without an origin, are refused.
    let foreign = with(console.get("/v1/stats")).header(header::ORIGIN, "https://evil.example");
    assert_eq!(status(foreign).await, 403);
    let pause = || {
        let path = "/v1/destinations/erp/pause";
        with(client().post(format!("{}{path}", console.base)).json(&json!({"what": "delivery"})))
    };
    assert_eq!(status(pause()).await, 403);
    assert_eq!(status(pause().header(header::ORIGIN, "https://evil.example")).await, 403);
    // This request passes the checks, and fails because the destination does not exist.
    assert_eq!(status(pause().header(header::ORIGIN, &console.base)).await, 404);
    let site = pause().header(header::ORIGIN, &console.base).header("sec-fetch-site", "cross-site");
    assert_eq!(status(site).await, 403);

    // The listener for producers has no console, and accepts no cookie.
    for path in
        ["/console", "/console/", "/console/console.js", "/console/session", "/console/events"]
    {
        assert_eq!(status(with(client().get(console.pod.url(path)))).await, 404, "{path}");
    }
    let send = with(client().post(console.pod.url("/v1/destinations/erp/messages")));
    assert_eq!(status(send.body("x")).await, 401);

    let id = made["id"].as_str().unwrap();
    let revoke = client().delete(format!("{}/v1/tokens/{id}", console.base)).bearer_auth(ADMIN);
    assert_eq!(status(revoke).await, 200);
    eventually("the session has ended", async || {
        match status(with(console.get("/v1/stats"))).await {
            401 => Ok(()),
            other => Err(format!("the answer is {other}")),
        }
    })
    .await;
}

#[tokio::test]
async fn signing_out_ends_a_session_in_all_pods_and_its_streams() {
    let console = Console::start().await;
    let settings = Settings {
        environment: vec![console.settings.environment[1].clone()],
        ..console.settings.clone()
    };
    let second = Pod::start("second", "ingest", &settings).await;
    let [one, other] =
        [console.sign_in(ADMIN).await.unwrap(), console.sign_in(ADMIN).await.unwrap()];
    let stats = |session: &Session| session.shown(client().get(second.url("/v1/stats")));
    assert_eq!((status(stats(&one)).await, status(stats(&other)).await), (200, 200));
    let stream = one.shown(client().get(second.url("/console/events?view=pods"))).send();
    let stream = stream.await.unwrap();
    assert_eq!(stream.status(), 200);
    // Asking for the signed-in user prolongs the session: the cookie changes.
    let asked = one.shown(console.get("/console/session")).send().await.unwrap();
    let renewed = asked.headers()[header::SET_COOKIE].to_str().unwrap().to_owned();
    let said: Value = asked.json().await.unwrap();
    assert_eq!((&said["caller"], said.get("secret")), (&json!("admin_token"), None));
    let cookie = renewed.split(';').next().unwrap().to_owned();
    assert_ne!(cookie, one.cookie);
    let renewed = Session { cookie, secret: one.secret.clone() };
    assert_eq!(status(stats(&renewed)).await, 200);

    let out = renewed.shown(client().delete(format!("{}/console/session", console.base)));
    assert_eq!(status(out.header(header::ORIGIN, &console.base)).await, 204);
    for session in [&one, &renewed] {
        eventually("the session has ended", async || match status(stats(session)).await {
            401 => Ok(()),
            other => Err(format!("the answer is {other}")),
        })
        .await;
        assert_eq!(status(session.shown(console.get("/v1/stats"))).await, 401);
        assert_eq!(status(session.shown(console.get("/console/session"))).await, 204);
    }
    within("the stream ends", stream.bytes()).await.unwrap();
    assert_eq!(status(stats(&other)).await, 200);
    // The secret does not become a header of a message.
    let send = other.shown(client().post(second.url("/v1/messages")));
    let send = send
        .header(header::ORIGIN, second.url(""))
        .json(&json!({"destinations": ["none"], "body": 1}));
    assert_eq!(status(send).await, 404);
    // A pod that starts later also knows that the session has ended.
    let third = Pod::start("third", "ingest", &settings).await;
    assert_eq!(status(one.shown(client().get(third.url("/v1/stats")))).await, 401);
    assert_eq!(status(other.shown(client().get(third.url("/v1/stats")))).await, 200);
}

#[tokio::test]
async fn the_page_may_load_only_its_own_files() {
    let console = Console::start().await;
    let answer = console.get("/console").send().await.unwrap();
    let policy = answer.headers()[header::CONTENT_SECURITY_POLICY].to_str().unwrap().to_owned();
    for part in
        ["default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'"]
    {
        assert!(policy.contains(part), "{policy}");
    }
    assert!(!policy.contains("unsafe"), "{policy}");
    let tag = answer.headers()[header::ETAG].clone();
    let page = answer.text().await.unwrap();
    let linked = page.split("href=\"").skip(1).chain(page.split("src=\"").skip(1));
    let mut files = 0;
    for file in linked.filter_map(|rest| rest.split('"').next()) {
        assert!(file.starts_with("/console/"), "{file} is loaded from elsewhere");
        assert_eq!(status(console.get(file)).await, 200, "{file}");
        files += 1;
    }
    assert_eq!(files, 3, "{page}");
    let held = console.get("/console").header(header::IF_NONE_MATCH, tag);
    assert_eq!(status(held).await, StatusCode::NOT_MODIFIED.as_u16());
    assert_eq!(status(console.get("/console/other.js")).await, 404);
}

/// The number of reads of the log from Redis. In this test, only views of the console read it.
async fn reads(redis: &TestRedis) -> u64 {
    calls(redis, "cmdstat_lrange").await
}

async fn calls(redis: &TestRedis, command: &str) -> u64 {
    let text = redis.info(command).await;
    let calls = text.strip_prefix("calls=").and_then(|rest| rest.split(',').next());
    calls.and_then(|calls| calls.parse().ok()).unwrap_or_default()
}

#[tokio::test]
async fn hour_of_charts_is_kept_before_a_page_is_open() {
    let console = Console::start().await;
    let path = format!("{}/v1/destinations/erp", console.base);
    let define = client().put(&path).bearer_auth(ADMIN);
    let define =
        define.json(&json!({"url": "http://127.0.0.1:9/", "transform": {"kind": "worker"}}));
    assert_eq!(status(define).await, 201);
    let send = client().post(console.pod.url("/v1/destinations/erp/messages")).bearer_auth(ADMIN);
    assert_eq!(status(send.body("x")).await, 202);
    let body = json!({"name": "of crm", "scopes": ["read"], "destinations": ["crm"]});
    let made = client().post(format!("{}/v1/tokens", console.base)).bearer_auth(ADMIN).json(&body);
    let made: Value = made.send().await.unwrap().json().await.unwrap();

    // The first point of another pod has what is there when it starts.
    let environment = vec![console.settings.environment[1].clone()];
    let second =
        Pod::start("second", "ingest", &Settings { environment, ..console.settings.clone() }).await;
    let get = |path: &str, token: &str| client().get(second.url(path)).bearer_auth(token).send();
    for path in ["/console/hour", "/console/hour?destination=erp"] {
        eventually("the pod has a point", async || {
            let charts: Value = get(path, ADMIN).await.unwrap().json().await.unwrap();
            let columns = ["pending", "retrying", "in_per_second"].map(|name| &charts[name]);
            match columns == [&json!([1]), &json!([0]), &json!([null])] {
                true => Ok(()),
                false => Err(charts.to_string()),
            }
        })
        .await;
    }
    let limited = made["token"].as_str().unwrap();
    let all: Value = get("/console/hour", limited).await.unwrap().json().await.unwrap();
    assert_eq!(all["at_ms"], json!([]), "it may not see the sum of all");
    assert_eq!(get("/console/hour?destination=erp", limited).await.unwrap().status(), 403);
    assert_eq!(get("/console/hour?destination=", ADMIN).await.unwrap().status(), 404);
}

#[tokio::test]
async fn strip_is_read_once_for_all_watchers_and_never_for_none() {
    let console = Console::start().await;
    let path = format!("{}/v1/destinations/erp", console.base);
    let define = client().put(path).bearer_auth(ADMIN);
    let define =
        define.json(&json!({"url": "http://127.0.0.1:9/", "transform": {"kind": "worker"}}));
    assert_eq!(status(define).await, 201);
    let view = "/console/events?view=lane&destination=erp";
    let mut streams = Vec::new();
    for _ in 0..10 {
        streams.push(console.get(view).bearer_auth(ADMIN).send().await.unwrap());
    }
    // All streams get frames from the same reads.
    let mut frames = vec![0; streams.len()];
    let before = reads(&console.redis).await;
    for _ in 0..4 {
        for (stream, frames) in streams.iter_mut().zip(&mut frames) {
            let chunk = stream.chunk().await.unwrap().unwrap();
            assert!(chunk.starts_with(b"data:"), "{chunk:?}");
            *frames += 1;
        }
    }
    let took = reads(&console.redis).await - before;
    assert!((1..=20).contains(&took), "{took} reads for 40 frames");
    drop(streams);
    // The pod asks Redis for the time once a second. This test uses that as its clock.
    let (mut last, mut since) = (reads(&console.redis).await, 0);
    eventually("nothing is read any more", async || {
        let (now, ticks) =
            (reads(&console.redis).await, calls(&console.redis, "cmdstat_time").await);
        if since == 0 || now != last {
            (last, since) = (now, ticks);
        }
        if ticks < since + 3 { Err(format!("{now} reads")) } else { Ok(()) }
    })
    .await;
}

#[tokio::test]
async fn the_tests_in_a_browser_pass() {
    let mut build = Command::new(root().join("scripts/node-client.sh"));
    let mut command = Command::new("npm");
    command.current_dir(root().join("web/console"));
    command.args(["test", "--silent"]).env("RESEQ_BIN", program());
    let run = tokio::task::spawn_blocking(move || {
        assert!(build.status().unwrap().success(), "the packages cannot be installed");
        command.output().unwrap()
    });
    let run = run.await.unwrap();
    let text = String::from_utf8_lossy(&run.stdout).into_owned();
    assert!(run.status.success(), "{text}\n{}", String::from_utf8_lossy(&run.stderr));
    let number = |label: &str| -> u64 {
        let rest = text.rsplit_once(label).unwrap_or_else(|| panic!("no {label}: {text}")).1;
        rest.split_whitespace().next().unwrap().parse().unwrap()
    };
    assert_eq!((number("# fail "), number("# skipped ")), (0, 0), "{text}");
    assert!(number("# pass ") > 14, "{text}");
}
