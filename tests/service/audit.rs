//! Tests the audit log: every action of an operator has an entry, even if the request is refused
//! or the client disconnects.

use std::collections::BTreeSet;

use reqwest::Method;
use serde_json::{Value, json};
use support::{
    pods::{Pod, Settings, client, without_settings},
    redis::TestRedis,
    source::program,
    wait::{eventually, within},
};
use tokio::{io::AsyncWriteExt, net::TcpStream, process::Command};

use crate::support;

const ADMIN: &str = "an-admin-token-for-the-audit-log";
const KEY: &str = "reseq:{index}:audit";
/// The number of entries that these pods keep.
const ENTRIES_MAX: usize = 60;

struct Audited {
    redis: TestRedis,
    pod: Pod,
}

impl Audited {
    async fn start() -> Audited {
        let redis = TestRedis::start().await;
        let mut settings = Settings::new(redis.url());
        settings.environment = vec![
            ("RESEQ_AUTH_ADMIN_TOKEN".into(), ADMIN.into()),
            ("RESEQ_AUDIT_ENTRIES_MAX".into(), ENTRIES_MAX.to_string()),
        ];
        let pod = Pod::start("audited", "ingest,processor,sender", &settings).await;
        Audited { redis, pod }
    }

    async fn ask(&self, token: &str, method: &str, path: &str, body: Value) -> (u16, Value) {
        let method: Method = method.parse().unwrap();
        let mut request = client().request(method, self.pod.url(path)).bearer_auth(token);
        if !body.is_null() {
            request = request.json(&body);
        }
        let answer = request.send().await.unwrap();
        let status = answer.status().as_u16();
        (status, answer.json().await.unwrap_or_default())
    }

    /// A page of the audit log.
    async fn page(&self, query: &str) -> Value {
        let path = format!("/v1/audit?{query}");
        let (status, page) = self.ask(ADMIN, "GET", &path, Value::Null).await;
        assert_eq!(status, 200, "{page}");
        page
    }

    async fn entries(&self, query: &str) -> Vec<Value> {
        self.page(query).await["items"].as_array().unwrap().clone()
    }

    async fn define(&self, name: &str) {
        let definition = json!({"url": "http://127.0.0.1:9/", "transform": {"kind": "worker"}});
        let path = format!("/v1/destinations/{name}");
        assert!(self.ask(ADMIN, "PUT", &path, definition).await.0 < 300);
    }

    /// The actions of the OpenAPI document: method, path, and the verb.
    async fn actions(&self) -> Vec<(String, String, String)> {
        let (_, document) = self.ask(ADMIN, "GET", "/openapi.json", Value::Null).await;
        let mut actions = Vec::new();
        for (path, item) in document["paths"].as_object().unwrap() {
            for (method, operation) in item.as_object().unwrap() {
                let verb = operation["operationId"].as_str().unwrap().to_owned();
                let is_of_messages = path.ends_with("/messages") && method == "post";
                let is_of_workers = path.starts_with("/v1/leases");
                let is_of_consumers =
                    path.starts_with("/v1/deliveries") || path.ends_with("/consume");
                if method != "get" && !is_of_messages && !is_of_workers && !is_of_consumers {
                    actions.push((method.to_uppercase(), path.clone(), verb));
                }
            }
        }
        actions
    }
}

