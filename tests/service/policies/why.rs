//! Tests the report of what blocks a lane, over HTTP and by the command, for each cause.

use serde_json::{Value, json};

use crate::{
    operations::commands::run_at,
    policies::scenario::{ERP, Scenario},
    support::{
        pods::{Pod, Settings, client},
        wait::eventually,
    },
};

impl Scenario {
    async fn why(&self, query: &str) -> Value {
        self.ok("GET", &format!("/v1/destinations/{ERP}/why{query}"), Value::Null).await
    }

    /// Waits until this is the reported cause.
    pub async fn blocked_by(&self, cause: &str) -> Value {
        eventually(cause, async || {
            let why = self.why("").await;
            if why["cause"] == cause { Ok(why) } else { Err(why.to_string()) }
        })
        .await
    }

    /// Runs a command. Returns its output.
    pub async fn prints(&self, args: &[&str]) -> String {
        run_at(&self.pod.url(""), args, &[], "").await.ended(0)
    }
}

#[tokio::test]
async fn why_says_who_works_on_head_and_how_to_resume_if_halted() {
    let scenario = Scenario::start(json!({"transform": {"kind": "worker"}})).await;
    let why = scenario.why("").await;
    assert_eq!((&why["cause"], &why["head"]), (&json!("nothing"), &Value::Null), "{why}");
    scenario.send_all(&["one", "two", "three"]).await;
    let why = scenario.blocked_by("awaiting_worker").await;
    assert_eq!((&why["head"]["sequence"], &why["behind"]), (&json!(1), &json!(2)), "{why}");
    // Two bodies with quotes wait behind the head.
    assert_eq!(why["bytes_behind"], json!("\"two\"\"three\"".len()), "{why}");

    let lease = scenario.lease(json!({"worker": "host-7:42", "lease_ms": 3_600_000})).await;
    let why = scenario.blocked_by("processing").await;
    assert_eq!(why["head"]["lease"]["worker"], "host-7:42", "{why}");
    assert_eq!(why["head"]["lease"]["expires_at"], lease[0]["expires_at"], "{why}");
    assert!(why["explanation"].as_str().unwrap().contains("host-7:42"), "{why}");
    // The list of messages shows the worker too, and an extension keeps the name.
    let items = json!({"items": [{"token": lease[0]["token"], "lease_ms": 7_200_000}]});
    let extended = scenario.ok("POST", "/v1/leases/extend", items).await;
    let path = format!("/v1/destinations/{ERP}/messages?state=processing");
    let listed = scenario.ok("GET", &path, Value::Null).await;
    let held = &listed["items"][0]["lease"];
    assert_eq!(held["worker"], "host-7:42", "{listed}");
    assert_eq!(held["expires_at"], extended["results"][0]["expires_at"], "{listed}");

    scenario.end("fail", &lease, json!({"error": "no such \u{1b}[2Jaccount", "final": true})).await;
    let why = scenario.blocked_by("halted").await;
    assert_eq!(why["actions"][0]["command"], "reseq lanes retry erp --sequence 1", "{why}");
    let said = scenario.prints(&["why", ERP]).await;
    for part in [
        "head    1, id ",
        "halted in processing",
        "no such",
        "behind  2 messages",
        "reseq lanes skip erp --sequence 1",
    ] {
        assert!(said.contains(part), "{part:?} is missing:\n{said}");
    }
    assert!(!said.contains('\u{1b}'), "{said:?}");

    // The commands in the advice resolve it.
    scenario.prints(&["skip-head", ERP, "--sequence", "1", "--yes"]).await;
    assert_eq!(scenario.blocked_by("awaiting_worker").await["head"]["sequence"], 2);
}

#[tokio::test]
async fn worker_may_have_no_name_but_not_a_bad_one() {
    let scenario = Scenario::start(json!({"transform": {"kind": "worker"}})).await;
    scenario.send_all(&["one"]).await;
    let asked = json!({"destinations": [ERP], "worker": "a b"});
    let (status, problem) = scenario.ask("POST", "/v1/leases", asked).await;
    assert_eq!((status, &problem["code"]), (400, &json!("invalid_field")), "{problem}");
    assert!(problem["detail"].as_str().unwrap().starts_with("worker: "), "{problem}");
    let lease = scenario.lease(json!({})).await;
    let why = scenario.blocked_by("processing").await;
    assert_eq!(why["head"]["lease"].get("worker"), None, "{why}");
    scenario.end("requeue", &lease, json!({})).await;
}

