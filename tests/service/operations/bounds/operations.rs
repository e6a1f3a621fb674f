//! Runs every operation, one by one, at a destination with many waiting messages.

use std::time::Duration;

use domain::{
    AttemptError, Disposition, ErrorKind, LeaseToken, MessageIds, Ordering, Sequence, Stage,
    Tombstone,
};
use reqwest::header::CONTENT_TYPE;
use serde_json::{Value, json};
use store::{
    Catalog, CatalogEntry, Claimers, Delivering, FAIL_MAX, Failed, LaneRequest, LogEntry, Owner,
    RefusedHead, Settled, Status, WITHDRAW_MAX, Which, Who, Withdrawal,
};

use super::{BATCH, Watched, known, short};
use crate::operations::{client, each};

const HOUR: Duration = Duration::from_secs(3600);

fn error() -> AttemptError {
    AttemptError::new(Stage::Delivery, ErrorKind::Failed, "no")
}

impl Watched {
    /// Runs every operation at a destination with this many waiting messages.
    pub async fn many(&mut self, name: &str, ordering: &str, count: usize) {
        let definition = json!({"transform": {"kind": "worker"}, "ordering": ordering,
            "log_max": 5_000, "log_bodies": true, "backlog_max": 10_000_000, "ids_max": 5_000});
        self.service.define(name, definition.clone()).await;
        let at = known(&self.service.store, name).await;
        self.load(&at, count, short, BATCH).await;
        self.watch().await;
        self.ingest_all(name).await;
        let (owner, first) = self.process(name, &at).await;
        self.recover(name, &at, &first).await;
        self.steer(name, &at, &owner, &first).await;
        self.look_at(name, count).await;
        self.withdraw_many(name, &at).await;
        self.damage(name, &at).await;
        let at = known(&self.service.store, name).await;
        self.dead_letters(name, &at).await;
        self.history(name).await;
        self.consumers(name).await;
        self.bulk_operations(name).await;
        self.define_again(name, definition).await;
        self.rest(&at, &owner).await;
        self.purge(name, &owner).await;
    }

    async fn ingest_all(&mut self, name: &str) {
        let once = json!({"destinations": [name], "body": 1, "key": "k1", "id": "one",
            "idempotency_key": "once", "keep_result": true});
        self.post("messages", once).await;
        self.note("ingest one message").await;
        let one = self.get(&format!("destinations/{name}/messages/by-id/one")).await;
        self.note("find a message by its id").await;
        self.get("messages/by-id/one").await;
        self.note("find the messages of all destinations by an id").await;
        let path = format!("destinations/{name}/messages/{}/result", one["sequence"]);
        self.get(&format!("{path}?id=one")).await;
        self.note("ask for the result of a message").await;
        let lines = (0..BATCH).map(|n| {
            format!("{}\n", json!({"destinations": [name], "body": n, "key": format!("k{n}")}))
        });
        let batch = client().post(self.service.pod.url("/v1/messages"));
        let batch =
            batch.header(CONTENT_TYPE, "application/x-ndjson").body(lines.collect::<String>());
        assert_eq!(batch.send().await.unwrap().status(), 202);
        self.note("ingest a batch").await;
        self.post(&format!("destinations/{name}/messages"), json!({"raw": true})).await;
        self.note("ingest a raw message").await;
        let made = self.post("tokens", json!({"name": "one", "scopes": ["read"]})).await;
        let path = format!("tokens/{}", made.body["id"].as_str().unwrap());
        self.get("tokens").await;
        self.get(&path).await;
        self.delete(&path).await;
        self.note("make and revoke a token").await;
        self.service.store.end_session("one").await.unwrap();
        self.note("end a session of the console").await;
        self.put("topics/all", json!({"destinations": [name]})).await;
        self.note("define a topic").await;
        self.post("topics/all/messages", json!({"raw": true})).await;
        self.get("topics").await;
        self.get("topics/all").await;
        self.delete("topics/all").await;
        self.note("use and remove a topic").await;
    }

