//! A Reseq, and what the tests ask of it.

use std::{collections::BTreeMap, path::PathBuf};

use reqwest::Method;
use reseq_testing::support::{
    pods::{Addresses, Pod, Settings, client},
    power::PoweredRedis,
    redis::TestRedis,
    wait::eventually,
};
use serde_json::{Value, json};
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
};

use crate::connector::Connector;

/// How often a storm kills each of its processes (`RESEQ_CONNECT_KILLS`).
pub fn kills() -> usize {
    std::env::var("RESEQ_CONNECT_KILLS").map_or(2, |text| text.parse().unwrap())
}

/// How often a storm cuts the power of Redis: ten times in a long run.
fn cuts() -> usize {
    kills().min(10)
}

/// How long the longest transaction is, in MB (`RESEQ_CONNECT_TRANSACTION_MB`).
pub fn transaction_mb() -> usize {
    std::env::var("RESEQ_CONNECT_TRANSACTION_MB").map_or(120, |text| text.parse().unwrap())
}

/// A pod over a Redis, at an address that stays the same.
pub struct Reseq {
    pub pod: Pod,
    url: String,
    /// The file with the token of connectors.
    pub token_file: Option<PathBuf>,
}

/// The admin token of pods that want tokens.
const ADMIN: &str = "an-admin-token-from-the-environment";

impl Reseq {
    /// Starts a pod whose destinations are pulled, each lane in order.
    pub async fn start(redis_url: &str, destinations: &[&str]) -> Reseq {
        Reseq::start_with(Settings::new(redis_url), destinations).await
    }

    /// A pod that wants tokens.
    pub async fn start_guarded(redis_url: &str, destinations: &[&str]) -> Reseq {
        let mut settings = Settings::new(redis_url);
        settings.environment = vec![("RESEQ_AUTH_ADMIN_TOKEN".into(), ADMIN.into())];
        Reseq::start_with(settings, destinations).await
    }

    /// A pod whose destination `erp` has these fields.
    #[cfg(feature = "kafka")]
    pub async fn start_as(redis_url: &str, fields: &str) -> Reseq {
        Reseq::start_with(Settings::new(redis_url).destination("erp", fields), &[]).await
    }

    async fn start_with(mut settings: Settings, destinations: &[&str]) -> Reseq {
        for name in destinations {
            let fields = "ordering = \"key\"\ndelivery = { kind = \"pull\" }";
            settings = settings.destination(name, fields);
        }
        let pod = Pod::start("reseq", "ingest,processor,sender", &settings).await;
        let url = door(pod.addresses.clone()).await;
        Reseq { pod, url, token_file: None }
    }

