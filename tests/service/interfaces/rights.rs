//! Tests a Redis user who lacks rights: the pod names the missing right, duplicates nothing, and
//! continues when the right is granted again.

use std::{collections::BTreeSet, sync::Arc};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufStream},
    net::TcpStream,
};

use super::{Said, said};
use crate::support::{
    pods::{Pod, Settings, client, without_settings},
    receiver::{Fault, Inbox, Receiver},
    redis::{PASSWORD, TestRedis, minimal_rules},
    wait::{eventually, within},
};

/// A user created in the usual way has no rights for channels.
const ORDINARY: [&str; 2] = ["~reseq*", "+@all"];

/// Pods whose Redis user is `svc`.
struct Limited {
    redis: TestRedis,
    pod: Pod,
    inbox: Arc<Inbox>,
    receiver: Receiver,
    settings: Settings,
}

impl Limited {
    async fn start(rules: &[&str]) -> Limited {
        let redis = TestRedis::start().await;
        redis.acl(&["reset", "on", &format!(">{PASSWORD}")]).await;
        redis.acl(rules).await;
        let inbox = Arc::new(Inbox::default());
        let receiver = Receiver::http(&inbox).await;
        let settings = Settings {
            redis: "timeout_ms = 1000".into(),
            ingest: "retry_ms = 300".into(),
            tcp: vec![("erp", "lines")],
            ..Settings::new(&redis.url_as_svc())
        };
        let url = format!("url = \"{}\"", receiver.url());
        let settings = settings.destination("erp", &url).destination(
            "shaped",
            &format!("{url}\ntransform = {{ kind = \"jq\", expression = \".\" }}"),
        );
        let pod = Pod::start("reseq", "ingest,processor,sender", &settings).await;
        Limited { redis, pod, inbox, receiver, settings }
    }

    async fn send(&self, name: &str, body: Value) -> Said {
        let url = self.pod.url(&format!("/v1/destinations/{name}/messages"));
        said(client().post(url).json(&body)).await
    }

    async fn post(&self, path: &str, body: Value) -> Said {
        said(client().post(self.pod.url(path)).json(&body)).await
    }

    /// Like `post`, but it must succeed.
    async fn does(&self, path: &str, body: Value) -> Value {
        let answer = self.post(path, body).await;
        assert!((200..300).contains(&answer.status), "{path}: {} {}", answer.status, answer.body);
        answer.body
    }

    async fn readyz(&self) -> (u16, String) {
        let answer = client().get(self.pod.url("/readyz")).send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    }

    /// The commands refused to the user since the last call.
    async fn refused(&self) -> String {
        let log: ::redis::Value = self.redis.ask(&["ACL", "LOG"]).await.unwrap();
        self.redis.ask::<()>(&["ACL", "LOG", "RESET"]).await.unwrap();
        match &log {
            ::redis::Value::Array(entries) if entries.is_empty() => String::new(),
            entries => format!("{entries:?}"),
        }
    }

    /// Waits until nothing is pending, so that no script of the destination is about to run.
    async fn settles(&self, name: &str) {
        eventually("all is settled", async || {
            let url = self.pod.url(&format!("/v1/destinations/{name}/stats"));
            let stats = said(client().get(url)).await.body;
            if stats["pending"] == 0 { Ok(()) } else { Err(stats.to_string()) }
        })
        .await;
    }

    fn log_lines(&self, words: &[&str]) -> usize {
        let log = self.pod.log();
        log.lines().filter(|line| words.iter().all(|word| line.contains(word))).count()
    }
}

