//! Tests workers that disconnect before they get their answer: the pod requeues the messages at
//! once, and counts no attempt. Leases last far longer than any test.

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
};

use super::{Service, position, said};
use crate::support::{
    checker::stats,
    pods::{Pod, Settings, client},
    proxy::Proxy,
    redis::TestRedis,
    wait::{eventually, within},
};

const LEASE_MS: u64 = 3_600_000;

/// The bytes of a request for leases.
fn request(more: Value) -> String {
    let mut body = json!({"destinations": ["work"], "max": 16, "lease_ms": LEASE_MS});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let body = body.to_string();
    format!(
        "POST /v1/leases HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len(),
    )
}

async fn begun(service: &Service, more: Value) -> TcpStream {
    let mut stream = TcpStream::connect(service.pod.addresses.http().unwrap()).await.unwrap();
    stream.write_all(request(more).as_bytes()).await.unwrap();
    stream
}

/// One pod with a destination `work`, and this many messages for it.
async fn service(messages: usize, bytes: usize) -> Service {
    let service = Service::start_with(|settings| Settings {
        http: "body_bytes_max = 1048576".into(),
        ..settings
    })
    .await;
    service.define("work", json!({"transform": {"kind": "worker"}})).await;
    for _ in 0..messages {
        send(&service, bytes).await;
    }
    service
}

async fn send(service: &Service, bytes: usize) {
    let path = "/v1/destinations/work/messages";
    let sent = said(service.post(path, "text/plain", "x".repeat(bytes))).await;
    assert_eq!(sent.status, 202, "{}", sent.body);
}

/// The leases of one call.
async fn leased(pod: &Pod) -> Vec<Value> {
    let request = json!({"destinations": ["work"], "max": 16, "lease_ms": LEASE_MS});
    let answer = client().post(pod.url("/v1/leases")).json(&request).send().await.unwrap();
    let status = answer.status();
    let body: Value = answer.json().await.unwrap();
    if status == 200 { body["leases"].as_array().unwrap().clone() } else { Vec::new() }
}

/// Waits until this many messages can be leased, each at its first attempt.
async fn all_are_there(pod: &Pod, count: usize) -> Vec<Value> {
    let mut all = Vec::new();
    eventually("what was not received is given back", async || {
        all.extend(leased(pod).await);
        if all.len() == count { Ok(()) } else { Err(format!("{} are there", all.len())) }
    })
    .await;
    assert!(all.iter().all(|lease| lease["attempt"] == 1), "{all:?}");
    all
}

async fn release(service: &Service, leases: &[Value]) {
    let items: Vec<_> = leases.iter().map(|lease| json!({"token": lease["token"]})).collect();
    let answer = said(service.json("/v1/leases/requeue", &json!({"items": items}))).await;
    assert!(answer.body["results"].as_array().unwrap().iter().all(|one| one["status"] == "ok"));
}

/// Waits until the pod counts requeued leases. It counts only after Redis has answered.
async fn some_were_requeued(pod: &Pod) {
    eventually("leases that were requeued are counted", async || {
        let count = pod.metric("reseq_leases_requeued_total").await;
        if count >= 1.0 { Ok(()) } else { Err(count.to_string()) }
    })
    .await;
}

#[tokio::test]
async fn what_is_claimed_for_a_worker_that_has_hung_up_is_given_back() {
    let service = service(3, 10).await;
    for _ in 0..10 {
        drop(begun(&service, json!({})).await);
        let leases = all_are_there(&service.pod, 3).await;
        release(&service, &leases).await;
    }
    some_were_requeued(&service.pod).await;
}

#[tokio::test]
async fn a_long_poll_that_was_hung_up_takes_nothing() {
    let service = service(0, 0).await;
    let polls: Vec<_> =
        futures::future::join_all((0..20).map(|_| begun(&service, json!({"wait_ms": 60_000}))))
            .await;
    drop(polls);
    send(&service, 10).await;
    all_are_there(&service.pod, 1).await;
}

#[tokio::test]
async fn messages_of_an_unwritable_answer_are_given_back() {
    let service = service(12, 1 << 20).await;
    let mut stream = begun(&service, json!({})).await;
    // The worker dies while it reads.
    let mut first = [0; 1000];
    within("the answer begins", stream.read_exact(&mut first)).await.unwrap();
    drop(stream);
    all_are_there(&service.pod, 12).await;
}

#[tokio::test]
async fn messages_of_an_unacknowledged_answer_are_given_back() {
    let service = Service::start_with(|settings| Settings {
        http: "body_bytes_max = 1048576\nacknowledge_timeout_ms = 500\nidle_timeout_ms = 600000"
            .into(),
        ..settings
    })
    .await;
    service.define("work", json!({"transform": {"kind": "worker"}})).await;
    for _ in 0..8 {
        send(&service, 1 << 20).await;
    }
    // A suspended worker, whose system has a small buffer and accepts no more data.
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let address = service.pod.addresses.http().unwrap();
    let mut stream = socket.connect(address).await.unwrap();
    stream.write_all(request(json!({})).as_bytes()).await.unwrap();
    within("the answer begins", stream.peek(&mut [0])).await.unwrap();
    all_are_there(&service.pod, 8).await;
    some_were_requeued(&service.pod).await;
    drop(stream);
}

