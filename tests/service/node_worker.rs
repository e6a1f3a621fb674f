//! Tests `examples/worker.mjs` on a real Node with a real pod.

use std::{
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    sync::Arc,
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use support::{
    checker::forgotten,
    pods::{Pod, Settings, client},
    proxy::Proxy,
    receiver::{Inbox, Receiver},
    redis::TestRedis,
    wait::eventually,
};
use tempfile::TempDir;

use crate::support;

/// A worker. Dropping this ends it.
struct Worker {
    child: Child,
    dir: TempDir,
}

impl Worker {
    fn start(pod: &Pod, lease_ms: u64) -> Worker {
        Worker::start_at(&pod.url(""), lease_ms)
    }

    /// Starts a worker for the Reseq at this URL.
    fn start_at(url: &str, lease_ms: u64) -> Worker {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/worker.mjs");
        Worker::run(tempfile::tempdir().unwrap(), &script, url, lease_ms)
    }

    /// The worker of the README, with only these changes.
    fn of_readme(changes: &[(&str, &str)]) -> Worker {
        let readme = include_str!("../../README.md");
        let (_, from) = readme.split_once("cat > worker.mjs <<'EOF'\n").unwrap();
        let mut code = from.split_once("\nEOF\n").unwrap().0.to_owned();
        for (text, other) in changes {
            assert!(code.contains(text), "the README's worker has: {text}");
            code = code.replace(text, other);
        }
        let dir = tempfile::tempdir().unwrap();
        let script = dir.path().join("worker.mjs");
        std::fs::write(&script, code).unwrap();
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let status = Command::new(root.join("scripts/node-client.sh")).status().unwrap();
        assert!(status.success(), "the Node.js client cannot be built: {status}");
        let modules = root.join("node_modules");
        std::os::unix::fs::symlink(modules, dir.path().join("node_modules")).unwrap();
        Worker::run(dir, &script, "", 0)
    }

    fn run(dir: TempDir, script: &Path, url: &str, lease_ms: u64) -> Worker {
        let file = |name: &str| std::fs::File::create(dir.path().join(name)).unwrap();
        let mut command = Command::new("node");
        command.arg(script).arg("work");
        command.env("RESEQ_URL", url).env("LEASE_MS", lease_ms.to_string());
        command.stdin(Stdio::null()).stdout(file("events")).stderr(file("errors"));
        let child = command.spawn().expect("node is installed");
        Worker { child, dir }
    }

    /// The events that the worker has printed, in order.
    fn events(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.dir.path().join("events")).unwrap();
        // The last line may be incomplete.
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    fn errors(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("errors")).unwrap()
    }

    fn has_said(&self, field: &str) -> usize {
        self.events().iter().filter(|event| event.get(field).is_some()).count()
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    async fn terminate(&mut self) -> ExitStatus {
        let id = Pid::from_raw(self.child.id().try_into().unwrap()).unwrap();
        kill_process(id, Signal::TERM).unwrap();
        let child = &mut self.child;
        eventually("the worker ends", async || {
            child.try_wait().unwrap().ok_or_else(|| "it runs".to_owned())
        })
        .await
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("--- a worker said {:?}\n{}", self.events(), self.errors());
        }
    }
}

struct Service {
    redis: TestRedis,
    pod: Pod,
    inbox: Arc<Inbox>,
    _receiver: Receiver,
}

impl Service {
    async fn start() -> Service {
        let redis = TestRedis::start().await;
        let inbox = Arc::new(Inbox::default());
        let receiver = Receiver::http(&inbox).await;
        let fields = format!("url = \"{}\"\ntransform = {{ kind = \"worker\" }}", receiver.url());
        let settings = Settings::new(redis.url()).destination("work", &fields);
        let pod = Pod::start("reseq", "ingest,processor,sender", &settings).await;
        Service { redis, pod, inbox, _receiver: receiver }
    }

    async fn send(&self, body: &Value) {
        let request = client().post(self.pod.url("/v1/destinations/work/messages"));
        let answer = request.json(body).send().await.unwrap();
        assert_eq!(answer.status(), 202);
    }

    /// The delivered bodies, in order.
    fn delivered(&self) -> Vec<Value> {
        let all = self.inbox.journal.all();
        all.iter().map(|delivery| serde_json::from_str(&delivery.body).unwrap()).collect()
    }
}

fn outputs(inputs: &[Value]) -> Vec<Value> {
    let transformed = |input: &Value| {
        let mut output = input.clone();
        output["transformed"] = json!(true);
        output
    };
    inputs.iter().map(transformed).collect()
}