#[tokio::test]
async fn user_without_channels_stores_each_once_and_delivers_it() {
    let limited = Limited::start(&ORDINARY).await;
    for number in 0..10 {
        let answer = limited.send("shaped", json!(number)).await;
        let delivery = &answer.body["deliveries"][0];
        assert_eq!((answer.status, &delivery["duplicate"]), (202, &json!(false)));
        assert_eq!(delivery["sequence"], number + 1, "{}", answer.body);
    }
    limited.inbox.journal.reaches(10).await;
    let bodies: Vec<String> = limited.inbox.journal.all().into_iter().map(|one| one.body).collect();
    assert_eq!(bodies, (0..10).map(|number| number.to_string()).collect::<Vec<_>>());
    let (status, text) = limited.readyz().await;
    assert!(status == 200 && text.contains("&reseq:*"), "{status} {text}");
    eventually("it is logged", async || match limited.log_lines(&["ERROR", "&reseq:*"]) {
        1 => Ok(()),
        count => Err(format!("{count} lines")),
    })
    .await;
    // With the channels, wake-ups arrive, and there is no warning any more.
    limited.redis.acl(&["&reseq:*"]).await;
    eventually("wake-ups are heard", async || {
        limited.send("erp", json!("more")).await;
        match limited.pod.metric("reseq_wakes_total").await {
            heard if heard > 0.0 => Ok(()),
            _ => Err("none".to_owned()),
        }
    })
    .await;
    assert_eq!(limited.readyz().await, (200, "ready\n".to_owned()));
    assert!(!limited.pod.log().contains(PASSWORD));
}