#[tokio::test]
async fn with_ordering_by_key_each_lane_is_asked_for_by_its_key() {
    let scenario =
        Scenario::start(json!({"ordering": "key", "transform": {"kind": "worker"}})).await;
    for (body, key) in [("a1", "a b"), ("b1", "b"), ("a2", "a b")] {
        scenario.send(body, json!({"key": key})).await;
    }
    let lease = scenario.lease(json!({})).await;
    scenario.end("fail", &lease, json!({"error": "no", "final": true})).await;
    let why = scenario.why("?key=a%20b").await;
    assert_eq!((&why["cause"], &why["behind"]), (&json!("halted"), &json!(1)), "{why}");
    let command = "reseq lanes retry erp --key 'a b' --sequence 1";
    assert_eq!(why["actions"][0]["command"], command, "{why}");
    assert_eq!(why.get("bytes_behind"), None, "{why}");
    let why = scenario.why("?key=b").await;
    assert_eq!((&why["cause"], &why["behind"]), (&json!("awaiting_worker"), &json!(0)), "{why}");
    assert_eq!(scenario.why("?key=c").await["cause"], "nothing");
    // Without a key, the report is about the lane with the oldest head.
    assert_eq!(scenario.why("").await["key"], "a b");
    scenario.define("whole", json!({"url": scenario.receiver_url})).await;
    let (status, problem) =
        scenario.ask("GET", "/v1/destinations/whole/why?key=a", Value::Null).await;
    assert_eq!((status, &problem["code"]), (400, &json!("invalid_field")), "{problem}");
}

#[tokio::test]
async fn a_delivery_waits_for_its_backoff_for_a_pause_or_for_a_sender() {
    let scenario =
        Scenario::start(json!({"delivery": {"backoff_ms": 600_000, "backoff_max_ms": 600_000}}))
            .await;
    scenario.receiver.refuse("\"one\"", 503, None);
    scenario.send_all(&["one", "two"]).await;
    let why = scenario.blocked_by("backoff").await;
    assert!(why["explanation"].as_str().unwrap().contains("delivery has failed"), "{why}");
    assert!(why["next_attempt_at"].is_string(), "{why}");
    scenario.steer("pause", json!({"what": "delivery"})).await;
    let why = scenario.blocked_by("paused").await;
    assert_eq!(why["actions"][0]["command"], "reseq destinations resume erp delivery", "{why}");
    scenario.receiver.accept("\"one\"");
    scenario.steer("retry-head", json!({})).await;
    scenario.steer("resume", json!({})).await;
    scenario.receives(&["one", "two"]).await;
}

/// The sender is killed. Its key in Redis stays.
#[tokio::test]
async fn withdrawal_without_a_live_sender_waits_for_an_owner() {
    let mut scenario = Scenario::start_apart(json!({})).await;
    scenario.define(ERP, json!({})).await;
    scenario.send("one", json!({})).await;
    scenario.until("it has left", |stats| stats["delivered_total"] == 1).await;
    scenario.sender.take().unwrap().kill();
    scenario.send("two", json!({})).await;
    let path = format!("/v1/destinations/{ERP}/messages/2");
    let (status, answer) = scenario.ask("DELETE", &path, Value::Null).await;
    assert_eq!(status, 202, "{answer}");
    // Remove its heartbeat.
    scenario.redis.ask::<u64>(&["DEL", "reseq:pods"]).await.unwrap();
    let why = scenario.blocked_by("no_owner").await;
    assert_eq!(why["head"]["withdrawing"], true, "{why}");
    assert_eq!(why["actions"][0]["command"], "reseq serve --roles sender", "{why}");
    scenario.steer("pause", json!({"what": "processing"})).await;
    // A message that is not withdrawn names the pod that owned the partition.
    scenario.define("plain", json!({})).await;
    let epoch = |name: &str| {
        let keys = store::Keys::new("reseq", 64);
        keys.destination(&name.parse().unwrap()).partition.owner()
    };
    let former: String = scenario.redis.ask(&["GET", &epoch(ERP)]).await.unwrap();
    scenario.redis.ask::<()>(&["SET", &epoch("plain"), &former]).await.unwrap();
    scenario.ok("POST", "/v1/messages", json!({"destinations": ["plain"], "body": 1})).await;
    let why = scenario.ok("GET", "/v1/destinations/plain/why", Value::Null).await;
    let pod = former.split('.').next().unwrap();
    let said = format!("its last owner was {pod}, which no longer reports");
    assert!(why["explanation"].as_str().unwrap().contains(&said), "{why}");
}