    /// Leases messages, and calls every verb of a worker on them. Some messages leave. Returns
    /// the owner and the first lease that is still held.
    async fn process(&mut self, name: &str, at: &CatalogEntry) -> (Owner, Value) {
        let leases = self.lease(name).await;
        self.note("claim").await;
        self.complete(&leases).await;
        self.note("complete").await;
        let store = self.service.store.clone();
        let owner = self.own(name).await;
        self.note("acquire_partition").await;
        store.releasable(&[at.partition], |_| 0).await.unwrap();
        self.note("look for what is releasable").await;
        let lanes = match at.destination.ordering {
            Ordering::Destination => vec![None],
            Ordering::Key | Ordering::None => {
                let lanes = store.releasable_lanes(at, 256).await.unwrap().waiting;
                if at.destination.ordering == Ordering::Key {
                    self.hold_lanes(name, &lanes).await;
                }
                lanes.into_iter().map(Some).collect()
            }
        };
        self.note("look for lanes that are releasable").await;
        self.release(at, &owner, lanes).await;
        let delivering = Delivering { messages: 5, awaiting_connection: 1, probe_at_ms: Some(1) };
        store.note_delivering(&[(at.destination.name.clone(), delivering)]).await.unwrap();
        self.note("note what is being delivered").await;

        let leases = self.lease(name).await;
        self.pass().await;
        let items = |leases: &[Value], more: Value| {
            let item = |lease: &Value| {
                let mut item = more.clone();
                item["token"] = lease["token"].clone();
                item
            };
            json!({"items": leases.iter().map(item).collect::<Vec<_>>()})
        };
        let extend = json!({"lease_ms": 3_600_000, "checkpoint": {"at": "x".repeat(100)}});
        self.post("leases/extend", items(&leases, extend)).await;
        self.note("extend").await;
        let error = "x".repeat(1_500);
        let fail = json!({"error": error, "retry_ms": 3_600_000});
        self.post("leases/fail", items(&leases[..500], fail)).await;
        self.note("fail").await;
        let delayed = &leases[499]["sequence"];
        self.post(&format!("destinations/{name}/messages/{delayed}/run-now"), json!({})).await;
        self.note("run a delayed message").await;
        self.post("leases/fail", items(&leases[500..600], json!({"error": error, "final": true})))
            .await;
        self.note("fail for good").await;
        let last = leases[600..600 + FAIL_MAX].iter().map(|lease| Failed {
            token: LeaseToken::decode(lease["token"].as_str().unwrap()).unwrap(),
            disposition: Disposition::Withdraw(Tombstone::DeadLettered, "why".to_owned()),
            is_later: false,
            error: AttemptError::new(Stage::Transform, ErrorKind::Failed, error.clone()),
            ids: MessageIds::default(),
        });
        let last: Vec<Failed> = last.collect();
        let statuses = store.fail(&store.new_call_sequence("last"), at, &last).await.unwrap();
        assert_eq!(statuses, [Status::Withdrawn; FAIL_MAX]);
        self.note("fail for the last time").await;
        let later = json!({"delay_ms": 3_600_000});
        self.post("leases/requeue", items(&leases[800..850], later)).await;
        self.note("requeue with a delay").await;
        self.post("leases/requeue", items(&leases[850..900], json!({}))).await;
        self.note("requeue").await;
        self.complete(&leases[900..]).await;
        self.pass().await;
        (owner, leases[0].clone())
    }

    /// Records how many messages these lanes hold, because a script may request more than exist.
    async fn hold_lanes(&mut self, name: &str, lanes: &[String]) {
        let keys = self.service.store.keys().destination(&name.parse().unwrap());
        for lane in lanes {
            for key in [keys.in_progress(Some(lane)), keys.ready(Some(lane))] {
                let count = self.service.redis.ask(&["ZCARD", &key]).await.unwrap();
                self.holds(&key, count);
            }
        }
        self.pass().await;
    }

    pub async fn lease(&mut self, name: &str) -> Vec<Value> {
        let request = json!({"destinations": [name], "max": BATCH, "lease_ms": 600_000});
        let answer = self.post("leases", request).await;
        answer.body["leases"].as_array().unwrap().clone()
    }

    pub async fn complete(&mut self, leases: &[Value]) {
        let item =
            |lease: &Value| json!({"token": lease["token"], "body": {"done": lease["sequence"]}});
        let items: Vec<Value> = leases.iter().map(item).collect();
        self.post("leases/complete", json!({"items": items})).await;
    }

    /// Releases runs of these lanes and settles them.
    pub async fn release(
        &mut self,
        at: &CatalogEntry,
        owner: &Owner,
        lanes: Vec<Option<String>>,
    ) -> usize {
        let store = self.service.store.clone();
        let request = |key, settled, limit| LaneRequest { key, settled, held_upto: 0, limit };
        let wanted = lanes.iter().map(|key| request(key.clone(), Settled::default(), 1024));
        let wanted: Vec<_> = wanted.collect();
        let runs = store.release(owner, at, &wanted).await.unwrap().runs;
        self.note("release").await;
        let mut settled = Vec::new();
        for (run, key) in runs.iter().zip(lanes) {
            let mut gone = Settled::default();
            for message in &run.messages {
                gone.add(message, Some(LogEntry::of(message, 1, 1, true)));
            }
            settled.push(request(key, gone, 0));
        }
        store.release(owner, at, &settled).await.unwrap();
        self.note("settle").await;
        runs.iter().map(|run| run.messages.len()).sum()
    }