#[tokio::test]
async fn node_worker_leases_extends_fails_and_completes_in_order() {
    // Long enough that an extended lease does not expire on a slow machine.
    const LEASE_MS: u64 = 3000;
    let service = Service::start().await;
    let mut worker = Worker::start(&service.pod, LEASE_MS);
    let mut inputs = vec![
        // The work takes longer than its lease, so the worker must extend the lease to complete at the first
        // attempt. It ends between two extensions: a later extension would find the message settled.
        json!({"number": 0, "workMs": 2 * LEASE_MS + LEASE_MS / 6}),
        json!({"number": 1, "failsFirst": true}),
    ];
    inputs.extend((2..40).map(|number| json!({"number": number, "workMs": (40 - number) % 7})));
    for input in &inputs {
        service.send(input).await;
    }
    service.inbox.journal.reaches(inputs.len()).await;
    assert!(worker.terminate().await.success(), "{}", worker.errors());
    assert_eq!(service.delivered(), outputs(&inputs));
    assert_eq!(worker.errors(), "");

    let events = worker.events();
    let of = |sequence: u64, field: &str| -> Vec<(u64, Value)> {
        let of_it = events.iter().filter(|event| event["sequence"] == sequence);
        of_it
            .filter_map(|event| Some((event["attempt"].as_u64()?, event.get(field)?.clone())))
            .collect()
    };
    assert!(of(1, "extended").len() >= 2, "{events:?}");
    assert!(of(1, "extended").iter().all(|(_, status)| status == "ok"));
    assert_eq!(of(1, "completed"), [(1, json!("ok"))]);
    assert_eq!(of(2, "leased"), [(1, json!(true)), (2, json!(true))]);
    assert_eq!(of(2, "failed"), [(1, json!("ok"))]);
    assert_eq!(of(2, "completed"), [(2, json!("ok"))]);
    assert_eq!(worker.has_said("completed"), inputs.len());
    // The long message stayed at the head while the others were finished.
    let finished = |sequence: u64| {
        let is_it =
            |event: &Value| event["sequence"] == sequence && event.get("completed").is_some();
        events.iter().position(is_it).unwrap()
    };
    assert!(finished(1) > finished(5), "{events:?}");
    forgotten(&mut service.redis.connection().await).await;
}

#[tokio::test]
async fn what_a_killed_worker_had_leased_is_leased_to_another() {
    let service = Service::start().await;
    let mut first = Worker::start(&service.pod, 1000);
    // The worker is certainly processing one of these when it is killed.
    let inputs: Vec<Value> =
        (0..8).map(|number| json!({"number": number, "workMs": 600})).collect();
    for input in &inputs {
        service.send(input).await;
    }
    eventually("the worker has leased all", async || match first.has_said("leased") {
        count if count == inputs.len() => Ok(()),
        count => Err(format!("{count}")),
    })
    .await;
    first.kill();
    let completed = first.has_said("completed");
    assert!(completed < inputs.len(), "{completed} were completed before the kill");
    let mut second = Worker::start(&service.pod, 10_000);
    service.inbox.journal.reaches(inputs.len()).await;
    assert!(second.terminate().await.success());
    assert_eq!(service.delivered(), outputs(&inputs));
    let events = second.events();
    let taken_up = events.iter().filter(|event| event.get("leased").is_some());
    let attempts: Vec<_> = taken_up.map(|event| event["attempt"].as_u64()).collect();
    assert!(!attempts.is_empty() && attempts.len() <= inputs.len(), "{events:?}");
    assert!(attempts.iter().all(|attempt| *attempt == Some(2)), "{events:?}");
    forgotten(&mut service.redis.connection().await).await;
}

/// A worker returns `undefined`. JSON would then lack the body, and every attempt would fail alike.
#[tokio::test]
async fn a_worker_that_returns_nothing_fails_once_and_for_good() {
    let service = Service::start().await;
    service.send(&json!({"returnsNothing": true})).await;
    let worker = Worker::start(&service.pod, 10_000);
    is_halted_after_one_attempt(&service.pod, "work").await;
    // The worker reports the failure after the answer of the pod, which has halted the message before.
    let failed = eventually("the worker says that it failed", async || {
        let failed = worker.has_said("failed");
        if failed > 0 { Ok(failed) } else { Err(format!("{:?}", worker.events())) }
    })
    .await;
    assert_eq!((worker.has_said("leased"), failed), (1, 1));
}

async fn is_halted_after_one_attempt(pod: &Pod, destination: &str) {
    let path = pod.url(&format!("/v1/destinations/{destination}/messages/1"));
    // The API reads state and attempts one after the other, so the attempts may be older.
    let message = eventually("the message is halted, with its attempt", async || {
        let answer = client().get(&path).send().await.unwrap();
        let message: Value = answer.json().await.unwrap();
        let is_there = message["state"] == "halted" && message["attempts"] != 0;
        if is_there { Ok(message) } else { Err(message.to_string()) }
    })
    .await;
    assert_eq!(message["attempts"], 1, "{message}");
}