/// With the rules of the reference, no command is ever refused.
#[tokio::test]
async fn everything_runs_under_the_rights_that_the_reference_names() {
    let rules = minimal_rules();
    let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
    let limited = Limited::start(&rules).await;
    let url = limited.receiver.url();
    let put = async |path: &str, body: Value| {
        let answer = said(client().put(limited.pod.url(path)).json(&body)).await;
        assert!((200..300).contains(&answer.status), "{path}: {}", answer.body);
    };
    put(
        "/v1/destinations/keyed",
        json!({"url": url, "ordering": "key", "log_max": 10, "log_bodies": true}),
    )
    .await;
    put(
        "/v1/destinations/bag",
        json!({"url": url, "ordering": "none", "delivery": {"attempts_max": 1}}),
    )
    .await;
    let work = json!({"url": url, "transform": {"kind": "worker", "attempts_max": 1},
                      "processing": "serial", "on_exhausted": "dead_letter"});
    put("/v1/destinations/work", work).await;
    put("/v1/topics/all", json!({"destinations": ["erp", "keyed", "bag"]})).await;

    // Ingest: HTTP, batches, topics, TCP, with all fields that a message may have.
    limited
        .does("/v1/messages", json!({"topic": "all", "body": "t", "idempotency_key": "k"}))
        .await;
    let message = json!({"destinations": ["keyed"], "key": "a", "body": 1, "delay_ms": 1});
    limited.does("/v1/messages", message).await;
    limited.does("/v1/messages", json!({"destinations": ["bag"], "body": 2, "priority": 9})).await;
    assert_eq!(limited.send("shaped", json!(3)).await.status, 202);
    let mut tcp = BufStream::new(TcpStream::connect(limited.pod.addresses.tcp(0)).await.unwrap());
    tcp.write_all(b"over tcp\n").await.unwrap();
    tcp.flush().await.unwrap();
    let mut line = String::new();
    within("an answer", tcp.read_line(&mut line)).await.unwrap();
    assert!(line.starts_with("OK "), "{line}");
    limited.inbox.journal.reaches(7).await;

    // Workers: a lease extended, completed, requeued, failed; a dead letter redriven and discarded.
    for number in 0..4 {
        assert_eq!(limited.send("work", json!(format!("w{number}"))).await.status, 202);
    }
    for end in ["requeue", "complete", "fail", "fail"] {
        let leased = limited
            .does(
                "/v1/leases",
                json!({"destinations": ["work"], "wait_ms": 60_000, "lease_ms": 60_000}),
            )
            .await;
        let token = leased["leases"][0]["token"].clone();
        assert!(token.is_string(), "{leased}");
        limited.does("/v1/leases/extend", json!({"items": [{"token": token}]})).await;
        let body = if end == "complete" { json!({"body": "done"}) } else { json!({}) };
        let mut items = json!({"items": [body]});
        items["items"][0]["token"] = token;
        let ended = limited.does(&format!("/v1/leases/{end}"), items).await;
        assert_eq!(ended["results"][0]["status"], "ok", "{end}: {ended}");
    }
    let dead =
        async || said(client().get(limited.pod.url("/v1/destinations/work/dead-letters"))).await;
    eventually("there are two dead letters", async || {
        let letters = dead().await.body["items"].as_array().map_or(0, Vec::len);
        if letters == 2 { Ok(()) } else { Err(letters.to_string()) }
    })
    .await;
    limited
        .does("/v1/destinations/work/dead-letters/redrive", json!({"filter": {"to_sequence": 3}}))
        .await;
    limited.does("/v1/destinations/work/dead-letters/discard", json!({"all": true})).await;

    // Interventions.
    limited.does("/v1/destinations/erp/pause", json!({"what": "delivery"})).await;
    for number in 0..3 {
        assert_eq!(limited.send("erp", json!(number)).await.status, 202);
    }
    let head = eventually("all earlier messages have left", async || {
        let stats = said(client().get(limited.pod.url("/v1/destinations/erp/stats"))).await.body;
        let head = stats["head"]["sequence"].clone();
        if stats["pending"] == 3 { Ok(head) } else { Err(stats.to_string()) }
    })
    .await;
    for path in ["", "/stats", "/messages", "/log", "/operations"] {
        let answer = said(client().get(limited.pod.url(&format!("/v1/destinations/erp{path}"))));
        assert_eq!(answer.await.status, 200, "{path}");
    }
    limited.does("/v1/destinations/erp/skip-head", json!({"sequence": head})).await;
    let purged = limited.does("/v1/destinations/erp/purge", json!({})).await;
    let id = purged["id"].as_str().unwrap();
    limited.does(&format!("/v1/destinations/erp/operations/{id}/cancel"), json!({})).await;
    limited.does("/v1/destinations/erp/resume", json!({})).await;
    let replay = json!({"from_sequence": 1, "to_destination": "erp"});
    limited.does("/v1/destinations/keyed/replay", replay).await;
    limited.inbox.always(Some(Fault::Refused));
    assert_eq!(limited.send("bag", json!("refused for good")).await.status, 202);
    eventually("it is halted", async || {
        let stats = said(client().get(limited.pod.url("/v1/destinations/bag/stats"))).await.body;
        if stats["halted"] == 1 { Ok(()) } else { Err(stats.to_string()) }
    })
    .await;
    limited.inbox.always(None);
    let head = said(client().get(limited.pod.url("/v1/destinations/bag/messages"))).await.body;
    let sequence = head["items"][0]["sequence"].clone();
    limited.does("/v1/destinations/bag/retry-head", json!({"sequence": sequence})).await;
    let second = Pod::start("second", "ingest,processor,sender", &limited.settings).await;
    assert_eq!(limited.send("shaped", json!("after a pod has joined")).await.status, 202);
    for name in ["work", "bag"] {
        let url = second.url(&format!("/v1/destinations/{name}?force=true"));
        let removed = client().delete(url).send().await.unwrap().status();
        assert!(removed.is_success(), "{name}: {removed}");
    }
    let topic = client().delete(second.url("/v1/topics/all")).send().await.unwrap();
    assert!(topic.status().is_success());
    eventually("it is delivered", async || {
        let all = limited.inbox.journal.all();
        let is_it = |body: &str| body.contains("after a pod has joined");
        if all.iter().any(|one| is_it(&one.body)) { Ok(()) } else { Err("not yet".to_owned()) }
    })
    .await;
    assert_eq!(limited.readyz().await, (200, "ready\n".to_owned()));
    assert_eq!(limited.refused().await, "");
}