#[tokio::test]
async fn backlog_that_drains_is_never_nothing_or_waiting() {
    let scenario = Scenario::start(json!({})).await;
    scenario.steer("pause", json!({"what": "delivery"})).await;
    const MESSAGES: usize = 4_000;
    let item = json!({"destinations": [ERP], "body": "x"}).to_string() + "\n";
    let request = client().post(scenario.pod.url("/v1/messages"));
    let request = request.header("content-type", "application/x-ndjson");
    let answer = request.body(item.repeat(MESSAGES)).send().await.unwrap();
    assert!(answer.status().is_success(), "{}", answer.status());
    scenario.until("all are stored", |stats| stats["pending"] == MESSAGES).await;
    scenario.steer("resume", json!({})).await;
    let mut causes = Vec::new();
    loop {
        let why = scenario.why("").await;
        let pending = scenario.stats().await["pending"].as_u64().unwrap();
        if pending == 0 {
            break;
        }
        let cause = why["cause"].as_str().unwrap().to_owned();
        assert!(["draining", "delivering", "paused"].contains(&&*cause), "{pending}: {why}");
        if cause == "draining" {
            assert!(why["explanation"].as_str().unwrap().contains("leave each second"), "{why}");
        }
        causes.push(cause);
    }
    assert!(causes.iter().any(|cause| cause == "draining"), "{causes:?}");
}

#[tokio::test]
async fn slow_delivery_is_compared_with_usual_ones() {
    let scenario = Scenario::start(json!({"log_max": 100})).await;
    scenario.send_all(&["one", "two"]).await;
    scenario.is_drained().await;
    let gate = scenario.receiver.gate.write().await;
    scenario.send("three", json!({})).await;
    let why = scenario.blocked_by("delivering").await;
    let said = why["explanation"].as_str().unwrap();
    let parts = ["Message 3 is being delivered. This has taken ", " so far; usual are ", " ms."];
    assert!(parts.iter().all(|part| said.contains(part)), "{said}");
    drop(gate);
    scenario.is_drained().await;
}

#[tokio::test]
async fn why_sums_up_all_lanes_that_wait_for_the_receiver() {
    let delivery = json!({"backoff_ms": 600_000, "backoff_max_ms": 600_000});
    let scenario = Scenario::start(json!({"ordering": "key", "delivery": delivery})).await;
    scenario.receiver.refuse_all(Some((503, usize::MAX)));
    for key in ["a", "b", "c"] {
        scenario.send("x", json!({"key": key})).await;
    }
    let why = eventually("all lanes have failed", async || {
        let why = scenario.why("").await;
        let said = why["summary"][0].as_str().unwrap_or_default();
        match said.starts_with("3 messages wait for the receiver: status 503, since 20") {
            true => Ok(why),
            false => Err(why.to_string()),
        }
    })
    .await;
    assert!(why["owner_seen_at"].is_string(), "{why}");
    let text = scenario.prints(&["why", ERP]).await;
    assert!(text.contains("in all  3 messages wait") && text.contains("last heartbeat"), "{text}");
}

#[tokio::test]
async fn why_names_the_worker_whose_lease_ended() {
    let scenario = Scenario::start(json!({"transform": {"kind": "worker"}})).await;
    scenario.send("one", json!({})).await;
    scenario.lease(json!({"worker": "w-7", "lease_ms": 100})).await;
    scenario.until("the lease has ended", |stats| stats["head"]["stalls"] == 1).await;
    let path = format!("/v1/destinations/{ERP}/messages/1");
    let message = scenario.ok("GET", &path, Value::Null).await;
    let detail = message["last_error"]["detail"].as_str().unwrap_or_default();
    assert!(detail.contains("its lease ran out: w-7 died"), "{message}");
}

#[tokio::test]
async fn takeover_wait_tells_no_time_that_runs_ahead() {
    let scenario = Scenario::start_apart(json!({})).await;
    scenario.define(ERP, json!({"ordering": "key"})).await;
    scenario.send("one", json!({"key": "a"})).await;
    scenario.receives(&["one"]).await;
    let name = ERP.parse().unwrap();
    let epoch = store::Keys::new("reseq", 64).destination(&name).partition.epoch();
    let wait = ["HSET", &epoch, "takeover_wait_ms", "60000"];
    scenario.redis.ask::<u64>(&wait).await.unwrap();
    scenario.send("two", json!({"key": "a"})).await;
    let why = scenario.blocked_by("takeover_wait").await;
    assert_eq!(why.get("next_attempt_at"), None, "{why}");
}