    /// Reaps expired leases and due delays.
    async fn recover(&mut self, name: &str, at: &CatalogEntry, first: &Value) {
        let keys = self.service.store.keys().partition(at.partition);
        self.lease(name).await;
        self.service.store.step_back(at.partition, 1, 1, 1).await.unwrap();
        self.note("follow a step of the clock").await;
        for (key, operation) in [(keys.leases(), "reap leases"), (keys.delayed(), "reap delays")] {
            let all: Vec<String> =
                self.service.redis.ask(&["ZRANGE", &key, "0", "-1"]).await.unwrap();
            assert!(!all.is_empty());
            for some in all.chunks(1_000) {
                let mut words = vec!["ZADD", &*key, "XX"];
                some.iter().for_each(|member| words.extend(["1", &**member]));
                let _: u64 = self.service.redis.ask(&words).await.unwrap();
            }
            // Leaves out the test's own commands.
            self.pass().await;
            self.service.store.recover(&[at.partition]).await.unwrap();
            self.note(operation).await;
        }
        let mut is_done = false;
        while !is_done {
            let leases = self.lease(name).await;
            self.complete(&leases).await;
            is_done = leases.iter().any(|lease| lease["sequence"] == first["sequence"]);
        }
        self.pass().await;
    }

    /// Postpones, halts, retries and skips a head.
    async fn steer(&mut self, name: &str, at: &CatalogEntry, owner: &Owner, head: &Value) {
        let store = self.service.store.clone();
        let sequence = head["sequence"].as_u64().unwrap();
        let lane = at.destination.lane_of(head["key"].as_str(), sequence);
        let why = error();
        let refused = RefusedHead { lane: lane.as_deref(), sequence, failed: 1, error: &why };
        store.postpone(owner, at, refused, HOUR).await.unwrap();
        self.note("postpone").await;
        let mut which = json!({"sequence": sequence});
        if at.destination.ordering == Ordering::Key {
            which["key"] = head["key"].clone();
        }
        self.post(&format!("destinations/{name}/retry-head"), which.clone()).await;
        self.note("retry a head").await;
        store.halt(owner, at, RefusedHead { failed: 2, ..refused }).await.unwrap();
        self.note("halt").await;
        self.post(&format!("destinations/{name}/retry-head"), json!({"all": true})).await;
        self.note("retry all heads").await;
        self.post(&format!("destinations/{name}/run-now"), json!({})).await;
        self.note("run all delayed messages").await;
        let skipped = self.post(&format!("destinations/{name}/skip-head"), which).await;
        self.note("skip a head").await;
        assert_eq!(skipped.status, 202, "the sender may have it: {skipped:?}");
        let withdrawals = store.withdrawals(at).await.unwrap();
        assert_eq!(withdrawals.iter().map(|one| one.sequence).collect::<Vec<_>>(), [sequence]);
        let messages = [(lane.clone(), sequence)];
        let skip = Withdrawal {
            how: Tombstone::DeadLettered,
            reason: "no",
            error: None,
            messages: &messages,
        };
        store.withdraw(at, Who::Owner(owner), &skip).await.unwrap();
        self.note("carry out a withdrawal").await;
    }

