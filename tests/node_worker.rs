//! `examples/worker.mjs`, run by a real Node against a real pod.

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
    receiver::{Desk, Receiver},
    redis::TestRedis,
    wait::eventually,
};
use tempfile::TempDir;

mod support;

/// A worker; it ends when this is dropped.
struct Worker {
    child: Child,
    dir: TempDir,
}

impl Worker {
    fn start(pod: &Pod, lease_ms: u64) -> Worker {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str| std::fs::File::create(dir.path().join(name)).unwrap();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/worker.mjs");
        let mut command = Command::new("node");
        command.arg(script).arg("work");
        command.env("RESEQ_URL", pod.url("")).env("LEASE_MS", lease_ms.to_string());
        command.stdin(Stdio::null()).stdout(file("events")).stderr(file("errors"));
        let child = command.spawn().expect("node is installed");
        Worker { child, dir }
    }

    /// What it has said, in order.
    fn events(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.dir.path().join("events")).unwrap();
        // The last line may be under way.
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
    desk: Arc<Desk>,
    _receiver: Receiver,
}

impl Service {
    async fn start() -> Service {
        let redis = TestRedis::start().await;
        let desk = Arc::new(Desk::default());
        let receiver = Receiver::http(&desk).await;
        let fields = format!("url = \"{}\"\ntransform = {{ kind = \"worker\" }}", receiver.url());
        let settings = Settings::new(redis.url()).destination("work", &fields);
        let pod = Pod::start("reseq", "ingest,processor,sender", &settings).await;
        Service { redis, pod, desk, _receiver: receiver }
    }

    async fn send(&self, body: &Value) {
        let request = client().post(self.pod.url("/v1/destinations/work/messages"));
        let answer = request.json(body).send().await.unwrap();
        assert_eq!(answer.status(), 202);
    }

    /// The bodies that were delivered, in order.
    fn delivered(&self) -> Vec<Value> {
        let all = self.desk.journal.all();
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
async fn a_worker_in_node_leases_extends_fails_and_completes_and_the_order_holds() {
    const LEASE_MS: u64 = 300;
    let service = Service::start().await;
    let mut worker = Worker::start(&service.pod, LEASE_MS);
    let mut inputs = vec![
        // Longer than its lease: it must be extended to be completed at the first attempt.
        json!({"number": 0, "workMs": 4 * LEASE_MS}),
        json!({"number": 1, "failsFirst": true}),
    ];
    inputs.extend((2..40).map(|number| json!({"number": number, "workMs": (40 - number) % 7})));
    for input in &inputs {
        service.send(input).await;
    }
    service.desk.journal.reaches(inputs.len()).await;
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
    // The long one stood at the head while the others were finished.
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
    // The first is certainly in the middle of these when it is killed.
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
    service.desk.journal.reaches(inputs.len()).await;
    assert!(second.terminate().await.success());
    assert_eq!(service.delivered(), outputs(&inputs));
    let events = second.events();
    let taken_up = events.iter().filter(|event| event.get("leased").is_some());
    let attempts: Vec<_> = taken_up.map(|event| event["attempt"].as_u64()).collect();
    assert!(!attempts.is_empty() && attempts.len() <= inputs.len(), "{events:?}");
    assert!(attempts.iter().all(|attempt| *attempt == Some(2)), "{events:?}");
    forgotten(&mut service.redis.connection().await).await;
}