#[tokio::test]
async fn every_action_has_an_entry_and_nothing_else_has() {
    let audited = Audited::start().await;
    let actions = audited.actions().await;
    assert!(actions.len() >= 20, "{actions:?}");
    for (method, path, verb) in &actions {
        audited.define("erp").await;
        let filled = path.replace("{destination}", "erp").replace("{topic}", "all");
        let filled = filled.replace("{sequence}", "7").replace("{id}", "abc");
        // Without a body, most actions are refused. A refusal is an outcome too.
        let (status, answer) = audited.ask(ADMIN, method, &filled, Value::Null).await;
        let newest = audited.entries("limit=1").await.remove(0);
        let outcome = match status {
            200..=299 => json!("succeeded"),
            _ => answer["code"].clone(),
        };
        let expected = json!([verb, outcome, "admin_token"]);
        let found = json!([newest["action"], newest["outcome"], newest["actor"]]);
        assert_eq!(found, expected, "{method} {path}: {status} {answer}\n{newest}");
        let of_erp = path.contains("{destination}");
        assert_eq!(newest["destination"] == "erp", of_erp, "{newest}");
        assert!(newest["address"].as_str().unwrap().starts_with("127.0.0.1:"), "{newest}");
    }
    // Reading, sending and working are not actions. Requests refused because of their token are not recorded either.
    let newest = audited.entries("limit=1").await;
    audited.define("erp").await;
    let (send, claim) = ("/v1/destinations/erp/messages", json!({"destinations": ["erp"]}));
    assert_eq!(audited.ask(ADMIN, "POST", send, json!(1)).await.0, 202);
    assert_eq!(audited.ask(ADMIN, "POST", "/v1/leases", claim).await.0, 200);
    assert_eq!(audited.ask(ADMIN, "GET", "/v1/destinations/erp", Value::Null).await.0, 200);
    for token in ["wrong", ""] {
        let purge = audited.ask(token, "POST", "/v1/destinations/erp/purge", json!({})).await;
        assert_eq!(purge.0, 401);
    }
    let entries = audited.entries("limit=2").await;
    assert_eq!((&entries[0]["action"], &entries[1]), (&json!("define_destination"), &newest[0]));
}