    /// A token with these scopes.
    pub async fn token(&self, scopes: &[&str]) -> String {
        let request = json!({"name": format!("{scopes:?}"), "scopes": scopes});
        let made =
            client().post(format!("{}/v1/tokens", self.url)).bearer_auth(ADMIN).json(&request);
        let answer: Value = made.send().await.unwrap().json().await.unwrap();
        answer["token"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
    }

    /// How a connector reaches it: lines of its configuration.
    pub fn access(&self) -> String {
        let token = self.token_file.as_ref().map(|file| format!("token_file = {file:?}\n"));
        format!("url = \"{}\"\n{}", self.url, token.unwrap_or_default())
    }

    pub async fn ask(&self, method: Method, path: &str, body: Option<Value>) -> (u16, Value) {
        let mut request = client().request(method, format!("{}{path}", self.url));
        if let Some(body) = body {
            request = request.json(&body);
        }
        let answer = request.send().await.unwrap();
        let status = answer.status().as_u16();
        (status, serde_json::from_str(&answer.text().await.unwrap()).unwrap_or_default())
    }

    /// Sends a batch, of which all must be accepted.
    #[cfg(feature = "kafka")]
    pub async fn send_lines(&self, lines: &[String]) {
        let request = client().post(format!("{}/v1/messages", self.url));
        let request = request.header("content-type", "application/x-ndjson").body(lines.join("\n"));
        let text = request.send().await.unwrap().text().await.unwrap();
        assert!(text.lines().count() == lines.len() && !text.contains("\"status\""), "{text}");
    }

    /// The name and the mark of the only source of a destination.
    pub async fn mark(&self, destination: &str) -> Option<(String, String)> {
        let path = format!("/v1/destinations/{destination}/sources");
        let (_, answer) = self.ask(Method::GET, &path, None).await;
        let one = answer["items"].get(0)?;
        Some((one["name"].as_str()?.to_owned(), one["mark"].as_str()?.to_owned()))
    }

    /// How many messages a destination has had.
    pub async fn count(&self, destination: &str) -> u64 {
        let url = format!("{}/v1/destinations/{destination}/stats", self.url);
        // Redis, or the pod, may be away for a moment.
        eventually("the stats", async || {
            let answer = client().get(&url).send().await.map_err(|error| error.to_string())?;
            let text = answer.text().await.map_err(|error| error.to_string())?;
            let stats: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
            stats["last_sequence"].as_u64().ok_or(text)
        })
        .await
    }

    pub async fn has(&self, destination: &str, count: u64) {
        eventually(&format!("{count} messages at {destination}"), async || {
            match self.count(destination).await {
                found if found == count => Ok(()),
                found => Err(format!("{found}")),
            }
        })
        .await;
    }

    /// The same for much, which may take long as long as it goes on.
    pub async fn gets(&self, destination: &str, count: u64) {
        let mut found = 0;
        while found < count {
            found =
                eventually("more messages arrive", async || match self.count(destination).await {
                    now if now > found => Ok(now),
                    now => Err(format!("{now} of {count}")),
                })
                .await;
        }
        assert_eq!(found, count);
    }

    /// What it says to a request that may be repeated, once it can.
    async fn answer(&self, path: &str, body: Value) -> Value {
        eventually(path, async || match self.ask(Method::POST, path, Some(body.clone())).await {
            (200, answer) => Ok(answer),
            (status, answer) => Err(format!("{status} {answer}")),
        })
        .await
    }

    /// Takes this many messages, in order.
    pub async fn take(&self, destination: &str, count: usize) -> Vec<Value> {
        let mut taken = Vec::new();
        while taken.len() < count {
            let path = format!("/v1/destinations/{destination}/consume");
            let request = json!({"max": 1000, "wait_ms": 30_000});
            let answer = self.answer(&path, request).await;
            let deliveries = answer["deliveries"].as_array().unwrap().clone();
            assert!(!deliveries.is_empty(), "only {} of {count} messages", taken.len());
            let last: BTreeMap<String, Value> = deliveries
                .iter()
                .map(|one| (one["lane"].to_string(), json!({"token": one["token"]})))
                .collect();
            let items: Vec<&Value> = last.values().collect();
            let ends = json!({"items": items});
            let answer = self.answer("/v1/deliveries/accept", ends).await;
            // A lane whose lease has ended on a busy machine comes again.
            let ended =
                |result: &&Value| !["ok", "settled"].map(Value::from).contains(&result["status"]);
            let ended: Vec<&Value> =
                answer["results"].as_array().unwrap().iter().filter(ended).collect();
            let lanes = last
                .iter()
                .filter(|(_, item)| ended.iter().any(|end| end["token"] == item["token"]));
            let lanes: Vec<&String> = lanes.map(|(lane, _)| lane).collect();
            if !lanes.is_empty() {
                eprintln!("{destination}: comes again: {ended:?}");
            }
            let is_taken = |one: &Value| !lanes.contains(&&one["lane"].to_string());
            taken.extend(deliveries.into_iter().filter(is_taken));
        }
        taken
    }
}

/// An address that leads to wherever the pod listens now.
async fn door(addresses: Addresses) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        loop {
            let (mut near, _) = listener.accept().await.unwrap();
            let Some(address) = addresses.http() else { continue };
            tokio::spawn(async move {
                if let Ok(mut far) = TcpStream::connect(address).await {
                    let _ = copy_bidirectional(&mut near, &mut far).await;
                }
            });
        }
    });
    url
}

/// Waits until this many more messages have arrived.
pub async fn goes_on(reseq: &Reseq, count: u64) {
    let before = reseq.count("erp").await;
    eventually("messages arrive", async || match reseq.count("erp").await {
        found if found >= before + count => Ok(()),
        found => Err(format!("{found}, before {before}")),
    })
    .await;
}

/// Cuts the power of Redis while messages arrive, until so many cuts have lost something: right after a sync, a cut
/// loses nothing.
pub async fn cut_each(reseq: &Reseq, redis: &mut PoweredRedis) {
    let mut losses = 0;
    for _ in 0..4 * cuts() {
        goes_on(reseq, 200).await;
        losses += usize::from(redis.cut().bytes > 0);
        redis.restart().await;
        goes_on(reseq, 100).await;
        if losses == cuts() {
            return;
        }
    }
    panic!("only {losses} cuts lost something");
}

/// Kills the connector, the pod and Redis, each while messages arrive, and starts them again.
pub async fn kill_each(connector: &mut Connector, reseq: &mut Reseq, redis: &TestRedis) {
    goes_on(reseq, 100).await;
    connector.kill();
    connector.start(&[]);
    goes_on(reseq, 100).await;
    reseq.pod.kill();
    reseq.pod.restart().await;
    goes_on(reseq, 100).await;
    redis.kill_and_restart().await;
}