#[tokio::test]
async fn why_names_rate_limit_and_missing_redis_and_time_by_cause() {
    let scenario = Scenario::start(json!({"delivery": {"rate_per_second_max": 1}})).await;
    scenario.send_all(&["1", "2", "3", "4", "5", "6", "7", "8"]).await;
    let why = scenario.blocked_by("rate_limit").await;
    assert!(why["explanation"].as_str().unwrap().contains("allows 1 a second"), "{why}");

    scenario.define("held", json!({"transform": {"kind": "worker"}})).await;
    let item = json!({"destinations": ["held"], "body": 1});
    scenario.ok("POST", "/v1/messages", item).await;
    let times = eventually("the time is told", async || {
        let why = scenario.ok("GET", "/v1/destinations/held/why", Value::Null).await;
        let times = why["blocked_ms_by_cause"].clone();
        if times["awaiting_worker"].as_u64() > Some(0) { Ok(times) } else { Err(why.to_string()) }
    })
    .await;
    assert_eq!(times.as_object().unwrap().len(), 1, "{times}");
    let said = scenario.prints(&["why", "held"]).await;
    assert!(said.contains("of that ") && said.contains("awaiting_worker"), "{said}");

    scenario.redis.kill();
    let why = scenario.blocked_by("redis").await;
    assert_eq!(why["head"], Value::Null, "{why}");
    assert!(scenario.prints(&["why", ERP]).await.contains("Redis does not answer"));
}

#[tokio::test]
async fn pods_show_roles_and_partitions_and_missing_role_is_cause() {
    let mut scenario = Scenario::start_apart(json!({})).await;
    scenario.define(ERP, json!({})).await;
    let owned = |pods: &Value| {
        let pods = pods["items"].as_array().unwrap();
        let of = |pod: &Value| pod["partitions"].as_array().unwrap().len();
        pods.iter()
            .map(|pod| (pod["roles"][0].as_str().unwrap_or("").to_owned(), of(pod)))
            .collect()
    };
    let pods = eventually("both are listed", async || {
        let pods = scenario.ok("GET", "/v1/pods", Value::Null).await;
        let mut all: Vec<(String, usize)> = owned(&pods);
        all.sort();
        let expected = [("ingest".to_owned(), 0), ("sender".to_owned(), 64)];
        if all == expected { Ok(pods) } else { Err(pods.to_string()) }
    })
    .await;
    let this = pods["items"].as_array().unwrap().iter().find(|pod| pod["is_self"] == true);
    assert_eq!(this.unwrap()["roles"], json!(["ingest"]), "{pods}");
    let table = scenario.prints(&["pods"]).await;
    assert!(table.contains("sender") && table.contains("0-63"), "{table}");
    let owner = scenario.prints(&["pods", "--destination", ERP]).await;
    assert!(owner.contains("sender") && !owner.contains("ingest"), "{owner}");

    // No pod processes messages.
    let definition = scenario.with_transform(json!({}));
    scenario.define(ERP, definition).await;
    scenario.send_all(&["one"]).await;
    let why = scenario.blocked_by("no_processor").await;
    assert_eq!(why["actions"][0]["command"], "reseq serve --roles processor", "{why}");
    let settings = Settings::new(scenario.redis.url());
    let processor = Pod::start("processor", "processor", &settings).await;
    scenario.until("it is delivered", |stats| stats["delivered_total"] == 1).await;
    drop(processor);

    // No pod delivers: the sender's leases end when it stops.
    let mut sender = scenario.sender.take().unwrap();
    sender.terminate();
    eventually(
        "it has ended",
        async || if sender.has_ended() { Ok(()) } else { Err("it runs".to_owned()) },
    )
    .await;
    scenario.define("plain", json!({"url": scenario.receiver_url})).await;
    let item = json!({"destinations": ["plain"], "body": 1});
    scenario.ok("POST", "/v1/messages", item).await;
    let why = scenario.ok("GET", "/v1/destinations/plain/why", Value::Null).await;
    assert_eq!(why["cause"], "no_owner", "{why}");
}
