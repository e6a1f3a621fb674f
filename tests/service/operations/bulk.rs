//! Tests bulk operations: they can be watched and cancelled, and their results are known even
//! after their process is gone.

use serde_json::{Value, json};

use super::{
    Pod, Said, Service, Settings, client, dead_letters, each, eventually, place_of,
    purge::cancelled, said, work_of,
};

/// Number of messages for an operation that takes a while.
const MANY: u64 = 10_000;
/// Redis runs no script for this long, in ms. The progress of an operation is noted each second.
const PAUSE_MS: &str = "1500";

impl Service {
    async fn send_many(&self, name: &str, count: u64) {
        for from in (0..count).step_by(5_000) {
            let line = |n| format!("{}\n", json!({"destinations": [name], "body": n}));
            let lines: String = (from..count.min(from + 5_000)).map(line).collect();
            let batch = client().post(self.pod.url("/v1/messages"));
            let batch = batch.header("content-type", "application/x-ndjson").body(lines);
            assert_eq!(batch.send().await.unwrap().status(), 202);
        }
    }

    /// Turns all waiting messages into dead letters.
    async fn give_up(&self, name: &str, count: u64) {
        let known = super::known(&self.store, name).await;
        let all: Vec<(Option<String>, u64)> = (1..=count)
            .map(|sequence| (known.destination.lane_of(None, sequence), sequence))
            .collect();
        for some in all.chunks(store::WITHDRAW_MAX) {
            let withdrawal = store::Withdrawal {
                how: domain::Tombstone::DeadLettered,
                reason: "given up",
                error: None,
                messages: some,
            };
            let who = store::Who::Operator;
            self.store.withdraw(&known, who, &withdrawal).await.unwrap();
        }
        assert_eq!(self.counts(name).await["dead_letters"], count);
    }

    /// Stops scripts in Redis for so long that an operation surely lasts until its progress is noted.
    async fn pause_scripts(&self) {
        let _: String = self.redis.ask(&["CLIENT", "PAUSE", PAUSE_MS, "WRITE"]).await.unwrap();
    }

    /// Begins an operation that lasts a while.
    async fn begin_and_pause(&self, path: &str, body: Value) -> Value {
        let begun = self.begin(path, body).await;
        self.pause_scripts().await;
        begun
    }

    async fn operations(&self, name: &str, query: &str) -> Value {
        self.get(&format!("destinations/{name}/operations{query}")).await.ok()
    }

    /// This pod's view of an operation.
    async fn shown_by(&self, pod: &Pod, operation: &Value) -> Value {
        said(client().get(pod.url(&place_of(operation)))).await.ok()
    }

    async fn cancel(&self, operation: &Value) -> Said {
        said(client().post(self.pod.url(&format!("{}/cancel", place_of(operation))))).await
    }

    async fn second_pod(&self) -> Pod {
        Pod::start("second", "ingest,processor", &Settings::new(self.redis.url())).await
    }
}

fn number(operation: &Value, field: &str) -> u64 {
    operation[field].as_u64().unwrap_or_else(|| panic!("{field}: {operation}"))
}

