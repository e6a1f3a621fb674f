//! Tests that no call occupies Redis for long, even with many waiting messages. Covers every
//! operation of the store and of the HTTP API, with many waiting messages and with bodies of the
//! maximum length. The work of one call is bounded, and does not grow with the backlog.
//!
//! `RESEQ_BOUNDS_WAITING` is the number of waiting messages (1,000,000 takes minutes).
//! `RESEQ_BOUNDS_TIMES=1` counts nothing and prints the longest calls of each operation, from
//! `SLOWLOG` (`make bench-longest`).

mod bulky;
mod consumers;
mod operations;
mod relay;
mod watch;
mod wide;

use std::{collections::BTreeSet, time::Duration};

use domain::{Arrival, Body, Due, Message};
use serde_json::json;
use store::{CatalogEntry, Ingested, Owner, Store, scripts::Scripts};

use super::{Pod, Said, Service, Settings, TestRedis, Value, client, known, said};
use relay::Relay;
use watch::{Cost, Monitor, Slowest};

/// The default number of waiting messages, without `RESEQ_BOUNDS_WAITING`.
const WAITING: usize = 15_000;
/// The smaller backlog, to compare costs.
const FEW: usize = 5_000;
/// Messages in one call of ingest.
const BATCH: usize = 1_000;

/// The bounds of one call, independent of the backlog (docs/reference/redis-keys.md, Bounds).
mod most {
    /// Commands of one call.
    pub const COMMANDS: usize = 5_000;
    /// Elements of keys. A claim skips up to 10,000 withdrawn messages and touches each four times.
    pub const ELEMENTS: usize = 45_000;
    /// Bytes of one request: a batch of bodies has up to 4 MiB, or is a single message.
    pub const REQUEST_BYTES: usize = 6 << 20;
    /// Bytes of one reply: up to 8 MiB of records and bodies, plus one message.
    pub const REPLY_BYTES: usize = 10 << 20;
    /// Bytes of the arguments of all commands of one call. A body counts twice: in the call and in
    /// the command that stores it.
    pub const ARGUMENT_BYTES: usize = 14 << 20;
}

/// A pod and a store whose calls to Redis are measured.
struct Watched {
    service: Service,
    relay: Relay,
    monitor: Option<Monitor>,
    slowest: Option<Slowest>,
    /// The cost of each operation, in the order in which they ran.
    costs: Vec<(&'static str, Cost)>,
    /// All requests to the pod.
    requested: BTreeSet<String>,
    notes: usize,
}

impl Watched {
    async fn start() -> Watched {
        let redis = TestRedis::start().await;
        let relay = Relay::to(redis.url());
        let settings = Settings::new(&relay.url);
        let settings = settings.destination("filed", "url = \"http://127.0.0.1:9/\"");
        // MONITOR writes every byte of every body, which takes Redis long. The test creates a
        // token; without the variable, all other calls would then need a token.
        let environment = vec![("RESEQ_AUTH_MODE".into(), "none".into())];
        let settings = Settings { redis: "timeout_ms = 20000".to_owned(), environment, ..settings };
        let pod = Pod::start("reseq", "ingest,processor", &settings).await;
        let of_redis =
            config::Redis { url: relay.url.clone(), timeout_ms: 20_000, ..Default::default() };
        let (store, _) = Store::open(&of_redis, Duration::from_secs(5)).await.unwrap();
        let is_timed = std::env::var("RESEQ_BOUNDS_TIMES").is_ok_and(|value| value == "1");
        let slowest = if is_timed { Some(Slowest::of(&redis).await) } else { None };
        Watched {
            service: Service { redis, pod, store },
            relay,
            monitor: None,
            slowest,
            costs: Vec::new(),
            requested: BTreeSet::new(),
            notes: 0,
        }
    }

    /// Counts all calls since the last measurement for this operation.
    async fn note(&mut self, operation: &'static str) {
        let cost = self.look().await;
        if self.slowest.is_some() {
            println!("{operation}: longest {:.1} ms", cost.micros as f64 / 1e3);
        }
        self.costs.push((operation, cost));
    }