async fn check(redis: &TestRedis) -> (bool, String) {
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_reseq"));
    without_settings(&mut command);
    command.arg("check").env("RESEQ_REDIS_URL", redis.url_as_svc()).kill_on_drop(true);
    let output = within("reseq check ends", command.output()).await.unwrap();
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8(text).unwrap();
    assert!(!text.contains(PASSWORD), "{text}");
    (output.status.success(), text)
}

#[tokio::test]
async fn check_names_each_single_missing_right_and_no_other() {
    let redis = TestRedis::start().await;
    let rules: Vec<String> = minimal_rules();
    let all: Vec<&str> = rules.iter().map(String::as_str).collect();
    redis.acl(&all).await;
    let (is_fit, text) = check(&redis).await;
    assert!(is_fit && !text.contains("lacks"), "{text}");
    let named = |text: &str| -> BTreeSet<String> {
        let rest = text.split_once("lacks rights").map_or("", |(_, rest)| rest);
        let words = rest.split([' ', ',', ';', '.', '\n']).map(|word| word.trim_matches(':'));
        words.filter(|word| word.starts_with(['+', '~', '&'])).map(str::to_owned).collect()
    };
    for rule in &rules {
        let without: Vec<&str> = all.iter().copied().filter(|other| other != rule).collect();
        redis.acl(&[&["reset", "on", &format!(">{PASSWORD}")], without.as_slice()].concat()).await;
        let (is_fit, text) = check(&redis).await;
        assert_eq!(named(&text), BTreeSet::from([rule.clone()]), "{text}");
        let is_hint =
            rule.starts_with('&') || rule.contains("publish") || rule.contains("subscribe");
        assert_eq!(is_fit, is_hint, "{rule}: {text}");
    }
}

#[tokio::test]
async fn what_redis_does_not_accept_is_named_and_the_password_is_not() {
    let redis = TestRedis::start().await;
    redis.acl(&ORDINARY).await;
    redis.acl(&["resetpass", ">another"]).await;
    let (is_fit, text) = check(&redis).await;
    assert!(!is_fit && text.contains("password of redis.url"), "{text}");
}

/// Rights are revoked while a pod runs, and granted again.
#[tokio::test]
async fn pod_lacking_a_right_is_unready_and_resumes_without_loss() {
    let limited = Limited::start(&["~reseq*", "&reseq*", "+@all"]).await;
    let mut expected = Vec::new();
    for command in ["zmscore", "publish", "info", "evalsha", "hset", "zadd", "set"] {
        limited.settles("shaped").await;
        limited.redis.acl(&[&format!("-{command}")]).await;
        let rule = format!("+{command}");
        let (status, text) = limited.readyz().await;
        assert!(status == 503 && text.starts_with("no_rights: ") && text.contains(&rule), "{text}");
        let mut stored = 0;
        for number in 0..5 {
            let body = format!("{command} {number}");
            let answer = limited.send("shaped", json!(body)).await;
            match answer.status {
                202 => {
                    expected.push(body);
                    stored += 1;
                }
                _ => answer.is_problem(503, "no_rights", &rule),
            }
        }
        // Wake-ups are only hints. Without any other command, a pod that knows it runs no scripts.
        assert_eq!(stored, if command == "publish" { 5 } else { 0 }, "{command}");
        eventually("it is logged once", async || match limited.log_lines(&["ERROR", &rule]) {
            1 => Ok(()),
            count => Err(format!("{count} lines")),
        })
        .await;
        limited.redis.acl(&[&rule]).await;
        eventually("it is ready again", async || match limited.readyz().await {
            (200, _) => Ok(()),
            (status, text) => Err(format!("{status} {text}")),
        })
        .await;
        let body = format!("{command} after");
        assert_eq!(limited.send("shaped", json!(body)).await.status, 202);
        expected.push(body);
        limited.inbox.journal.reaches(expected.len()).await;
    }
    let mut places = BTreeSet::new();
    let all = limited.inbox.journal.all().into_iter();
    // Deliveries that could not be settled are repeated. Their positions identify them.
    let firsts = all.filter(|one| {
        let headers = one.headers.clone().unwrap();
        places.insert((headers.epoch, headers.sequence))
    });
    let bodies: Vec<String> = firsts.map(|one| serde_json::from_str(&one.body).unwrap()).collect();
    assert_eq!(bodies, expected);
    assert!(!limited.pod.log().contains(PASSWORD));
}