/// A proxy to a pod, and the URL of the pod through it.
async fn way_to(pod: &Pod) -> (Proxy, String) {
    let proxy = Proxy::http(pod.addresses.http().unwrap().port()).await;
    let url = proxy.url.trim_end_matches("/in").to_owned();
    (proxy, url)
}

/// The answer to `complete` is lost. The work is done, and is not done again.
#[tokio::test]
async fn a_worker_asks_again_until_it_knows_what_became_of_its_output() {
    let service = Service::start().await;
    let (proxy, url) = way_to(&service.pod).await;
    let worker = Worker::start_at(&url, 600_000);
    service.send(&json!({"number": 1, "workMs": 500})).await;
    eventually("it is leased", async || {
        match worker.has_said("leased") {
            0 => Err("not yet"),
            _ => Ok(()),
        }
        .map_err(str::to_owned)
    })
    .await;
    proxy.keep_answers();
    service.inbox.journal.reaches(1).await;
    assert_eq!(worker.has_said("completed"), 0, "its answer is kept back");
    proxy.cut();
    eventually("it knows", async || match worker.has_said("completed") {
        0 => Err("not yet".to_owned()),
        _ => Ok(()),
    })
    .await;
    let events = worker.events();
    let completed = events.iter().find_map(|event| event.get("completed"));
    assert_eq!(completed, Some(&json!("settled")), "{events:?}");
    assert_eq!(worker.has_said("failed"), 0, "{events:?}");
}

/// One destination, for the README's worker, which creates `invoices` itself.
async fn readme(change: (&str, &str), count: u64) -> (Service, Worker) {
    let service = Service::start().await;
    let (pod, receiver) = (service.pod.url(""), service._receiver.url());
    let changes = [
        ("http://127.0.0.1:8080", pod.as_str()),
        ("http://127.0.0.1:9001/in", receiver.as_str()),
        ("500 + 500 * Math.random()", "1"),
        change,
    ];
    let worker = Worker::of_readme(&changes);
    for order in 1..=count {
        let item = json!({"destinations": ["invoices"], "body": {"order": order, "net": 100}});
        eventually("it is sent", async || {
            let request = client().post(service.pod.url("/v1/messages")).json(&item);
            let status = request.send().await.unwrap().status();
            if status == 202 { Ok(()) } else { Err(status.to_string()) }
        })
        .await;
    }
    (service, worker)
}

#[tokio::test]
async fn the_worker_of_the_readme_works_as_it_stands_there() {
    let (service, _worker) = readme(("sleep(", "sleep("), 8).await;
    service.inbox.journal.reaches(8).await;
    let orders: Vec<_> = service.delivered().iter().map(|order| order["order"].clone()).collect();
    assert_eq!(orders, (1..=8).map(Value::from).collect::<Vec<_>>());
    assert!(service.delivered().iter().all(|order| order["gross"] == 120.0));
}

#[tokio::test]
async fn readme_worker_that_returns_nothing_fails_at_once() {
    let output = "return { ...order, gross: order.net * 1.2 };";
    let (service, _worker) = readme((output, ""), 1).await;
    is_halted_after_one_attempt(&service.pod, "invoices").await;
}

/// The work takes longer than the lease.
#[tokio::test]
async fn readme_worker_keeps_its_lease_for_as_long_as_it_works() {
    let service = Service::start().await;
    let (pod, receiver) = (service.pod.url(""), service._receiver.url());
    let _worker = Worker::of_readme(&[
        ("http://127.0.0.1:8080", pod.as_str()),
        ("http://127.0.0.1:9001/in", receiver.as_str()),
        ("500 + 500 * Math.random()", "1000"),
        ("concurrency: 8", "concurrency: 8, leaseMs: 300"),
    ]);
    let item = json!({"destinations": ["invoices"], "body": {"order": 1, "net": 100}});
    eventually("it is sent", async || {
        let request = client().post(service.pod.url("/v1/messages")).json(&item);
        let status = request.send().await.unwrap().status();
        if status == 202 { Ok(()) } else { Err(status.to_string()) }
    })
    .await;
    service.inbox.journal.reaches(1).await;
    let path = service.pod.url("/v1/stats");
    let stats: Value = client().get(path).send().await.unwrap().json().await.unwrap();
    assert_eq!(stats["totals"]["halted"], 0, "{stats}");
    assert_eq!(service.pod.metric("reseq_reaped_leases_total").await, 0.0);
}
