//! With replicas, a partition lease counts only once enough replicas have it.

use std::{
    io::{ErrorKind, Read, Write},
    net::TcpStream,
    sync::{Arc, Mutex},
};

use domain::Durability;
use serde_json::json;
use store::{OwnerToken, StoreError};
use tokio::io::AsyncReadExt;

use super::{
    servers::{Frozen, primary_with},
    world::{LONG, World, open},
};
use crate::support::{
    http,
    pods::{Pod, Settings, client},
    proxy::Proxy,
    receiver::{Inbox, Receiver},
    redis::TestRedis,
    wait::eventually,
};

#[tokio::test]
async fn ownership_needs_half_of_the_replicas() {
    let (redis, replicas) = primary_with(2).await;
    let world = World::with(open(redis.url(), 2, LONG).await, Durability::Memory).await;
    let own = async || world.store.acquire_partition(0, &world.token, LONG).await;
    own().await.unwrap();
    let one = Frozen::new(&replicas[0]);
    own().await.unwrap();
    // One replica and the primary are a majority: no other primary is elected without one of the
    // two.
    let two = Frozen::new(&replicas[1]);
    let settings = config::Redis {
        url: redis.url().to_owned(),
        partitions: 1,
        replicas: 2,
        timeout_ms: 1_000,
        ..Default::default()
    };
    let (impatient, _) = store::Store::open(&settings, LONG).await.unwrap();
    let renewed = impatient.acquire_partition(0, &world.token, LONG).await;
    assert!(matches!(renewed, Err(StoreError::Unconfirmed(_))), "{renewed:?}");
    drop((one, two));
    eventually("it is renewed again", async || {
        impatient.acquire_partition(0, &world.token, LONG).await.map_err(|error| error.to_string())
    })
    .await;
    let other = impatient.acquire_partition(0, &OwnerToken::random(), LONG).await;
    assert!(matches!(other, Err(StoreError::Owned(_))), "{other:?}");
}

#[tokio::test]
async fn a_primary_that_is_cut_off_keeps_no_owner() {
    let (redis, replicas) = primary_with(1).await;
    let inbox = Arc::new(Inbox::default());
    let receiver = Receiver::http(&inbox).await;
    let settings = Settings {
        partitions: 4,
        sender_lease_ms: 1500,
        redis: "replicas = 1\ntimeout_ms = 1000".into(),
        ..Settings::new(redis.url())
    };
    let settings = settings.destination("erp", &format!("url = \"{}\"", receiver.url()));
    let pod = Pod::start("reseq", "ingest,processor,sender", &settings).await;
    let send = async |number: usize| {
        let body = json!({"destinations": ["erp"], "body": number}).to_string();
        let request = client().post(pod.url("/v1/messages"));
        let request = request.header("content-type", "application/json").body(body);
        assert_eq!(request.send().await.unwrap().status(), 202);
    };
    send(1).await;
    inbox.journal.reaches(1).await;
    let owned = async |count: f64| {
        eventually(&format!("{count} partitions are owned"), async || {
            let now = pod.metric("reseq_sender_partitions_owned").await;
            if now == count { Ok(()) } else { Err(now.to_string()) }
        })
        .await;
    };
    owned(4.0).await;
    let cut_off = Frozen::new(&replicas[0]);
    owned(0.0).await;
    // The primary accepts the message, because `memory` requires no replica. No sender delivers it.
    send(2).await;
    eventually("the pod says why", async || {
        let log = pod.log();
        log.contains("was not confirmed").then_some(()).ok_or_else(|| "no word of it".to_owned())
    })
    .await;
    assert_eq!(inbox.journal.messages(), 1);
    drop(cut_off);
    inbox.journal.reaches(2).await;
    owned(4.0).await;
    let sequences: Vec<u64> =
        inbox.journal.all().iter().map(|one| one.headers.as_ref().unwrap().sequence).collect();
    assert_eq!(sequences, [1, 2]);
}

/// True if this connection, whose request was never answered, is still open.
fn is_open(mut request: &TcpStream) -> bool {
    let mut rest = [0; 4096];
    loop {
        match request.read(&mut rest) {
            Ok(0) => return false,
            Ok(_) => {}
            Err(error) => return error.kind() == ErrorKind::WouldBlock,
        }
    }
}

/// The partition lease has its default length, so that a slow machine does not use up the margin
/// within which the first pod must stop.
#[tokio::test]
async fn a_delivery_ends_with_its_lease_though_redis_does_not_answer() {
    let redis = TestRedis::start().await;
    let requests: Arc<Mutex<Vec<TcpStream>>> = Arc::default();
    let taken = requests.clone();
    let (address, _receiver) = http::accept(move |mut stream| {
        let taken = taken.clone();
        async move {
            if stream.read(&mut [0; 4096]).await.is_ok_and(|count| count > 0) {
                taken.lock().unwrap().push(stream.into_std().unwrap());
            }
        }
    })
    .await;
    let settings = |url: &str| {
        let fields = format!(
            "url = \"http://{address}/\"\nordering = \"key\"\ntransform = {{ kind = \"none\" }}\n\
             delivery = {{ timeout_ms = 60000 }}"
        );
        let redis = "timeout_ms = 20000".into();
        Settings { partitions: 1, redis, ..Settings::new(url) }.destination("erp", &fields)
    };
    let way = Proxy::unix(redis.url());
    let _first = Pod::start("first", "sender", &settings(&way.url)).await;
    let ingest = Pod::start("ingest", "ingest", &settings(redis.url())).await;
    let send = async |body: &str, key: &str| {
        let body = json!({"destinations": ["erp"], "body": body, "key": key}).to_string();
        let request = client().post(ingest.url("/v1/messages"));
        let request = request.header("content-type", "application/json").body(body);
        assert_eq!(request.send().await.unwrap().status(), 202);
    };
    send("one", "a").await;
    let arrives = async |count: usize| {
        eventually(&format!("{count} requests"), async || match requests.lock().unwrap().len() {
            found if found >= count => Ok(()),
            found => Err(found.to_string()),
        })
        .await;
    };
    arrives(1).await;
    send("two", "b").await;
    arrives(2).await;
    // Redis has another definition than the index. The receiver accepts the second message, and
    // Redis refuses the release of its lane. Then the delivering task, and no other, reads the
    // destination, and gets no answer.
    way.keep_answers_when_asked("HMGET\r\n$17\r\nreseq:{p00}:d:erp\r\n$7\r\nversion");
    redis.ask::<u64>(&["HINCRBY", "reseq:{p00}:d:erp", "version", "1"]).await.unwrap();
    requests.lock().unwrap()[1].write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").unwrap();
    eventually("the pod looks the destination up", async || {
        way.was_asked().then_some(()).ok_or_else(|| "not yet".to_owned())
    })
    .await;
    assert!(is_open(&requests.lock().unwrap()[0]), "its lease lasts");
    // Another sender takes both lanes over when the lease has expired.
    let _second = Pod::start("second", "sender", &settings(redis.url())).await;
    arrives(4).await;
    assert!(!is_open(&requests.lock().unwrap()[0]), "two senders deliver one lane at once");
}
