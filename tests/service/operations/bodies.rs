//! Tests long bodies, which Reseq reads only when needed; long lists, which cost no more than
//! short ones; and dead letters, which have a maximum count and age.

use serde_json::{Value, json};

use super::{Service, purge::cancelled};

/// Bytes of a long body.
const LONG: usize = 300_000;
/// The most bytes that Redis may send for an answer without bodies.
const HEADERS_MAX: u64 = 100_000;

fn long(n: usize) -> Value {
    json!(format!("{n} {}", "x".repeat(LONG)))
}

impl Service {
    /// The number of bytes that Redis has sent so far.
    async fn bytes_sent(&self) -> u64 {
        self.redis.info("total_net_output_bytes").await.parse().unwrap()
    }

    /// Requests a page and checks that it costs no more than headers do.
    async fn cheap_page(&self, path: &str) -> Value {
        let before = self.bytes_sent().await;
        let page = self.get(path).await.ok();
        let cost = self.bytes_sent().await - before;
        assert!(cost < HEADERS_MAX, "{path}: Redis sent {cost} bytes");
        page
    }

    /// The fields of a destination's hash of long bodies.
    async fn bodies(&self, name: &str) -> Vec<String> {
        let keys = self.store.keys().destination(&name.parse().unwrap());
        let mut fields: Vec<String> = self.redis.ask(&["HKEYS", &keys.bodies()]).await.unwrap();
        fields.sort();
        fields
    }

    /// The number of times that Redis has run a command.
    async fn calls_of(&self, command: &str) -> u64 {
        let stats: String = self.redis.ask(&["INFO", "commandstats"]).await.unwrap();
        let line = stats.lines().find(|line| line.starts_with(&format!("cmdstat_{command}:")));
        let calls = line.and_then(|line| line.split("calls=").nth(1)?.split(',').next());
        calls.map_or(0, |calls| calls.parse().unwrap())
    }

    async fn complete(&self, lease: &Value, body: Value) {
        let done = json!({"items": [{"token": lease["token"], "body": body}]});
        assert_eq!(self.post("leases/complete", done).await.status, 200);
    }

    async fn skip_head(&self, name: &str, sequence: u64) -> super::Said {
        self.post(&format!("destinations/{name}/skip-head"), json!({"sequence": sequence})).await
    }
}

#[tokio::test]
async fn look_at_messages_dead_letters_and_log_reads_no_long_body() {
    let service = Service::start().await;
    let worker = json!({"kind": "worker"});
    service.define("crm", json!({"transform": worker, "log_max": 9, "log_bodies": true})).await;
    for n in 1..=6 {
        service.send("crm", long(n), json!({})).await;
    }
    let page = service.cheap_page("destinations/crm/messages").await;
    assert_eq!(super::each(&page, "sequence"), [1, 2, 3, 4, 5, 6]);
    assert_eq!(super::each(&page, "bytes"), [LONG + 4; 6]);
    let one = service.get("destinations/crm/messages/2").await.ok();
    assert_eq!(one["body"], long(2));

    // Two become dead letters and two are delivered, one of them with its body unchanged.
    for n in 1..=2 {
        service.halt_next("crm", "no").await;
        assert_eq!(service.skip_head("crm", n).await.status, 200);
        service.hand_again("crm").await;
    }
    let leases = service.lease("crm", 2).await;
    assert_eq!(leases[0]["body"], long(3));
    service.complete(&leases[0], json!("short")).await;
    service.complete(&leases[1], long(4)).await;
    assert_eq!(service.hand_again("crm").await, [3, 4]);
    let page = service.cheap_page("destinations/crm/dead-letters?error=nothing").await;
    assert_eq!(super::each(&page, "sequence"), Vec::<u64>::new());
    let page = service.cheap_page("destinations/crm/dead-letters").await;
    assert_eq!(super::each(&page, "sequence"), [1, 2]);
    let letter = service.get("destinations/crm/dead-letters/1").await.ok();
    assert_eq!(letter["body"], long(1));
    let page = service.cheap_page("destinations/crm/log").await;
    assert_eq!(super::each(&page, "sequence"), [4, 3, 2, 1]);
    // The log keeps the body of a delivered message as it arrived (field `3i`).
    assert_eq!(service.bodies("crm").await, ["1", "2", "3i", "4", "5", "6"]);

    // A redriven and a replayed message have their bodies.
    let redriven = service.post("destinations/crm/dead-letters/redrive", json!({"sequences": [1]}));
    assert_eq!(redriven.await.done()["affected"], 1);
    let replayed = service.post("destinations/crm/replay", json!({"from_sequence": 3})).await;
    assert_eq!(replayed.done()["affected"], 2);
    let bodies: Vec<Value> =
        service.lease("crm", 9).await.iter().map(|lease| lease["body"].clone()).collect();
    assert_eq!(bodies, [5, 6, 1, 3, 4].map(long));
    assert_eq!(service.bodies("crm").await, ["2", "3i", "4", "5", "6", "7", "8", "9"]);

    // No body is left behind, neither by a log of length 0 nor by a discarded dead letter.
    service.define("crm", json!({"transform": worker, "log_max": 0})).await;
    let discarded = service.post("destinations/crm/dead-letters/discard", json!({"all": true}));
    assert_eq!(discarded.await.done()["affected"], 1);
    let purge = service.post("destinations/crm/purge", json!({})).await.done();
    assert_eq!(purge["withdrawing"], 5);
    let keys = service.store.keys().destination(&"crm".parse().unwrap());
    let leases = keys.partition.leases();
    let _: u64 = service.redis.ask(&["DEL", &leases]).await.unwrap();
    let deleted = service.delete("destinations/crm?force=true").await;
    assert_eq!(deleted.status, 200, "{deleted:?}");
    let left: Vec<String> = service.redis.ask(&["KEYS", "*:d:crm*"]).await.unwrap();
    assert_eq!(left, Vec::<String>::new());
}