#[tokio::test]
async fn an_entry_says_who_did_what_to_how_many_and_holds_no_secret() {
    let audited = Audited::start().await;
    audited.define("erp").await;
    audited.define("crm").await;
    let name = "Ada\u{202e}adA";
    let made = json!({"name": name, "scopes": ["operate", "ingest"]});
    let (status, made) = audited.ask(ADMIN, "POST", "/v1/tokens", made).await;
    assert_eq!(status, 201, "{made}");
    let (token, id) = (made["token"].as_str().unwrap(), made["id"].as_str().unwrap());
    for body in ["a secret body", "b", "c"] {
        let path = "/v1/destinations/erp/messages";
        assert_eq!(audited.ask(token, "POST", path, json!(body)).await.0, 202);
    }
    let purge = "/v1/destinations/erp/purge";
    assert_eq!(audited.ask(token, "POST", purge, json!({"dry_run": true})).await.0, 200);
    assert_eq!(audited.ask(token, "POST", purge, json!({})).await.0, 200);
    // A cancelled message can be cancelled again until its lane has passed it.
    eventually("the purged messages have left", async || {
        let stats = audited.ask(ADMIN, "GET", "/v1/destinations/erp/stats", Value::Null).await.1;
        if stats["pending"] == 0 { Ok(()) } else { Err(stats.to_string()) }
    })
    .await;
    let cancel = "/v1/destinations/erp/messages/1";
    assert_eq!(audited.ask(token, "DELETE", cancel, Value::Null).await.0, 409);
    let secret = json!({"url": "http://127.0.0.1:9/", "headers": {"x-key": "a secret header"}});
    assert_eq!(audited.ask(ADMIN, "PUT", "/v1/destinations/crm", secret).await.0, 200);
    assert_eq!(audited.ask(ADMIN, "DELETE", "/v1/destinations/crm", Value::Null).await.0, 200);

    let short = |entry: &Value| {
        let word = |field: &str| entry[field].as_str().unwrap_or_default().to_owned();
        (word("action"), word("outcome"), entry["affected"].as_u64().unwrap())
    };
    let of_ada = audited.entries(&format!("actor={id}")).await;
    let shown: Vec<_> = of_ada.iter().map(short).collect();
    let said = |action: &str, outcome: &str, count| (action.to_owned(), outcome.to_owned(), count);
    let expected = [
        said("cancel_message", "wrong_state", 0),
        said("purge", "succeeded", 3),
        said("purge", "running", 0),
        said("purge", "succeeded", 0),
    ];
    assert_eq!(shown, expected, "{of_ada:?}");
    assert_eq!((&of_ada[0]["target"], &of_ada[3]["dry_run"]), (&json!("1"), &json!(true)));
    assert_eq!(of_ada[0]["actor_name"], name);
    assert!(of_ada[1]["operation"] == of_ada[2]["operation"] && of_ada[1]["operation"].is_string());
    let made = audited.entries("action=make_token").await;
    assert_eq!((made.len(), &made[0]["target"]), (1, &json!(id)));
    let removed = audited.entries("action=remove_destination&destination=crm").await;
    assert_eq!((removed.len(), short(&removed[0]).2), (1, 1));
    let by_name = audited.entries("actor=Ada%E2%80%AEadA").await;
    assert_eq!(by_name, of_ada);

    // Pages, and filters by time, which use the clock of Redis.
    let all = audited.entries("").await;
    let mut paged = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = audited.page(&format!("limit=3{cursor}")).await;
        paged.extend(page["items"].as_array().unwrap().clone());
        let Some(next) = page["next_cursor"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(paged, all);
    let at = all[3]["occurred_at"].as_str().unwrap();
    let until = audited.entries(&format!("to_time={at}")).await;
    let from = audited.entries(&format!("from_time={at}")).await;
    assert!(until.contains(&all[3]) && from.contains(&all[3]), "{at}");
    assert!(!until.contains(&all[0]) && !from.contains(all.last().unwrap()), "{at}");
    let format = &time::format_description::well_known::Rfc3339;
    let time_of = |entry: &Value| {
        time::OffsetDateTime::parse(entry["occurred_at"].as_str().unwrap(), format).unwrap()
    };
    assert!(all.windows(2).all(|two| time_of(&two[0]) >= time_of(&two[1])), "{all:?}");
    for (query, code) in [
        ("cursor=7", "invalid_field"),
        ("from_time=soon", "invalid_field"),
        ("destination=A%0A", "invalid_field"),
        ("who=me", "invalid_field"),
        ("limit=0", "invalid_field"),
    ] {
        let path = format!("/v1/audit?{query}");
        let (status, problem) = audited.ask(ADMIN, "GET", &path, Value::Null).await;
        assert_eq!((status, &problem["code"]), (400, &json!(code)), "{query}: {problem}");
    }

    // Neither the audit log, nor the log, nor the output of the command contains secrets or bodies.
    let mut command = Command::new(program());
    without_settings(&mut command);
    command.args(["audit", "--limit", "50"]).env("RESEQ_URL", audited.pod.url(""));
    let printed = within("a command ends", command.env("RESEQ_TOKEN", ADMIN).output()).await;
    let printed = String::from_utf8(printed.unwrap().stdout).unwrap();
    assert!(printed.contains("purge") && printed.contains(id), "{printed}");
    assert_eq!(printed.lines().count(), all.len() + 1, "{printed}");
    let stored: Vec<Value> = audited.entries("").await;
    let log = audited.pod.log();
    assert!(log.contains("an operator acted") && log.contains("make_token"), "{log}");
    for text in [printed.clone(), log, json!(stored).to_string()] {
        assert!(
            !text.contains("a secret") && !text.contains(&token[17..]) && !text.contains(ADMIN)
        );
    }
    // A name cannot reverse the direction of text in lines for people.
    assert!(!printed.contains('\u{202e}') && !audited.pod.log().contains('\u{202e}'));
    assert!(printed.contains("Ada\\u{202e}adA"), "{printed}");
}

#[tokio::test]
async fn one_token_cannot_flood_out_the_audit_log() {
    let audited = Audited::start().await;
    audited.define("erp").await;
    let request = json!({"name": "flood", "scopes": ["operate"]});
    let (status, made) = audited.ask(ADMIN, "POST", "/v1/tokens", request).await;
    assert_eq!(status, 201, "{made}");
    let token = made["token"].as_str().unwrap();
    let (mut done, mut refused) = (0, 0);
    for at in 0..2 * ENTRIES_MAX {
        // Some actions succeed, others fail: both have entries.
        let what = if at % 2 == 0 { json!({"what": "delivery"}) } else { json!({"what": 7}) };
        let path = "/v1/destinations/erp/pause";
        match audited.ask(token, "POST", path, what).await {
            (429, problem) => {
                assert_eq!(problem["code"], "too_many_requests", "{problem}");
                refused += 1;
            }
            _ => done += 1,
        }
    }
    assert!(done >= ENTRIES_MAX / 10 && refused >= 1, "{done} {refused}");
    let by_flood = audited.entries("actor=flood&limit=1000").await.len();
    assert_eq!(by_flood, done, "each action that was admitted has its entry, and no other");
    assert_eq!(audited.entries("action=define_destination").await.len(), 1);
}

#[tokio::test]
async fn audit_log_is_bounded_unskippable_and_stops_no_action() {
    let audited = Audited::start().await;
    audited.define("erp").await;
    // The client leaves in the middle of its request.
    let head = format!(
        "POST /v1/destinations/erp/purge HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {ADMIN}\r\n\
         content-length: 100\r\n\r\n{{"
    );
    let mut stream = TcpStream::connect(audited.pod.addresses.http().unwrap()).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    socket2::SockRef::from(&stream).set_linger(Some(std::time::Duration::ZERO)).unwrap();
    drop(stream);
    eventually("an action whose client has left has its entry", async || {
        let found = audited.entries("action=purge").await;
        let outcomes: BTreeSet<&str> =
            found.iter().filter_map(|entry| entry["outcome"].as_str()).collect();
        match outcomes.iter().any(|outcome| ["unfinished", "invalid_body"].contains(outcome)) {
            true => Ok(()),
            false => Err(format!("{found:?}")),
        }
    })
    .await;

    for at in 0..ENTRIES_MAX + 10 {
        let what = json!({"what": if at % 2 == 0 { "delivery" } else { "ingest" }});
        let path = "/v1/destinations/erp/pause";
        assert_eq!(audited.ask(ADMIN, "POST", path, what).await.0, 200);
    }
    let kept: usize = audited.redis.ask(&["XLEN", KEY]).await.unwrap();
    assert_eq!(kept, ENTRIES_MAX);
    assert!(audited.entries("action=purge").await.is_empty());
    assert_eq!(audited.entries("limit=1000").await.len(), ENTRIES_MAX);

    // An entry of another program is shown, and breaks nothing.
    let _: String = audited.redis.ask(&["XADD", KEY, "*", "entry", "{\"actor\":7"]).await.unwrap();
    assert_eq!(audited.entries("limit=1").await[0]["outcome"], "unreadable");

    // If the key is not a stream, the action is still carried out.
    let _: () = audited.redis.ask(&["DEL", KEY]).await.unwrap();
    let _: () = audited.redis.ask(&["SET", KEY, "x"]).await.unwrap();
    let resume = "/v1/destinations/erp/resume";
    let (status, answer) = audited.ask(ADMIN, "POST", resume, json!({})).await;
    let paused = json!({"paused": {"ingest": false, "processing": false, "delivery": false}});
    assert_eq!((status, answer), (200, paused));
    let (status, problem) = audited.ask(ADMIN, "GET", "/v1/audit", Value::Null).await;
    assert_eq!((status, &problem["code"]), (500, &json!("damaged")), "{problem}");
    let request = client().get(audited.pod.url("/metrics")).bearer_auth(ADMIN);
    let metrics = request.send().await.unwrap().text().await.unwrap();
    assert!(metrics.contains("\nreseq_audit_failed_total 1\n"), "{metrics}");
    assert!(audited.pod.log().contains("could not be added to the audit log"));
    let _: () = audited.redis.ask(&["DEL", KEY]).await.unwrap();
    assert_eq!(audited.ask(ADMIN, "POST", resume, json!({})).await.0, 200);
    assert_eq!(audited.entries("").await.len(), 1);
}