/// Until the pod knows that a right is missing, a script may stop half-way. The answer does not deny what it stored.
#[tokio::test]
async fn script_stopped_by_a_lost_right_is_not_confirmed_nor_repeated() {
    let limited = Limited::start(&["~reseq*", "&reseq*", "+@all"]).await;
    assert_eq!(limited.send("shaped", json!("before")).await.status, 202);
    limited.inbox.journal.reaches(1).await;
    limited.settles("shaped").await;
    // Ingest stores the record before it adds the message to its lane.
    limited.redis.acl(&["-zadd"]).await;
    let answer = limited.send("shaped", json!("half")).await;
    let code = answer.body["code"].as_str().unwrap_or_default();
    assert!(["not_confirmed", "no_rights"].contains(&code), "{}", answer.body);
    let mut refused = limited.send("shaped", json!("refused")).await;
    while refused.body["code"] == "not_confirmed" {
        refused = limited.send("shaped", json!("refused")).await;
    }
    refused.is_problem(503, "no_rights", "+zadd");
    assert_eq!(limited.log_lines(&["ERROR", "+zadd"]), 1);
    limited.redis.acl(&["+zadd"]).await;
    eventually("it is ready again", async || match limited.readyz().await {
        (200, _) => Ok(()),
        (status, text) => Err(format!("{status} {text}")),
    })
    .await;
    assert_eq!(limited.send("shaped", json!("after")).await.status, 202);
    limited.inbox.journal.reaches(2).await;
    let bodies: Vec<String> = limited.inbox.journal.all().into_iter().map(|one| one.body).collect();
    assert_eq!(bodies, ["\"before\"", "\"after\""]);
}

#[tokio::test]
async fn what_is_damaged_is_named_and_the_pod_stays_ready() {
    let limited = Limited::start(&["~reseq*", "&reseq*", "+@all"]).await;
    assert_eq!(limited.send("erp", json!("before")).await.status, 202);
    limited.inbox.journal.reaches(1).await;
    let keys: Vec<String> = limited.redis.ask(&["KEYS", "reseq:*:d:erp"]).await.unwrap();
    let messages = format!("{}:messages", keys[0]);
    limited.redis.ask::<()>(&["SET", &messages, "spoilt"]).await.unwrap();
    for _ in 0..3 {
        let what = format!("{messages} has the type string instead of hash");
        limited.send("erp", json!("while")).await.is_problem(500, "damaged", &what);
    }
    assert_eq!(limited.send("shaped", json!("others go on")).await.status, 202);
    limited.inbox.journal.reaches(2).await;
    let (status, text) = limited.readyz().await;
    assert!(
        status == 200
            && text.contains("damaged: erp: ingest_ready_fast: ")
            && text.contains(&messages)
    );
    assert_eq!(limited.pod.metric("reseq_damaged{place=\"erp\"}").await, 1.0);
    assert_eq!(limited.log_lines(&["ERROR", "location=\"erp\"", "call=\"ingest"]), 1);
    limited.redis.ask::<()>(&["DEL", &messages]).await.unwrap();
    eventually("it is named no longer", async || {
        assert_eq!(limited.send("erp", json!("after")).await.status, 202);
        match limited.readyz().await {
            (200, text) if text == "ready\n" => Ok(()),
            (status, text) => Err(format!("{status} {text}")),
        }
    })
    .await;
    assert_eq!(limited.pod.metric("reseq_damaged{place=\"erp\"}").await, 0.0);
}

#[test]
fn the_rules_of_the_reference_are_those_that_are_asked_for() {
    let commands = minimal_rules().into_iter().filter(|rule| rule.starts_with('+'));
    assert_eq!(commands.collect::<BTreeSet<_>>(), store::rights_needed());
}