#[tokio::test]
async fn an_operation_can_be_watched_until_it_has_succeeded() {
    let service = Service::start().await;
    dead_letters::with_letters(&service, json!({"transform": {"kind": "worker"}})).await;
    service.define("old", json!({"log_bodies": true})).await;
    for n in 1..=3 {
        service.send("old", json!(n), json!({})).await;
    }
    assert_eq!(service.hand("old").await.deliver(None).await, [1, 2, 3]);
    service.define_worker("heads", "none").await;
    for n in 1..=2 {
        service.send("heads", json!(n), json!({})).await;
        service.halt_next("heads", "no").await;
    }
    service.define_worker("full", "destination").await;
    for n in 1..=5 {
        service.send("full", json!(n), json!({})).await;
    }
    assert_eq!(service.lease("full", 1).await.len(), 1);
    let did = |matched: u64, affected: u64| json!({"matched": matched, "affected": affected, "failed": 0});
    let with = |mut work: Value, more: Value| {
        work.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        work
    };
    let epoch = service.get("destinations/crm/dead-letters/1").await.ok()["epoch"].clone();
    let moved = |old: u64, new: u64| json!({"sequence": old, "new_sequence": new, "epoch": epoch});
    let cases = [
        (
            "purge",
            "full/purge",
            json!({"dry_run": true}),
            with(
                did(5, 0),
                json!({"by_state": {
            "waiting": 4, "processing": 1, "delayed": 0, "ready": 0, "delivering": 0, "halted": 0}}),
            ),
        ),
        ("purge", "full/purge", json!({}), cancelled(4, 1)),
        (
            "redrive",
            "crm/dead-letters/redrive",
            json!({"sequences": [1, 2, 9]}),
            with(
                did(2, 2),
                json!({"gone": 1, "deliveries": [moved(1, 6), moved(2, 7)],
                "new_first_sequence": 6, "new_last_sequence": 7}),
            ),
        ),
        (
            "discard",
            "crm/dead-letters/discard",
            json!({"all": true}),
            with(did(2, 2), json!({"gone": 0})),
        ),
        (
            "replay",
            "old/replay",
            json!({"from_sequence": 2, "to_destination": "full"}),
            with(
                did(2, 2),
                json!({"duplicates": 0, "without_body": 0, "first_sequence": 2,
                "last_sequence": 3, "new_first_sequence": 6, "new_last_sequence": 7}),
            ),
        ),
        ("retry_heads", "heads/retry-head", json!({"all": true}), did(2, 2)),
    ];
    for (kind, path, body, work) in cases {
        println!("{path} {body}");
        let begun = service.begin(&format!("destinations/{path}"), body.clone()).await;
        let ended = service.ended(&begun).await;
        assert_eq!(begun["id"], ended["id"]);
        let name = path.split('/').next().unwrap();
        assert_eq!((&ended["kind"], &ended["destination"]), (&json!(kind), &json!(name)));
        assert_eq!(ended["dry_run"] == true, body["dry_run"] == true, "{ended}");
        assert_eq!(work_of("succeeded", ended.clone()), work, "{path}");
        assert_eq!(service.operations(name, "?limit=1").await["items"][0], ended, "{path}");
    }
    let kinds = each(&service.operations("full", "").await, "kind");
    assert_eq!(kinds, ["purge", "purge"]);
    // The list has the newest operation first, in pages.
    let all = each(&service.operations("crm", "").await, "id");
    let first = service.operations("crm", "?limit=1").await;
    assert_eq!(each(&first, "kind"), ["discard"]);
    let cursor = first["next_cursor"].as_str().unwrap();
    let second = service.operations("crm", &format!("?limit=1&cursor={cursor}")).await;
    assert_eq!(
        (each(&second, "kind"), &second["next_cursor"]),
        (vec![json!("redrive")], &Value::Null)
    );
    assert_eq!([each(&first, "id"), each(&second, "id")].concat(), all);
    assert_eq!(each(&service.operations("old", "").await, "kind"), ["replay"]);
}

#[tokio::test]
async fn an_answer_waits_for_the_end_as_long_as_the_client_likes() {
    let service = Service::start().await;
    service.define_worker("crm", "destination").await;
    let purge = |prefer: &str| {
        let request = client().post(service.pod.url("/v1/destinations/crm/purge"));
        said(request.header("prefer", prefer))
    };
    for prefer in ["wait=60", "wait=\"60\"", "handling=lenient, wait=60", "wait=6000000", "unknown"]
    {
        assert_eq!(purge(prefer).await.done(), cancelled(0, 0), "{prefer}");
    }
    for prefer in ["wait=soon", "wait=-1", "wait="] {
        purge(prefer).await.is_problem(400, "invalid_field", "Prefer: ");
    }
    service.send_many("crm", MANY).await;
    // The operation continues when the client has stopped waiting.
    for (count, prefer) in [(MANY, "wait=0"), (2, "Respond-Async"), (2, "respond-async; foo")] {
        let answer = purge(prefer).await;
        let ended = service.ended(&answer.body).await;
        let is_late = answer.status == 202;
        assert!(is_late || answer.status == 200, "{prefer}: {answer:?}");
        assert_eq!(answer.headers.contains_key("location"), is_late, "{prefer}");
        assert!(is_late || count < MANY, "{prefer}: so many are not purged at once");
        assert_eq!(number(&ended, "affected"), count, "{ended}");
        service.send("crm", json!(1), json!({})).await;
        service.send("crm", json!(2), json!({})).await;
    }
}