#[tokio::test]
async fn worker_closing_its_direction_gets_and_keeps_its_leases() {
    let service = service(2, 10).await;
    let mut stream = begun(&service, json!({})).await;
    stream.shutdown().await.unwrap();
    let mut answer = String::new();
    within("it is answered", stream.read_to_string(&mut answer)).await.unwrap();
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    let leases = serde_json::from_str::<Value>(body).unwrap()["leases"].clone();
    assert_eq!(leases.as_array().unwrap().len(), 2, "{answer}");
    release(&service, leases.as_array().unwrap()).await;
    // A long poll gets its answer at once, because the client can send no more.
    let leases = all_are_there(&service.pod, 2).await;
    let mut stream = begun(&service, json!({"wait_ms": 60_000})).await;
    stream.shutdown().await.unwrap();
    let mut answer = String::new();
    within("it is answered", stream.read_to_string(&mut answer)).await.unwrap();
    assert!(answer.ends_with("\r\n\r\n{\"leases\":[]}"), "{answer}");
    release(&service, &leases).await;
}

#[tokio::test]
async fn a_worker_that_read_its_answer_and_died_is_counted() {
    let service = service(1, 10).await;
    let mut stream = begun(&service, json!({"lease_ms": 1500})).await;
    let mut answer = Vec::new();
    let whole = async {
        while !answer.ends_with(b"]}") {
            stream.read_buf(&mut answer).await.unwrap();
        }
    };
    within("it is answered", whole).await;
    drop(stream);
    let lease = eventually("the lease runs out", async || {
        leased(&service.pod).await.pop().ok_or_else(|| "nothing is there".to_owned())
    })
    .await;
    assert_eq!(lease["attempt"], 2, "{lease}");
    assert_eq!(service.pod.metric("reseq_leases_requeued_total").await, 0.0);
}

/// A pod with a proxy before Redis, and a destination `work`.
async fn behind_proxy(roles: &str, kind: &str) -> (TestRedis, Proxy, Pod) {
    let redis = TestRedis::start().await;
    let proxy = Proxy::unix(redis.url());
    let settings = Settings { redis: "timeout_ms = 1000".into(), ..Settings::new(&proxy.url) };
    let fields = format!("url = \"http://127.0.0.1:1/\"\ntransform = {{ kind = \"{kind}\" }}");
    let settings = Settings { processor_lease_ms: LEASE_MS, ..settings };
    let pod = Pod::start("reseq", roles, &settings.destination("work", &fields)).await;
    (redis, proxy, pod)
}

/// The number of leases in Redis.
async fn leases_in(redis: &TestRedis) -> usize {
    let keys: Vec<String> = redis.ask(&["KEYS", "*:leases"]).await.unwrap();
    let mut count = 0;
    for key in keys {
        count += redis.ask::<usize>(&["ZCARD", &key]).await.unwrap();
    }
    count
}

#[tokio::test]
async fn messages_claimed_in_a_lost_redis_answer_are_given_back() {
    let (redis, proxy, pod) = behind_proxy("ingest,processor,sender", "worker").await;
    // From now on, Redis knows the script.
    assert!(leased(&pod).await.is_empty());
    let send = client().post(pod.url("/v1/destinations/work/messages")).body("x");
    let sent: Value = send.send().await.unwrap().json().await.unwrap();
    assert_eq!(position(&sent), (1, false));
    proxy.keep_answers_when_asked(":d:work:waiting");
    // Redis runs the call, but its answer is lost.
    assert!(leased(&pod).await.is_empty());
    assert_eq!(leases_in(&redis).await, 1);
    proxy.cut();
    all_are_there(&pod, 1).await;
}

#[tokio::test]
async fn a_processor_that_ends_gives_back_what_a_lost_answer_gave_it() {
    let redis = TestRedis::start().await;
    let proxy = Proxy::unix(redis.url());
    let fields = "url = \"http://127.0.0.1:1/\"\ntransform = { kind = \"jq\", expression = \".\" }";
    let settings = |url: &str| {
        let settings = Settings { redis: "timeout_ms = 1000".into(), ..Settings::new(url) };
        Settings { processor_lease_ms: LEASE_MS, ..settings }.destination("work", fields)
    };
    let ingest = Pod::start("ingest", "ingest", &settings(redis.url())).await;
    let mut processor = Pod::start("processor", "processor", &settings(&proxy.url)).await;
    let send = async |body: &'static str| {
        let send = client().post(ingest.url("/v1/destinations/work/messages")).body(body);
        assert_eq!(send.send().await.unwrap().status(), 202);
    };
    // After the first message, Redis knows the scripts.
    send("1").await;
    eventually("it is processed", async || {
        let ready = stats(&ingest, "work").await.map(|numbers| numbers["ready"] == 1);
        if ready == Ok(true) { Ok(()) } else { Err(format!("{ready:?}")) }
    })
    .await;
    proxy.keep_answers_when_asked(":d:work:waiting");
    send("2").await;
    eventually("it is claimed", async || match leases_in(&redis).await {
        1 => Ok(()),
        count => Err(count.to_string()),
    })
    .await;
    processor.terminate();
    eventually("it drains", async || {
        if processor.log().contains("draining") { Ok(()) } else { Err("it runs".to_owned()) }
    })
    .await;
    proxy.cut();
    assert!(processor.ended().await.success());
    assert_eq!(leases_in(&redis).await, 0);
}