    /// Calls all operations that only read.
    async fn look_at(&mut self, name: &str, count: usize) {
        let paths: [(&'static str, String); 21] = [
            ("stats", format!("destinations/{name}/stats")),
            ("stats of all", "stats".to_owned()),
            ("why", format!("destinations/{name}/why")),
            ("pods", "pods".to_owned()),
            ("the audit log", "audit".to_owned()),
            ("stuck ones first", "stats?sort=stuck".to_owned()),
            ("lanes", format!("destinations/{name}/lanes?limit=100")),
            ("doctor", "doctor".to_owned()),
            ("deliveries", format!("deliveries?destination={name}&duration_ms=1")),
            ("destinations", "destinations".to_owned()),
            ("a destination", format!("destinations/{name}")),
            ("messages", format!("destinations/{name}/messages?limit=1000")),
            (
                "messages that wait",
                format!("destinations/{name}/messages?limit=1000&state=waiting"),
            ),
            (
                "messages that wait, far behind",
                format!(
                    "destinations/{name}/messages?limit=1000&state=waiting&cursor={}",
                    count / 2
                ),
            ),
            (
                "messages that are ready",
                format!("destinations/{name}/messages?limit=1000&state=ready"),
            ),
            (
                "messages that are processed",
                format!("destinations/{name}/messages?limit=1000&state=processing"),
            ),
            (
                "messages that are delayed",
                format!("destinations/{name}/messages?limit=1000&state=delayed"),
            ),
            (
                "messages that are halted",
                format!("destinations/{name}/messages?limit=1000&state=halted"),
            ),
            ("messages of a key", format!("destinations/{name}/messages?limit=1000&key=k1")),
            (
                "messages of a long lane",
                format!(
                    "destinations/{name}/messages?limit=1000&key=big&from_sequence={}",
                    count / 2
                ),
            ),
            ("a message", format!("destinations/{name}/messages/{}", count / 2)),
        ];
        for (operation, path) in paths {
            self.get(&path).await;
            self.note(operation).await;
        }
        self.delete(&format!("destinations/{name}/messages/{}", count - 7)).await;
        self.note("cancel").await;
        self.delete(&format!("destinations/{name}/messages?idempotency_key=once")).await;
        self.note("cancel by idempotency key").await;
    }

    /// Turns many waiting messages into dead letters.
    async fn withdraw_many(&mut self, name: &str, at: &CatalogEntry) {
        let store = self.service.store.clone();
        for round in 0..6 {
            if round == 5 {
                self.foreign_leases(at, true).await;
            }
            let which =
                Which { state: Some(domain::State::Waiting), limit: 200, ..Which::default() };
            let mut found: Vec<(Option<String>, Sequence)> = Vec::new();
            let mut cursor = None;
            while found.len() < WITHDRAW_MAX {
                let page = store.pending(at, &Which { cursor, ..which.clone() }).await.unwrap();
                found.extend(page.items.iter().map(|one| {
                    let (key, sequence) = (&one.message.message.key, one.message.position.sequence);
                    (at.destination.lane_of(key.as_deref(), sequence), sequence)
                }));
                cursor = Some(page.next.expect("more wait"));
            }
            found.truncate(WITHDRAW_MAX);
            self.pass().await;
            let withdrawal = Withdrawal {
                how: Tombstone::DeadLettered,
                reason: "no",
                error: None,
                messages: &found,
            };
            store.withdraw(at, Who::Operator, &withdrawal).await.unwrap();
        }
        self.note("withdraw 200").await;
        self.foreign_leases(at, false).await;
        let letters = self.get(&format!("destinations/{name}/stats")).await["dead_letters"].clone();
        assert!(letters.as_u64().unwrap() >= 1_000, "{letters}");
        self.pass().await;
    }

    async fn dead_letters(&mut self, name: &str, at: &CatalogEntry) {
        let letters = format!("destinations/{name}/dead-letters");
        let page = self.get(&format!("{letters}?limit=1000")).await;
        self.note("dead letters").await;
        let all = each(&page, "sequence");
        self.get(&format!("{letters}?limit=1000&error=nothing")).await;
        self.note("dead letters with an error").await;
        self.get(&format!("{letters}/{}", all[0])).await;
        self.note("a dead letter").await;
        self.delete(&format!("{letters}/{}", all[0])).await;
        self.note("discard one").await;
        self.post(&format!("{letters}/redrive"), json!({"all": true, "dry_run": true})).await;
        self.note("redrive, dry run").await;
        self.post(&format!("{letters}/redrive"), json!({"sequences": all[1..400]})).await;
        self.note("redrive 399").await;
        self.post(&format!("{letters}/discard"), json!({"sequences": all[400..]})).await;
        self.note("discard 600").await;
        let dead_at =
            self.service.store.keys().destination(&at.destination.name).dead_lettered_at();
        let left: Vec<String> =
            self.service.redis.ask(&["ZRANGE", &dead_at, "0", "-1"]).await.unwrap();
        for member in &left {
            let _: u64 =
                self.service.redis.ask(&["ZADD", &dead_at, "XX", "1", member]).await.unwrap();
        }
        self.pass().await;
        let store = self.service.store.clone();
        let catalog = Catalog::load(store.clone()).await.unwrap();
        store.expire_dead_letters(&catalog.all()).await;
        self.note("expire dead letters").await;
        let dead = self.get(&format!("destinations/{name}/stats")).await["dead_letters"].clone();
        assert_eq!((dead, left.is_empty()), (json!(0), false));
        self.pass().await;
    }

    async fn history(&mut self, name: &str) {
        let log = self.get(&format!("destinations/{name}/log?limit=1000")).await;
        self.note("log").await;
        assert!(!each(&log, "sequence").is_empty());
        let replay = format!("destinations/{name}/replay");
        self.post(&replay, json!({"from_sequence": 1, "dry_run": true})).await;
        self.note("replay, dry run").await;
        self.post(&replay, json!({"from_sequence": 1, "to_sequence": 500})).await;
        self.note("replay").await;
    }

    async fn define_again(&mut self, name: &str, mut definition: Value) {
        self.post(&format!("destinations/{name}/pause"), json!({"what": "delivery"})).await;
        self.note("pause").await;
        self.post(&format!("destinations/{name}/resume"), json!({})).await;
        self.note("resume").await;
        definition["weight"] = json!(2);
        definition["url"] = json!("http://127.0.0.1:9/");
        self.put(&format!("destinations/{name}"), definition.clone()).await;
        self.note("define").await;
        self.patch(&format!("destinations/{name}"), json!({"weight": 3})).await;
        self.note("change a definition").await;
        self.get(&format!("destinations/{name}/versions")).await;
        self.note("versions").await;
        self.post(&format!("destinations/{name}/diff"), definition).await;
        self.note("diff").await;
        self.post(&format!("destinations/{name}/rollback"), json!({})).await;
        self.note("roll back").await;
        self.get(&format!("destinations/{name}/sources")).await;
        self.note("sources").await;
        self.delete(&format!("destinations/{name}/sources?name=none")).await;
        self.note("remove a source").await;
    }

    async fn bulk_operations(&mut self, name: &str) {
        let path = format!("destinations/{name}/operations");
        let listed = self.get(&format!("{path}?limit=1000")).await;
        self.note("operations").await;
        let id = each(&listed, "id")[0].as_str().unwrap().to_owned();
        self.get(&format!("{path}/{id}")).await;
        self.note("an operation").await;
        // The operation has ended, but the work of Redis is the same.
        self.post(&format!("{path}/{id}/cancel"), json!({})).await;
        self.note("cancel an operation").await;
    }

    /// Makes the calls that pods make in the background.
    async fn rest(&mut self, at: &CatalogEntry, owner: &Owner) {
        let store = self.service.store.clone();
        let partitions: Vec<u16> = (0..store.keys().partitions()).collect();
        Catalog::load(store.clone()).await.unwrap();
        self.note("load the catalog").await;
        store.active_of_all(&partitions, Claimers::Worker, 100).await.unwrap();
        store.overdue(&partitions).await.unwrap();
        store.owner_values(&partitions).await;
        self.note("look at all partitions").await;
        store.heartbeat("sender", HOUR).await.unwrap();
        store.leave("sender").await.unwrap();
        self.note("heartbeat").await;
        store.memory_of_all().await;
        store.schemas().await.unwrap();
        store.older_pods().await.unwrap();
        store.ping().await.unwrap();
        self.note("look at the servers").await;
        store.init_epoch().await.unwrap();
        store.migrate(at.partition).await.unwrap();
        self.note("migrate").await;
        store.apply_policy_to_halted(at).await.unwrap();
        self.note("settle what is halted").await;
        store.resign_partition(at.partition, &owner.token, None).await.unwrap();
        self.note("resign_partition").await;
    }

    /// Cancels all messages, claims past them, and removes the destination.
    async fn purge(&mut self, name: &str, _owner: &Owner) {
        let purge = format!("destinations/{name}/purge");
        self.post(&purge, json!({"key": "k1", "dry_run": true})).await;
        self.note("purge a key, dry run").await;
        self.post(&purge, json!({"key": "k1"})).await;
        self.note("purge a key").await;
        self.post(&purge, json!({})).await;
        self.note("purge").await;
        assert_eq!(self.lease(name).await, Vec::<Value>::new());
        self.note("claim past what was withdrawn").await;
        let owner = self.own(name).await;
        let at = known(&self.service.store, name).await;
        let lane = match at.destination.ordering {
            Ordering::Key => Some("big".to_owned()),
            Ordering::Destination => None,
            Ordering::None => {
                let lanes = self.service.store.releasable_lanes(&at, 1).await.unwrap();
                Some(lanes.due[0].clone())
            }
        };
        self.pass().await;
        assert!(self.release(&at, &owner, vec![lane]).await > 0);
        self.service.store.resign_partition(at.partition, &owner.token, None).await.unwrap();
        self.pass().await;
        self.delete(&format!("destinations/{name}?force=true")).await;
        self.note("remove").await;
        self.get("removed-destinations").await;
        self.note("removed definitions").await;
        self.post(&format!("destinations/{name}/restore"), json!({})).await;
        self.note("restore").await;
        self.delete(&format!("destinations/{name}")).await;
        self.pass().await;
    }
}
