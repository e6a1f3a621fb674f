//! One pod with all roles, a receiver, and a transform service with configurable answers.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use serde_json::{Value, json};
use tokio_util::task::AbortOnDropHandle;

use crate::support::{
    http::{self, Answer, Request},
    pods::{Pod, Settings, client},
    redis::TestRedis,
    wait::{LOOK_EVERY, eventually},
};

/// The destination of all these tests.
pub const ERP: &str = "erp";

/// A service that records its requests, and answers by the body of each request.
#[derive(Default)]
pub struct Service {
    /// Refused bodies: the status, and how often (`None`: always).
    refused: Mutex<HashMap<String, (u16, Option<usize>)>>,
    refused_all: Mutex<Option<(u16, usize)>>,
    pub taken: Mutex<Vec<Taken>>,
    /// Requests that have arrived, answered or not.
    pub arrived: AtomicUsize,
    /// Requests in flight: now, and at most so far.
    in_flight: Mutex<(usize, usize)>,
    /// While a test holds the write lock of this gate, no request is answered.
    pub gate: tokio::sync::RwLock<()>,
    /// The body of a successful answer.
    pub answer: Mutex<Option<String>>,
    /// The most messages to accept from each batch. The answer states the number.
    pub takes_max: Mutex<Option<usize>>,
}

/// A request that was answered with success.
#[derive(Debug, Clone)]
pub struct Taken {
    pub headers: HashMap<String, String>,
    pub body: String,
}

impl Service {
    pub fn refuse(&self, body: &str, status: u16, times: Option<usize>) {
        self.refused.lock().unwrap().insert(body.to_owned(), (status, times));
    }

    /// Refuses the next requests with this status, for all bodies: `(status, count)`.
    pub fn refuse_all(&self, refusal: Option<(u16, usize)>) {
        *self.refused_all.lock().unwrap() = refusal;
    }

    pub fn accept(&self, body: &str) {
        self.refused.lock().unwrap().remove(body);
    }

    pub fn bodies(&self) -> Vec<String> {
        self.taken.lock().unwrap().iter().map(|taken| taken.body.clone()).collect()
    }

    /// Requests that have arrived and are not answered.
    pub fn in_flight(&self) -> usize {
        self.in_flight.lock().unwrap().0
    }

    pub fn most_in_flight(&self) -> usize {
        self.in_flight.lock().unwrap().1
    }

    pub fn header(&self, at: usize, name: &str) -> String {
        self.taken.lock().unwrap()[at].headers.get(name).cloned().unwrap_or_default()
    }

    async fn take(&self, request: Request) -> Option<Answer> {
        self.arrived.fetch_add(1, Ordering::Relaxed);
        {
            let mut in_flight = self.in_flight.lock().unwrap();
            in_flight.0 += 1;
            in_flight.1 = in_flight.1.max(in_flight.0);
        }
        drop(self.gate.read().await);
        self.in_flight.lock().unwrap().0 -= 1;
        if let Some((status, times)) = self.refused_all.lock().unwrap().as_mut()
            && *times > 0
        {
            *times -= 1;
            return Some(Answer::status(*status));
        }
        if let Some((status, times)) = self.refused.lock().unwrap().get_mut(&request.body)
            && times.is_none_or(|times| times > 0)
        {
            *times = times.map(|times| times - 1);
            let body = format!("no {}", request.body);
            return Some(Answer { body, ..Answer::status(*status) });
        }
        let count_max = *self.takes_max.lock().unwrap();
        let partly = count_max.map(|max| {
            let batch: Vec<Value> = serde_json::from_str(&request.body).unwrap();
            json!({"accepted": max.min(batch.len())}).to_string()
        });
        let taken = Taken { headers: request.headers, body: request.body };
        self.taken.lock().unwrap().push(taken);
        let body = partly.or_else(|| self.answer.lock().unwrap().clone()).unwrap_or_default();
        Some(Answer { body, ..Answer::status(200) })
    }