#[tokio::test]
async fn repaired_body_replaces_long_by_short_and_short_by_long() {
    let service = Service::start().await;
    service.define_worker("crm", "key").await;
    for (repaired, fields) in [(json!("short"), &[][..]), (long(9), &["1"][..])] {
        service.send("crm", long(1), json!({"key": "k"})).await;
        service.halt_next("crm", "no").await;
        let sequence = service.counts("crm").await["last_sequence"].clone();
        let retry = json!({"key": "k", "sequence": sequence, "body": repaired});
        let retried = service.post("destinations/crm/retry-head", retry).await;
        assert_eq!(retried.status, 200, "{retried:?}");
        let leases = service.lease("crm", 1).await;
        assert_eq!(leases[0]["body"], repaired);
        assert_eq!(service.bodies("crm").await.len(), fields.len());
        service.complete(&leases[0], json!("out")).await;
        assert_eq!(service.bodies("crm").await, Vec::<String>::new());
        assert_eq!(service.hand("crm").await.deliver(Some("k")).await.len(), 1);
        let keys = service.store.keys().destination(&"crm".parse().unwrap());
        let _: u64 = service.redis.ask(&["DEL", &keys.partition.owner()]).await.unwrap();
    }
}

#[tokio::test]
async fn what_leaves_a_long_list_is_not_looked_for_in_it() {
    let service = Service::start().await;
    service.define_worker("crm", "key").await;
    for from in (0..6_000).step_by(1_000) {
        let lines = (from..from + 1_000).map(|n| {
            let key = if n % 3 == 0 { "third".to_owned() } else { format!("k{}", n % 7) };
            format!("{}\n", json!({"destinations": ["crm"], "body": n, "key": key}))
        });
        let batch = super::client().post(service.pod.url("/v1/messages"));
        let batch = batch.header("content-type", "application/x-ndjson");
        let answer = batch.body(lines.collect::<String>()).send().await.unwrap();
        assert_eq!(answer.status(), 202);
        answer.bytes().await.unwrap();
    }
    // A leased message is not in the list, so the purge asks for its withdrawal.
    let leased = service.lease("crm", 1).await.remove(0);
    assert_eq!(leased["sequence"], 1);
    let before = service.calls_of("lrem").await;
    let purged = service.post("destinations/crm/purge", json!({"key": "third"})).await.done();
    assert_eq!(purged, cancelled(1_999, 1));
    assert_eq!(service.calls_of("lrem").await, before);
    let counts = service.counts("crm").await;
    assert_eq!((&counts["waiting"], &counts["processing"]), (&json!(4_000), &json!(1)));

    // Claims skip and remove the withdrawn messages, in order.
    let mut claimed = Vec::new();
    while claimed.len() < 4_000 {
        let leases = service.lease("crm", 1_000).await;
        assert!(!leases.is_empty(), "{} were claimed", claimed.len());
        claimed.extend(leases.iter().map(|lease| lease["sequence"].as_u64().unwrap()));
    }
    let expected: Vec<u64> = (1..=6_000).filter(|sequence| (sequence - 1) % 3 != 0).collect();
    assert_eq!(claimed, expected);
    assert!(service.lease("crm", 1).await.is_empty());
    let keys = service.store.keys().destination(&"crm".parse().unwrap());
    let left: u64 =
        service.redis.ask(&["EXISTS", &keys.withdrawn(), &keys.waiting()]).await.unwrap();
    assert_eq!((left, &service.counts("crm").await["waiting"]), (0, &json!(0)));
}

