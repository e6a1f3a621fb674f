//! Tests that a failed start names the cause in a plain sentence, and the process ends.

use std::net::SocketAddr;

use config::Config;
use reseq::Reseq;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufStream},
    net::{TcpListener, TcpStream},
};

use super::said;
use crate::support::{
    http::accept,
    pods::{Pod, Settings, client, refused_start},
    redis::TestRedis,
};

async fn refused(config: &str, named: &[&str]) {
    let (status, said) = refused_start(config).await;
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.starts_with("reseq: "), "{said}");
    for name in named {
        assert!(said.contains(name), "{said:?} does not name {name:?}");
    }
    assert!(!said.contains("panicked") && !said.contains("RedisError"), "{said}");
}

#[tokio::test]
async fn a_configuration_that_cannot_be_is_refused_by_the_field() {
    let tcp = "[[tcp]]\nlisten = \"127.0.0.1:0\"\ndestination = \"erp\"\nframing = \"morse\"\n";
    refused(tcp, &["morse", "framing", "lines", "length"]).await;
    let destination = "[[destination]]\nname = \"erp\"\nurl = \"http://h/\"\n";
    refused(&format!("{destination}delivery = {{ framing = \"morse\" }}"), &["morse", "framing"])
        .await;
    refused(&format!("{destination}colour = \"red\""), &["colour"]).await;
    refused("[http]\nlisten_on = \"127.0.0.1:0\"\n", &["listen_on"]).await;
    refused("[htttp]\n", &["htttp"]).await;
    refused("[sender]\nlease_ms = 1\n", &["sender.lease_ms", "500"]).await;
    refused("[redis]\nurl = \"mysql://h\"\n", &["redis.url"]).await;
    refused("this is not TOML", &["not valid", "line 1"]).await;
}

#[tokio::test]
async fn where_there_is_no_ingest_its_routes_are_not_there() {
    let redis = TestRedis::start().await;
    let settings = Settings::new(redis.url()).destination("erp", "url = \"http://127.0.0.1:1/\"");
    let pod = Pod::start("sender", "sender", &settings).await;
    for path in ["/v1/messages", "/v1/destinations/erp/messages"] {
        let answer = said(client().post(pod.url(path)).body("x")).await;
        answer.is_problem(404, "not_found", "");
    }
    let listed = said(client().get(pod.url("/v1/destinations/erp/messages"))).await;
    assert_eq!(listed.status, 200, "{:?}", listed.body);
}

#[tokio::test]
async fn a_deployment_of_another_number_of_partitions_is_refused() {
    let redis = TestRedis::start().await;
    let settings = Settings { partitions: 32, ..Settings::new(redis.url()) };
    let mut pod = Pod::start("first", "ingest", &settings).await;
    pod.terminate();
    assert!(pod.ended().await.success());
    let config = format!("[redis]\nurl = \"{}\"\npartitions = 64\n", redis.url());
    refused(&config, &["redis.partitions", "32", "64"]).await;
    // The attempt changed nothing.
    pod.restart().await;
}

#[tokio::test]
async fn absent_evicting_or_too_old_redis_is_refused_at_start() {
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = gone.local_addr().unwrap();
    drop(gone);
    let config =
        |url: &str| format!("[http]\nlisten = \"127.0.0.1:0\"\n[redis]\nurl = \"{url}\"\n");
    refused(&config(&format!("redis://{address}")), &["cannot be reached", "redis.url"]).await;

    let evicting = ["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"];
    let redis = TestRedis::start_with(&evicting).await;
    refused(&config(redis.url()), &["maxmemory-policy", "allkeys-lru", "noeviction"]).await;

    let redis = TestRedis::start().await;
    redis.ask::<()>(&["CONFIG", "SET", "requirepass", "secret"]).await.unwrap();
    refused(&config(redis.url()), &["wants a password", "redis.url has none"]).await;

    let (address, _server) = accept(|stream| async move {
        let _ = old_redis(stream).await;
    })
    .await;
    refused(&config(&format!("redis://{address}")), &["6.2.14", "7.0"]).await;
}

#[tokio::test]
async fn an_address_that_is_taken_is_refused_by_the_field() {
    let redis = TestRedis::start().await;
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = taken.local_addr().unwrap();
    let config = format!("[http]\nlisten = \"{address}\"\n[redis]\nurl = \"{}\"\n", redis.url());
    refused(&config, &["http.listen", &address.to_string()]).await;
}

#[tokio::test]
async fn a_listener_may_have_a_name_and_listens_on_all_its_addresses() {
    let redis = TestRedis::start().await;
    let start = async |listen: &str| {
        let mut config = Config::default();
        config.redis.url = redis.url().to_owned();
        config.http.listen = listen.parse().unwrap();
        config.validate().unwrap();
        Reseq::new(config).start().await
    };
    let healthy = async |address: SocketAddr| {
        let url = format!("http://{address}/healthz");
        client().get(url).send().await.is_ok_and(|answer| answer.status() == 200)
    };
    let running = start("localhost:0").await.unwrap();
    let names = tokio::net::lookup_host(("localhost", running.http.port())).await.unwrap();
    for address in names {
        // A machine without IPv6 does not have ::1.
        if TcpListener::bind((address.ip(), 0)).await.is_ok() {
            assert!(healthy(address).await, "{address}");
        }
    }
    running.stop().await.unwrap();
    // Without a token, the start also refuses a name that other machines can reach.
    let all = start("[::]:0").await.err().unwrap().to_string();
    assert!(all.contains("http.listen") && all.contains("auth.mode"), "{all}");
    let none = start("no-such-host.invalid:0").await.err().unwrap().to_string();
    assert!(none.contains("http.listen") && none.contains("no-such-host.invalid"), "{none}");
    for text in ["localhost", ":8080", "http://localhost:8080", "localhost:port"] {
        let config = format!("[http]\nlisten = \"{text}\"\n[redis]\nurl = \"{}\"\n", redis.url());
        refused(&config, &["listen", "localhost:8080"]).await;
    }
}

/// The part of an old Redis that a client queries before it knows the version.
async fn old_redis(stream: TcpStream) -> std::io::Result<()> {
    let mut stream = BufStream::new(stream);
    loop {
        let mut words = Vec::new();
        for _ in 0..number(&mut stream).await? {
            let length = number(&mut stream).await?;
            let mut word = vec![0; length + 2];
            stream.read_exact(&mut word).await?;
            words.push(String::from_utf8_lossy(&word).trim().to_uppercase());
        }
        let info =
            "redis_version:6.2.14\r\nredis_mode:standalone\r\nmaxmemory_policy:noeviction\r\n";
        let answer = match words.first().map(String::as_str) {
            None => return Ok(()),
            Some("INFO") => format!("${}\r\n{info}\r\n", info.len()),
            Some("PING") => "+PONG\r\n".to_owned(),
            Some(_) => "+OK\r\n".to_owned(),
        };
        stream.write_all(answer.as_bytes()).await?;
        stream.flush().await?;
    }
}

/// The number in a line such as `*3` or `$5`; 0 at the end.
async fn number(stream: &mut BufStream<TcpStream>) -> std::io::Result<usize> {
    let mut line = String::new();
    stream.read_line(&mut line).await?;
    Ok(line.trim().get(1..).and_then(|digits| digits.parse().ok()).unwrap_or(0))
}