    /// Ignores all calls since the last measurement.
    async fn pass(&mut self) {
        self.look().await;
    }

    async fn look(&mut self) -> Cost {
        self.notes += 1;
        let marker = format!("look-{}", self.notes);
        let _: String = self.service.redis.ask(&["ECHO", &marker]).await.unwrap();
        let mut cost = match &mut self.monitor {
            Some(monitor) => monitor.cost_until(&marker).await,
            None => Cost::default(),
        };
        (cost.request_bytes, cost.reply_bytes, cost.reply_bytes_of_others) =
            self.relay.largest.take();
        if let Some(slowest) = &self.slowest {
            (cost.micros, cost.micros_of_most, cost.worst) =
                slowest.take(&self.service.redis).await;
        }
        cost
    }

    /// Starts to measure, once everything is loaded.
    async fn watch(&mut self) {
        if self.slowest.is_none() {
            self.monitor = Some(Monitor::open(self.service.redis.url()).await);
        }
        self.pass().await;
    }

    /// Declares that from now on this key holds at most `most` elements.
    fn holds(&mut self, key: &str, most: usize) {
        if let Some(monitor) = &mut self.monitor {
            monitor.holding.insert(key.to_owned(), most);
        }
    }

    /// Stops measuring. Returns the costs.
    fn end(&mut self) -> Vec<(&'static str, Cost)> {
        self.monitor = None;
        std::mem::take(&mut self.costs)
    }

    async fn get(&mut self, path: &str) -> Value {
        self.requested.insert(format!("GET {path}"));
        self.service.get(path).await.ok()
    }

    /// Sends a POST. Waits without limit for the end of a bulk operation, and returns its final state.
    async fn post(&mut self, path: &str, body: Value) -> Said {
        self.requested.insert(format!("POST {path}"));
        let mut said = self.service.post(path, body).await;
        assert!(said.status < 400, "{path}: {said:?}");
        if said.body["state"] == "running" {
            said.body = self.service.ended(&said.body).await;
            assert_eq!(said.body["state"], "succeeded", "{path}: {said:?}");
        }
        said
    }

    async fn put(&mut self, path: &str, body: Value) {
        self.requested.insert(format!("PUT {path}"));
        let url = self.service.pod.url(&format!("/v1/{path}"));
        let said = said(client().put(url).json(&body)).await;
        assert!(said.status < 300, "{path}: {said:?}");
    }

    async fn patch(&mut self, path: &str, body: Value) {
        self.requested.insert(format!("PATCH {path}"));
        let url = self.service.pod.url(&format!("/v1/{path}"));
        let said = said(client().patch(url).json(&body)).await;
        assert!(said.status < 300, "{path}: {said:?}");
    }

    async fn delete(&mut self, path: &str) -> Said {
        self.requested.insert(format!("DELETE {path}"));
        let said = self.service.delete(path).await;
        assert!(said.status < 400, "{path}: {said:?}");
        said
    }

    /// Acquires the destination's partition, even if it has an owner.
    async fn own(&mut self, name: &str) -> Owner {
        let keys = self.service.store.keys().destination(&name.parse().unwrap());
        let _: u64 = self.service.redis.ask(&["DEL", &keys.partition.owner()]).await.unwrap();
        self.service.hand(name).await.owner
    }

