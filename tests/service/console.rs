//! The console: its session, its pages in a real Chromium, and what a view costs Redis.

use std::process::Command;

use reqwest::{RequestBuilder, StatusCode, header};
use serde_json::{Value, json};
use support::{
    pods::{Pod, Settings, client},
    ports::free_address,
    redis::TestRedis,
    source::{program, root},
    wait::eventually,
};

use crate::support;

const ADMIN: &str = "an-admin-token-for-the-console";

/// A pod with a listener for operators.
struct Console {
    redis: TestRedis,
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
        Console { redis, pod, base: format!("http://{admin}") }
    }

    fn get(&self, path: &str) -> RequestBuilder {
        client().get(format!("{}{path}", self.base))
    }

    /// Signs in; returns the cookie.
    async fn sign_in(&self, token: &str) -> Result<String, (u16, Value)> {
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
        Ok(cookie.split(';').next().unwrap().to_owned())
    }
}

async fn status(request: RequestBuilder) -> u16 {
    request.send().await.unwrap().status().as_u16()
}

#[tokio::test]
async fn a_session_is_accepted_only_from_pages_of_the_console_and_ends_with_its_token() {
    let console = Console::start().await;
    assert_eq!(console.sign_in("rsq_wrong").await.unwrap_err().0, 401);
    let made = client().post(format!("{}/v1/tokens", console.base)).bearer_auth(ADMIN);
    let made = made.json(&json!({"name": "browser", "scopes": ["operate"]})).send().await.unwrap();
    let made: Value = made.json().await.unwrap();
    let cookie = console.sign_in(made["token"].as_str().unwrap()).await.unwrap();
    let with = |request: RequestBuilder| request.header(header::COOKIE, &cookie);

    assert_eq!(status(with(console.get("/v1/stats"))).await, 200);
    assert_eq!(status(console.get("/v1/stats")).await, 401);
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
    // This one gets as far as the destination, which does not exist.
    assert_eq!(status(pause().header(header::ORIGIN, &console.base)).await, 404);
    let site = pause().header(header::ORIGIN, &console.base).header("sec-fetch-site", "cross-site");
    assert_eq!(status(site).await, 403);

    // The listener for producers has no console, and takes no cookie.
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
    for part in page.split('"').filter(|part| part.contains('/') && part.contains('.')) {
        assert!(part.starts_with("/console/"), "{part} is loaded from elsewhere");
        assert_eq!(status(console.get(part)).await, 200, "{part}");
    }
    let held = console.get("/console").header(header::IF_NONE_MATCH, tag);
    assert_eq!(status(held).await, StatusCode::NOT_MODIFIED.as_u16());
    assert_eq!(status(console.get("/console/other.js")).await, 404);
}

/// How often Redis was asked for a part of the log, which only views of the console read here.
async fn reads(redis: &TestRedis) -> u64 {
    calls(redis, "cmdstat_lrange").await
}

async fn calls(redis: &TestRedis, command: &str) -> u64 {
    let text = redis.info(command).await;
    let calls = text.strip_prefix("calls=").and_then(|rest| rest.split(',').next());
    calls.and_then(|calls| calls.parse().ok()).unwrap_or_default()
}

#[tokio::test]
async fn a_strip_is_read_once_for_all_who_watch_it_and_never_when_nobody_does() {
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
    // Each gets frames; all of them come from the same reads.
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
    // The pod asks for the time once a second: that is the clock of this test.
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