#[tokio::test]
async fn message_behind_a_withdrawn_long_list_is_claimed() {
    let service = Service::start().await;
    service.define_worker("crm", "destination").await;
    for from in (0..25_000).step_by(5_000) {
        let lines = (from..from + 5_000)
            .map(|n| format!("{}\n", json!({"destinations": ["crm"], "body": n})))
            .collect::<String>();
        let batch = super::client().post(service.pod.url("/v1/messages"));
        let batch = batch.header("content-type", "application/x-ndjson").body(lines);
        assert!(!batch.send().await.unwrap().bytes().await.unwrap().is_empty());
    }
    let purged = service.post("destinations/crm/purge", json!({})).await.done();
    assert_eq!(purged, cancelled(25_000, 0));
    service.send("crm", json!("late"), json!({})).await;
    // One call cannot pass all withdrawn messages, so the pod calls again by itself.
    let request = json!({"destinations": ["crm"], "max": 1, "wait_ms": 20_000});
    let leases = service.post("leases", request).await.ok();
    assert_eq!(leases["leases"][0]["sequence"], 25_001);
}

#[tokio::test]
async fn dead_letters_have_a_maximum_and_an_age() {
    let service = Service::start().await;
    let worker = json!({"kind": "worker"});
    let policy = |max: u64| {
        json!({"transform": worker, "on_exhausted": "dead_letter", "ordering": "none",
               "dead_letters_max": max, "dead_letters_age_max_ms": 60_000})
    };
    service.define("crm", policy(2)).await;
    for n in 1..=4 {
        service.send("crm", json!(n), json!({})).await;
    }
    for _ in 0..3 {
        service.halt_next("crm", "no").await;
    }
    let counts = service.counts("crm").await;
    assert_eq!((&counts["dead_letters"], &counts["halted"]), (&json!(2), &json!(1)), "{counts}");
    let full = service.skip_head("crm", 3).await;
    full.is_problem(409, "wrong_state", "dead_letters_max 2");

    // As soon as there is space, the policy makes the halted message a dead letter.
    let known = super::known(&service.store, "crm").await;
    service.define("crm", policy(3)).await;
    let known_now = super::known(&service.store, "crm").await;
    assert_eq!(service.store.apply_policy_to_halted(&known_now).await.unwrap(), 1);
    let counts = service.counts("crm").await;
    assert_eq!((&counts["dead_letters"], &counts["halted"]), (&json!(3), &json!(0)), "{counts}");

    // Makes two dead letters older than the age limit.
    let keys = service.store.keys().destination(&known.destination.name);
    let long_ago = "1700000000000";
    let ask = ["ZADD", &keys.dead_lettered_at(), "XX", long_ago, "1", long_ago, "2"];
    let _: u64 = service.redis.ask(&ask).await.unwrap();
    assert_eq!(service.store.expire(&known_now).await.unwrap(), 2);
    let page = service.get("destinations/crm/dead-letters").await.ok();
    assert_eq!(super::each(&page, "sequence"), [3]);
    assert_eq!(service.store.expire(&known_now).await.unwrap(), 0);
}