    pub async fn serve(self: &Arc<Self>) -> (String, AbortOnDropHandle<()>) {
        let service = self.clone();
        let (address, server) = http::serve(move |request| {
            let service = service.clone();
            async move { service.take(request).await }
        })
        .await;
        (format!("http://{address}/"), server)
    }
}

/// A pod, its receiver and its transform service.
pub struct Scenario {
    pub redis: TestRedis,
    pub pod: Pod,
    /// The sender, if it is a separate pod.
    pub sender: Option<Pod>,
    pub receiver: Arc<Service>,
    pub transformer: Arc<Service>,
    pub receiver_url: String,
    pub transformer_url: String,
    _servers: Vec<AbortOnDropHandle<()>>,
}

impl Scenario {
    /// Starts a pod with a destination `erp` of this definition; fills in the receiver's `url`.
    pub async fn start(definition: Value) -> Scenario {
        let redis = TestRedis::start().await;
        let (receiver, transformer) = (Arc::new(Service::default()), Arc::new(Service::default()));
        let (receiver_url, server) = receiver.serve().await;
        let (transformer_url, other) = transformer.serve().await;
        let settings = Settings::new(redis.url());
        let pod = Pod::start("all", "ingest,processor,sender", &settings).await;
        let scenario = Scenario {
            redis,
            pod,
            sender: None,
            receiver,
            transformer,
            receiver_url,
            transformer_url,
            _servers: vec![server, other],
        };
        scenario.define(ERP, definition).await;
        scenario
    }

    /// Like `start`, with a separate sender pod, whose leases outlast every test.
    pub async fn start_apart(definition: Value) -> Scenario {
        let mut scenario = Scenario::start(definition).await;
        scenario.pod.kill();
        scenario.redis.ask::<()>(&["FLUSHALL"]).await.unwrap();
        let mut settings = Settings::new(scenario.redis.url());
        settings.sender_lease_ms = 300_000;
        scenario.pod = Pod::start("ingest", "ingest", &settings).await;
        scenario.sender = Some(Pod::start("sender", "sender", &settings).await);
        scenario
    }

    /// Adds this scenario's transform service to a definition, with short backoffs.
    pub fn with_transform(&self, definition: Value) -> Value {
        let mut definition = definition;
        definition["transform"]["kind"] = json!("http");
        definition["transform"]["url"] = json!(self.transformer_url);
        definition
    }

    pub async fn define(&self, name: &str, mut definition: Value) {
        if definition["url"].is_null() {
            definition["url"] = json!(self.receiver_url);
        }
        for stage in ["transform", "delivery"] {
            let soon = [("backoff_ms", 1), ("backoff_max_ms", 20)];
            for (field, ms) in soon {
                if definition[stage][field].is_null() {
                    definition[stage][field] = json!(ms);
                }
            }
        }
        let path = format!("/v1/destinations/{name}");
        self.ok("PUT", &path, definition).await;
    }

