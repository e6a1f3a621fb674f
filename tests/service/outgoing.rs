//! Tests the check of addresses: when a destination is defined, and when a connection is opened.

use std::{
    io,
    net::IpAddr,
    sync::Arc,
    sync::atomic::{AtomicBool, Ordering},
};

use config::Config;
use outbound::outgoing::Lookup;
use reseq::{Reseq, Running};
use serde_json::{Value, json};
use support::{
    pods::{Pod, Settings, client, refused_start},
    receiver::{Inbox, Receiver},
    redis::TestRedis,
    wait::eventually,
};

use crate::support;

async fn put(url: String, definition: Value) -> (u16, Value) {
    let answer = client().put(url).json(&definition).send().await.unwrap();
    (answer.status().as_u16(), answer.json().await.unwrap())
}

#[track_caller]
fn is_refused((status, problem): (u16, Value), field: &str, named: &str) {
    assert_eq!((status, &problem["code"]), (422, &json!("refused_address")), "{problem}");
    assert_eq!(problem["errors"][0]["pointer"], format!("#/{field}"), "{problem}");
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains(named) && detail.contains("outgoing.allow"), "{detail}");
}

#[tokio::test]
async fn a_destination_that_leads_to_an_inner_address_is_not_defined() {
    let redis = TestRedis::start().await;
    let settings = Settings { outgoing: String::new(), ..Settings::new(redis.url()) };
    let pod = Pod::start("reseq", "ingest,processor,sender", &settings).await;
    let erp = || pod.url("/v1/destinations/erp");
    for (url, named) in [
        ("http://127.0.0.1:9001/in", "127.0.0.1:9001 is a loopback address"),
        ("http://0177.1:9001/in", "127.0.0.1:9001"),
        ("http://localhost/", "127.0.0.1:80"),
        ("https://[::ffff:10.0.0.1]/", "10.0.0.1:443 is a private address"),
        ("http://169.254.169.254/latest/meta-data", "169.254.169.254:80 is a link-local address"),
        ("tcp://0x7f000001:7000", "127.0.0.1:7000"),
        ("tcp://localhost:7000", "127.0.0.1:7000"),
    ] {
        is_refused(put(erp(), json!({"url": url})).await, "url", named);
    }
    let transform = json!({"kind": "http", "url": "http://[::1]:9002/"});
    let definition = json!({"url": "http://203.0.114.1/", "transform": transform});
    is_refused(put(erp(), definition).await, "transform/url", "[::1]:9002");
    assert_eq!(client().get(erp()).send().await.unwrap().status(), 404);

    let (status, _) = put(erp(), json!({"url": "http://203.0.114.1/"})).await;
    assert_eq!(status, 201);
    let patch = client().patch(erp()).header("content-type", "application/merge-patch+json");
    let answer = patch.body(r#"{"url": "http://10.0.0.1/"}"#).send().await.unwrap();
    let status = answer.status().as_u16();
    is_refused((status, answer.json().await.unwrap()), "url", "10.0.0.1:80");
}

#[tokio::test]
async fn no_allow_list_opens_reseq_itself_and_its_redis() {
    let redis = TestRedis::start().await;
    let everything = "allow = [\"0.0.0.0/0\", \"::/0\"]".to_owned();
    let settings =
        Settings { outgoing: everything, tcp: vec![("in", "lines")], ..Settings::new(redis.url()) };
    let pod = Pod::start("reseq", "ingest,processor,sender", &settings).await;
    let erp = || pod.url("/v1/destinations/erp");
    let own = pod.url("/v1/destinations/other/messages");
    is_refused(put(erp(), json!({"url": own})).await, "url", "a listener of Reseq itself");
    let own = format!("tcp://0x7f.1:{}", pod.addresses.tcp(0).port());
    is_refused(put(erp(), json!({"url": own})).await, "url", "a listener of Reseq itself");
    if let Some(address) = redis.url().strip_prefix("redis://") {
        let port = address.trim_end_matches('/').rsplit_once(':').unwrap().1;
        let url = format!("tcp://0x7f.1:{port}");
        is_refused(put(erp(), json!({"url": url})).await, "url", "a Redis server of Reseq");
    }
    let (status, _) = put(erp(), json!({"url": "http://127.0.0.1:9/"})).await;
    assert_eq!(status, 201);
}

#[tokio::test]
async fn other_addresses_of_the_own_redis_are_refused() {
    let redis = TestRedis::start_on_tcp(&[]).await;
    let port = redis.port().to_string();
    let replica = TestRedis::start_on_tcp(&["--replicaof", "127.0.0.1", &port]).await;
    eventually("the replica is there", async || {
        match redis.info("connected_slaves").await.as_str() {
            "1" => Ok(()),
            count => Err(count.to_owned()),
        }
    })
    .await;
    let outgoing = "allow = [\"0.0.0.0/0\", \"::/0\"]".to_owned();
    let pod =
        Pod::start("reseq", "ingest", &Settings { outgoing, ..Settings::new(redis.url()) }).await;
    let erp = || pod.url("/v1/destinations/erp");
    for host in
        ["127.0.0.1", "[::1]", "localhost", "0.0.0.0", "[::ffff:7f00:1]", "127.9.9.9", "[::]"]
    {
        for port in [redis.port(), replica.port()] {
            let url = format!("tcp://{host}:{port}");
            is_refused(put(erp(), json!({"url": url})).await, "url", "a Redis server of Reseq");
        }
    }
    // Redis is refused even if the configuration names only its socket.
    let socket = redis.dir().join("s");
    let socket = socket.to_str().unwrap();
    let both = TestRedis::start_on_tcp(&["--unixsocket", socket]).await;
    let outgoing = "allow = [\"127.0.0.0/8\"]".to_owned();
    let settings = Settings { outgoing, ..Settings::new(&format!("unix://{socket}")) };
    let pod = Pod::start("socket", "ingest", &settings).await;
    let url = format!("tcp://127.0.0.1:{}", both.port());
    let refused = put(pod.url("/v1/destinations/erp"), json!({"url": url})).await;
    is_refused(refused, "url", "a Redis server of Reseq");
}

#[tokio::test]
async fn a_file_with_such_a_destination_is_refused_by_the_field() {
    let redis = TestRedis::start().await;
    let of = |fields: &str| {
        format!("[redis]\nurl = \"{}\"\n[http]\nlisten = \"127.0.0.1:0\"\n{fields}", redis.url())
    };
    for (fields, named) in [
        ("[[destination]]\nname = \"erp\"\nurl = \"http://127.1/\"\n", "\"erp\": url"),
        ("[[destination]]\nname = \"erp\"\nurl = \"tcp://localhost:1\"\n", "\"erp\": url"),
        ("[outgoing]\nallow = [\"10.1.2.3/16\"]\n", "10.1.0.0/16"),
        ("[outgoing]\nallow = [\"erp.example:80\"]\n", "write a network"),
    ] {
        let (status, said) = refused_start(&of(fields)).await;
        assert!(!status.success() && said.contains(named), "{said}");
    }
}

/// A resolver that gives a public address for each name, until it is switched. Then it gives the
/// address of this machine.
struct Rebinding(Arc<AtomicBool>);

#[async_trait::async_trait]
impl Lookup for Rebinding {
    async fn lookup(&self, _: &str) -> io::Result<Vec<IpAddr>> {
        let is_turned = self.0.load(Ordering::Relaxed);
        Ok(vec![IpAddr::from(if is_turned { [127, 0, 0, 1] } else { [203, 0, 114, 1] })])
    }
}

async fn start(redis: &TestRedis, is_turned: &Arc<AtomicBool>) -> Running {
    let mut config = Config::default();
    config.http.listen = "127.0.0.1:0".parse().unwrap();
    config.redis.url = redis.url().to_owned();
    Reseq::new(config).lookup(Rebinding(is_turned.clone())).start().await.unwrap()
}

#[tokio::test]
async fn name_rebound_after_definition_is_refused_at_connection() {
    let redis = TestRedis::start().await;
    let is_turned = Arc::new(AtomicBool::new(false));
    let running = start(&redis, &is_turned).await;
    let at = |path: &str| format!("http://{}/v1/destinations/{path}", running.http);
    let inbox = Arc::new(Inbox::default());
    let receiver = Receiver::http(&inbox).await;
    let port = receiver.url().parse::<reqwest::Url>().unwrap().port().unwrap();
    let (name, few) = ("rebinding.example", json!({"attempts_max": 2, "backoff_ms": 1}));
    let to_http = json!({"url": format!("http://{name}:{port}/in"), "delivery": few,
        "on_exhausted": "drop"});
    let to_tcp = json!({"url": format!("tcp://{name}:{port}"), "delivery": few,
        "on_exhausted": "drop"});
    let transform = json!({"kind": "http", "url": format!("http://{name}:{port}/"),
        "attempts_max": 2, "backoff_ms": 1});
    let by_transform = json!({"url": "http://203.0.114.1/", "transform": transform});
    let all = [("http", to_http), ("tcp", to_tcp), ("transform", by_transform)];
    for (name, definition) in &all {
        assert_eq!(put(at(name), definition.clone()).await.0, 201);
    }
    is_turned.store(true, Ordering::Relaxed);
    for (name, definition) in &all {
        let post = client().post(at(&format!("{name}/messages"))).body("x");
        assert_eq!(post.send().await.unwrap().status(), 202);
        // The message is not lost, even with `on_exhausted = "drop"`.
        let head = eventually("it halts", async || {
            let stats = client().get(at(&format!("{name}/stats"))).send().await.unwrap();
            let stats: Value = stats.json().await.unwrap();
            match stats["head"]["state"] == "halted" {
                true => Ok(stats["head"].clone()),
                false => Err(stats.to_string()),
            }
        })
        .await;
        let error = &head["last_error"];
        assert_eq!(error["kind"], "connection", "{error}");
        let named = format!("127.0.0.1:{port} is a loopback address");
        let detail = error["detail"].as_str().unwrap();
        assert!(detail.contains(&named) && detail.contains("outgoing.allow"), "{detail}");
        // From now on, defining the destination is refused too.
        is_refused(
            put(at(name), definition.clone()).await,
            if *name == "transform" { "transform/url" } else { "url" },
            &named,
        );
    }
    assert_eq!(inbox.journal.messages(), 0, "nothing has been delivered");
    running.stop().await.unwrap();
}