#[tokio::test]
async fn cancelled_operation_stops_halfway_and_repeat_does_the_rest() {
    let service = Service::start().await;
    service.define_worker("crm", "destination").await;
    service.define_worker("aside", "none").await;
    service.send_many("crm", MANY).await;
    service.send_many("aside", MANY).await;
    service.give_up("aside", MANY).await;
    let left = async |name: &str| {
        let field = if name == "crm" { "waiting" } else { "dead_letters" };
        number(&service.counts(name).await, field)
    };
    let count = MANY;
    for (name, path, body) in [
        ("crm", "crm/purge", json!({})),
        ("aside", "aside/dead-letters/redrive", json!({"all": true})),
    ] {
        let path = format!("destinations/{path}");
        let begun = service.begin(&path, body.clone()).await;
        assert_eq!(begun["state"], "running");
        let told = service.cancel(&begun).await;
        assert_eq!((told.status, &told.body["id"]), (202, &begun["id"]));
        // The operation continues until its process learns of the cancellation.
        service.pause_scripts().await;
        let ended = service.ended(&begun).await;
        assert_eq!((&ended["state"], ended.get("problem")), (&json!("cancelled"), None), "{path}");
        let affected = number(&ended, "affected");
        assert!(affected < count, "{affected} of {count}");
        assert_eq!(left(name).await, count - affected, "{path}");

        let rest = service.post(&path, body).await.done();
        assert_eq!(number(&rest, "affected"), count - affected, "{path}");
        assert_eq!(left(name).await, 0, "{name}");
        // Cancelling an ended operation changes nothing.
        let again = service.cancel(&ended).await;
        assert_eq!((again.status, &again.body), (202, &ended));
        assert_eq!(each(&service.operations(name, "").await, "state"), ["succeeded", "cancelled"]);
    }
    for id in ["0", "no-such-id", "..%2F..", "%00"] {
        let path = format!("destinations/crm/operations/{id}");
        service.get(&path).await.is_problem(404, "unknown_operation", "seven days");
        let cancel = service.post(&format!("{path}/cancel"), json!({})).await;
        cancel.is_problem(404, "unknown_operation", "seven days");
    }
}

#[tokio::test]
async fn an_operation_that_fails_says_why_and_how_far_it_came() {
    let service = Service::start().await;
    let worker = json!({"transform": {"kind": "worker"}});
    dead_letters::with_letters(&service, worker.clone()).await;
    let mut narrow = worker;
    narrow["backlog_max"] = json!(2);
    service.define("crm", narrow).await;
    let path = "destinations/crm/dead-letters/redrive";
    let failed = service.post(path, json!({"all": true})).await;
    failed.is_problem(429, "backlog_full", "1 were enqueued again");
    assert!(failed.headers.contains_key("retry-after"), "{failed:?}");
    let operation = failed.body["operation"].clone();
    let counts = ["matched", "affected", "failed"].map(|field| number(&operation, field));
    assert_eq!((&operation["state"], counts), (&json!("failed"), [4, 1, 3]), "{operation}");
    let problem = &operation["problem"];
    assert_eq!((&problem["code"], &problem["status"]), (&json!("backlog_full"), &json!(429)));
    assert_eq!(service.shown_by(&service.pod, &operation).await, operation);

    // If the client does not wait, this is the only answer.
    let request = client().post(service.pod.url(&format!("/v1/{path}")));
    let request = request.header("prefer", "respond-async").json(&json!({"all": true}));
    let answer = said(request).await;
    // A short operation may end before the answer.
    let begun = if answer.status == 202 { &answer.body } else { &answer.body["operation"] };
    let ended = service.ended(begun).await;
    let why = (&ended["state"], &ended["problem"]["code"]);
    assert_eq!(why, (&json!("failed"), &json!("backlog_full")), "{ended}");
    assert_eq!(number(&ended, "affected"), 0, "{ended}");
}