    /// Sends a request. Returns the status and the answer.
    pub async fn ask(&self, method: &str, path: &str, body: Value) -> (u16, Value) {
        let request = client().request(method.parse().unwrap(), self.pod.url(path));
        // On a slow machine a bulk operation may take longer than a client usually waits.
        let request = request.header("prefer", "wait=60");
        let request = match body {
            Value::Null => request,
            body => request.header("content-type", "application/json").body(body.to_string()),
        };
        let answer = request.send().await.unwrap();
        let status = answer.status().as_u16();
        let text = answer.text().await.unwrap();
        (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }

    /// Sends a request that must succeed. Returns the answer.
    pub async fn ok(&self, method: &str, path: &str, body: Value) -> Value {
        let (status, answer) = self.ask(method, path, body).await;
        assert!((200..300).contains(&status), "{method} {path}: {status} {answer}");
        answer
    }

    /// Sends a POST request for the destination, which must succeed.
    pub async fn steer(&self, what: &str, body: Value) -> Value {
        self.ok("POST", &format!("/v1/destinations/{ERP}/{what}"), body).await
    }

    /// Sends a message with these further fields. Returns its sequence.
    pub async fn send(&self, body: &str, fields: Value) -> u64 {
        let mut item = json!({"destinations": [ERP], "body": body});
        item.as_object_mut().unwrap().extend(fields.as_object().cloned().unwrap_or_default());
        let answer = self.ok("POST", "/v1/messages", item).await;
        answer["deliveries"][0]["sequence"].as_u64().unwrap()
    }

    /// Sends these bodies, in order.
    pub async fn send_all(&self, bodies: &[&str]) {
        for body in bodies {
            self.send(body, json!({})).await;
        }
    }

    /// The name of a key of the destination in Redis.
    pub fn key(&self, noun: &str) -> String {
        let name = ERP.parse().unwrap();
        let keys = store::Keys::new("reseq", 64).destination(&name);
        format!("{}:{noun}", keys.hash())
    }

    pub async fn stats(&self) -> Value {
        self.ok("GET", &format!("/v1/destinations/{ERP}/stats"), Value::Null).await
    }

    /// Waits until the statistics satisfy `is_so`.
    pub async fn until(&self, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        eventually(what, async || {
            let stats = self.stats().await;
            if is_so(&stats) { Ok(stats) } else { Err(stats.to_string()) }
        })
        .await
    }

    /// Waits until the receiver has exactly these bodies, in this order.
    pub async fn receives(&self, bodies: &[&str]) {
        let bodies: Vec<String> = bodies.iter().map(|body| format!("\"{body}\"")).collect();
        eventually("the receiver has them", async || {
            let found = self.receiver.bodies();
            if found == bodies { Ok(()) } else { Err(format!("{found:?}")) }
        })
        .await;
    }

    /// Waits until no message is pending, and checks that the counters balance.
    pub async fn is_drained(&self) -> Value {
        let stats = self.until("it is drained", |stats| stats["pending"] == 0).await;
        balanced(&stats);
        stats
    }

    /// Leases messages. Returns none if there are none to claim.
    pub async fn lease(&self, body: Value) -> Vec<Value> {
        let mut asked = json!({"destinations": [ERP]});
        asked.as_object_mut().unwrap().extend(body.as_object().cloned().unwrap());
        let answer = self.ok("POST", "/v1/leases", asked).await;
        answer["leases"].as_array().unwrap().clone()
    }

    /// Ends leases by `complete`, `fail` or `requeue`, with these further fields for each.
    pub async fn end(&self, how: &str, leases: &[Value], fields: Value) {
        let items = leases.iter().map(|lease| {
            let mut item = json!({"token": lease["token"]});
            item.as_object_mut().unwrap().extend(fields.as_object().cloned().unwrap());
            item
        });
        let items: Vec<Value> = items.collect();
        let answer = self.ok("POST", &format!("/v1/leases/{how}"), json!({"items": items})).await;
        for result in answer["results"].as_array().unwrap() {
            assert_eq!(result["status"], "ok", "{answer}");
        }
    }

    /// Waits until a message to another destination has been delivered, so that a pending action
    /// would have happened.
    pub async fn nothing_happens(&self) {
        let other = Arc::new(Service::default());
        let (url, _server) = other.serve().await;
        self.define("other", json!({"url": url})).await;
        let item = json!({"destinations": ["other"], "body": "there"});
        self.ok("POST", "/v1/messages", item).await;
        eventually("the other message is there", async || {
            if other.bodies().is_empty() { Err(String::new()) } else { Ok(()) }
        })
        .await;
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Checks that every stamped message is pending or gone, and that the counters of gone messages add up.
pub fn balanced(stats: &Value) {
    let number = |field: &str| stats[field].as_u64().unwrap_or_else(|| panic!("{field}: {stats}"));
    let gone = ["delivered_total", "dropped_total", "dead_lettered_total", "cancelled_total"];
    let gone: u64 = gone.into_iter().map(number).sum();
    assert_eq!(number("last_sequence"), number("pending") + gone, "{stats}");
    let states = ["waiting", "processing", "ready", "delivering", "halted", "delayed"];
    assert_eq!(number("pending"), states.into_iter().map(number).sum::<u64>(), "{stats}");
}