    /// Stores this many messages through the store, as ingest does.
    async fn load(
        &self,
        known: &CatalogEntry,
        count: usize,
        arrival: impl Fn(usize) -> Arrival,
        batch: usize,
    ) {
        let store = &self.service.store;
        let call_sequence = store.new_call_sequence("load");
        let key = store.keys().partition(known.partition).epoch();
        let epoch: u64 = self.service.redis.ask(&["HGET", &key, "epoch"]).await.unwrap();
        let epoch = epoch.max(known.born);
        for from in (0..count).step_by(batch) {
            if self.slowest.is_some() && from > 0 && from.is_multiple_of(100_000) {
                println!("{}: {from} of {count} messages are loaded", known.destination.name);
            }
            let all: Vec<Arrival> = (from..count.min(from + batch)).map(&arrival).collect();
            let all: Vec<&Arrival> = all.iter().collect();
            let stamped = store.ingest(&call_sequence, known, epoch, &all).await.unwrap();
            assert!(stamped.iter().all(|one| matches!(one, Ingested::Stamped(_))));
        }
    }
}

/// A message with a short body. After the first ones, some are delayed.
fn short(n: usize) -> Arrival {
    let key = if n.is_multiple_of(2) { "big".to_owned() } else { format!("k{}", n % 1000) };
    let due = ((4_500..14_500).contains(&n) && n % 50 == 49).then_some(Due::After(3_600_000));
    Arrival { due, ..arrival(key, json!({"n": n}).to_string()) }
}

fn arrival(key: String, body: String) -> Arrival {
    Arrival::of(Message {
        id: "m".into(),
        key: Some(key),
        headers: Vec::new(),
        body: Body { content_type: "application/json".into(), bytes: body.into() },
        received_ms: 0,
    })
}

fn waiting() -> usize {
    let wanted = std::env::var("RESEQ_BOUNDS_WAITING").ok();
    wanted.map_or(WAITING, |text| text.parse().expect("RESEQ_BOUNDS_WAITING is a number"))
}

/// The costs that exceed the bounds.
fn over(costs: &[(&'static str, Cost)]) -> Vec<String> {
    let mut over = Vec::new();
    for (operation, cost) in costs {
        let both = [
            ("commands", cost.commands, most::COMMANDS),
            ("elements", cost.elements, most::ELEMENTS),
            ("bytes of a request", cost.request_bytes, most::REQUEST_BYTES),
            ("bytes of a reply", cost.reply_bytes, most::REPLY_BYTES),
            ("bytes of arguments", cost.argument_bytes, most::ARGUMENT_BYTES),
        ];
        for (what, is, may) in both {
            if is > may {
                over.push(format!("{operation}: {is} {what}, at most {may} ({})", cost.worst));
            }
        }
    }
    over
}

/// Fails if an operation costs more with the larger backlog than with the smaller one.
fn check_growth(few: &[(&'static str, Cost)], many: &[(&'static str, Cost)]) {
    let mut grown = Vec::new();
    for ((operation, few), (same, many)) in few.iter().zip(many) {
        assert_eq!(operation, same);
        // The cost grows up to its bound, which the smaller backlog does not reach.
        if *operation == "claim past what was withdrawn" {
            continue;
        }
        let all = [
            ("commands", few.commands, many.commands, 200),
            ("elements", few.elements, many.elements, 1_000),
            ("bytes of a request", few.request_bytes, many.request_bytes, 50_000),
            ("bytes of a reply", few.reply_bytes_of_others, many.reply_bytes_of_others, 50_000),
        ];
        for (what, few, many, slack) in all {
            if many > few + few / 2 + slack {
                grown.push(format!("{operation}: {what} grow from {few} to {many}"));
            }
        }
    }
    assert!(grown.is_empty(), "{}", grown.join("\n"));
}

fn print(title: &str, costs: &[(&'static str, Cost)], is_timed: bool) {
    let mut costs: Vec<_> = costs.iter().collect();
    println!("\n{title}");
    if is_timed {
        costs.sort_by_key(|(_, cost)| std::cmp::Reverse(cost.micros));
        println!("{:>8} {:>8}  {:<36} call", "longest", "90 %", "operation");
        for (operation, cost) in costs.into_iter().filter(|(_, cost)| cost.micros > 0) {
            let (longest, most) = (cost.micros as f64 / 1e3, cost.micros_of_most as f64 / 1e3);
            println!("{longest:>8.1} {most:>8.1}  {operation:<36} {}", cost.worst);
        }
        return;
    }
    println!(
        "{:>8} {:>8} {:>10} {:>10} {:>10}  operation (worst call)",
        "commands", "elements", "arguments", "request", "reply"
    );
    for (operation, cost) in costs {
        let Cost { commands, elements, argument_bytes, request_bytes, reply_bytes, .. } = cost;
        println!(
            "{commands:>8} {elements:>8} {argument_bytes:>10} {request_bytes:>10} {reply_bytes:>10}  {operation} ({})",
            cost.worst
        );
    }
}

/// The routes of the API, as `/openapi.json` lists them: `POST destinations/{destination}/purge`.
async fn routes(service: &Service) -> BTreeSet<String> {
    let document = said(client().get(service.pod.url("/openapi.json"))).await.ok();
    let paths = document["paths"].as_object().unwrap().iter();
    let of_path = |(path, methods): (&String, &Value)| -> Vec<String> {
        let Some(path) = path.strip_prefix("/v1/") else { return Vec::new() };
        let methods = methods.as_object().unwrap().keys();
        methods.map(|method| format!("{} {path}", method.to_uppercase())).collect()
    };
    paths.flat_map(of_path).collect()
}

/// Checks that the test has called every route of the API.
fn check_routes(routes: &BTreeSet<String>, requested: &BTreeSet<String>) {
    assert!(routes.len() > 30, "only {} routes: {routes:?}", routes.len());
    let parts = |line: &str| -> Vec<String> {
        let line = line.split('?').next().unwrap();
        line.split([' ', '/']).map(str::to_owned).collect()
    };
    let asked: Vec<Vec<String>> = requested.iter().map(|line| parts(line)).collect();
    let fits = |route: &str, asked: &[String]| {
        let parts = parts(route);
        parts.len() == asked.len()
            && parts.iter().zip(asked).all(|(part, word)| part.starts_with('{') || part == word)
    };
    let is_used = |route: &&String| asked.iter().any(|asked| fits(route, asked));
    let left: BTreeSet<&String> = routes.iter().filter(|route| !is_used(route)).collect();
    assert!(left.is_empty(), "routes that no operation uses: {left:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_holds_redis_longer_the_more_messages_wait() {
    let mut watched = Watched::start().await;
    let is_timed = watched.slowest.is_some();
    let mut scripts = BTreeSet::new();
    watched.bulky().await;
    let costs = watched.end();
    print("bodies of 1 MiB", &costs, is_timed);
    let mut excess = over(&costs);
    scripts.extend(costs.iter().flat_map(|(_, cost)| cost.scripts.iter().copied()));
    for ordering in ["destination", "key", "none"] {
        let sizes = if is_timed { vec![waiting()] } else { vec![FEW, waiting()] };
        let mut all = Vec::new();
        for count in sizes {
            let name = format!("{ordering}-{count}");
            watched.many(&name, ordering, count).await;
            let costs = watched.end();
            print(&format!("ordering \"{ordering}\", {count} waiting"), &costs, is_timed);
            scripts.extend(costs.iter().flat_map(|(_, cost)| cost.scripts.iter().copied()));
            let searching: Vec<_> = costs
                .iter()
                .filter(|(_, cost)| cost.searches_a_list)
                .map(|(name, _)| *name)
                .collect();
            assert_eq!(searching, [""; 0], "a long list was searched");
            all.push(costs);
        }
        if !is_timed {
            excess.extend(all.iter().flat_map(|costs| over(costs)));
            check_growth(&all[0], &all[1]);
        }
    }
    assert_eq!(excess, [""; 0]);
    check_routes(&routes(&watched.service).await, &watched.requested);
    if !is_timed {
        let known: BTreeSet<_> = Scripts::new().all().into_iter().map(|one| one.name).collect();
        let left: Vec<_> = known.difference(&scripts).collect();
        assert_eq!(left, [&""; 0], "each script is in an operation");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_holds_redis_longer_the_more_lanes_it_is_asked_about() {
    let mut watched = Watched::start().await;
    let is_timed = watched.slowest.is_some();
    let (at, owner) = watched.wide().await;
    print("256 lanes", &watched.costs, is_timed);
    assert_eq!(over(&watched.costs), [""; 0]);
    watched.settle_too_much(&at, &owner).await;
    let costs = watched.end();
    assert_eq!(over(&costs), [""; 0]);
}