#[tokio::test]
async fn operation_of_killed_pod_is_interrupted_repeat_does_rest() {
    let mut service = Service::start().await;
    service.define_worker("crm", "destination").await;
    service.send_many("crm", MANY).await;
    let second = service.second_pod().await;
    let begun = service.begin_and_pause("destinations/crm/purge", json!({})).await;
    service.pod.kill();
    let shown = service.shown_by(&second, &begun).await;
    assert_eq!((&shown["state"], &shown["kind"]), (&json!("running"), &json!("purge")), "{shown}");

    // Make its last progress look old.
    let keys = service.store.keys().destination(&"crm".parse().unwrap());
    let key = keys.operation(begun["id"].as_str().unwrap());
    let mut noted = shown.clone();
    noted["updated_at"] = json!("2020-01-01T00:00:00Z");
    let words = ["HSET", &key, "state", &noted.to_string()];
    let _: u64 = service.redis.ask(&words).await.unwrap();
    let shown = service.shown_by(&second, &begun).await;
    noted["state"] = json!("interrupted");
    assert_eq!(shown, noted);
    let listed = said(client().get(second.url("/v1/destinations/crm/operations"))).await.ok();
    assert_eq!(listed["items"], json!([noted]));
    // Cancelling has no effect on an operation that does not run.
    service.pod = second;
    let told = service.cancel(&begun).await;
    assert_eq!((told.status, &told.body["state"]), (202, &json!("interrupted")), "{told:?}");

    let left = number(&service.counts("crm").await, "waiting");
    let rest = service.post("destinations/crm/purge", json!({})).await.done();
    assert_eq!((number(&rest, "affected"), left > 0), (left, true), "{rest}");
    assert_eq!(service.counts("crm").await["waiting"], 0);
}

#[tokio::test]
async fn an_operation_of_a_pod_that_stops_ends_as_interrupted_at_once() {
    let mut service = Service::start().await;
    service.define_worker("crm", "destination").await;
    service.send_many("crm", MANY).await;
    let second = service.second_pod().await;
    let begun = service.begin_and_pause("destinations/crm/purge", json!({})).await;
    service.pod.drains().await;
    // The draining pod notes the interruption itself, so others see it at once.
    let shown = service.shown_by(&second, &begun).await;
    assert_eq!(shown["state"], "interrupted", "{shown}");
    let affected = number(&shown, "affected");
    assert!(affected < MANY, "{shown}");
    service.pod = second;
    let rest = service.post("destinations/crm/purge", json!({})).await.done();
    assert_eq!(number(&rest, "affected"), MANY - affected, "{rest}");
}

#[tokio::test]
async fn a_removal_leaves_nothing_of_the_operations_of_a_destination() {
    let service = Service::start().await;
    let none = async || {
        let keys: Vec<String> = service.redis.ask(&["KEYS", "*:d:crm*"]).await.unwrap();
        assert_eq!(keys, [""; 0]);
    };
    // First without messages, so that the removal has little work, then with messages.
    for count in [0, 3] {
        service.define_worker("crm", "destination").await;
        for _ in 0..3 {
            service.post("destinations/crm/purge", json!({})).await.done();
        }
        assert_eq!(each(&service.operations("crm", "").await, "kind"), ["purge"; 3]);
        for n in 0..count {
            service.send("crm", json!(n), json!({})).await;
        }
        let removed = service.delete("destinations/crm?force=true").await.ok();
        assert_eq!(removed["removed_messages"], count);
        none().await;
        service.define_worker("crm", "destination").await;
        assert_eq!(service.operations("crm", "").await["items"], json!([]));
        assert_eq!(service.delete("destinations/crm").await.status, 200);
    }

    // A running operation leaves no data behind either.
    service.define_worker("crm", "destination").await;
    service.send_many("crm", MANY).await;
    service.begin_and_pause("destinations/crm/purge", json!({})).await;
    service.delete("destinations/crm?force=true").await.ok();
    eventually("the operation ends", async || {
        let log = service.pod.log();
        let is_over = log.contains("the end of an operation cannot be noted");
        if is_over { Ok(()) } else { Err("it runs".to_owned()) }
    })
    .await;
    none().await;
}
