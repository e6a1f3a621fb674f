//! Tests webhooks: the forwarded headers, and keys that Reseq finds in the message.

use std::{collections::BTreeSet, net::SocketAddr};

use axum::http::StatusCode;
use futures::future::join_all;
use reqwest::RequestBuilder;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::{Said, position, said};
use crate::{
    common::{self, Seen},
    support::{
        checker::stats,
        http::text,
        pods::{Pod, Settings, client},
        redis::TestRedis,
        wait::within,
    },
};

const JSON: &str = "application/json";
const NDJSON: &str = "application/x-ndjson";
/// A destination that takes its key from the body.
const BY_CUSTOMER: &str = "ordering = \"key\"\nkey_from = { jq = \".customer\" }";
/// A destination whose expression never ends if the body requests it.
const MAY_LOOP: &str = "ordering = \"key\"\n\
    key_from = { jq = \"if .loop then (def f: f; f) elif .big then [range(1e12)]|length else .customer end\" }";

/// One pod with all roles, and a receiver that records all headers.
struct Service {
    pod: Pod,
    receiver: common::Receiver,
    _redis: TestRedis,
}

impl Service {
    /// Starts with these destinations: names, and the fields besides the url.
    async fn start(destinations: &[(&str, &str)]) -> Service {
        Service::start_with(destinations, |settings| settings).await
    }

    async fn start_with(
        destinations: &[(&str, &str)],
        other: impl FnOnce(Settings) -> Settings,
    ) -> Service {
        let redis = TestRedis::start().await;
        let receiver = common::receiver(|| StatusCode::OK).await;
        let url = format!("url = \"{}\"", receiver.url());
        let mut settings = other(Settings::new(redis.url()));
        for (name, fields) in destinations {
            settings = settings.destination(name, &format!("{url}\n{fields}"));
        }
        if destinations.len() > 1 {
            let names: Vec<&str> = destinations.iter().map(|(name, _)| *name).collect();
            settings.destinations +=
                &format!("[[topic]]\nname = \"all\"\ndestinations = {names:?}\n");
        }
        let pod = Pod::start("reseq", "ingest,processor,sender", &settings).await;
        Service { pod, receiver, _redis: redis }
    }

    /// A raw request.
    fn post(&self, path: &str, headers: &[(&str, &str)], body: &str) -> RequestBuilder {
        let request = client().post(self.pod.url(path)).body(body.to_owned());
        let request = request.header("content-type", JSON);
        headers.iter().fold(request, |request, (name, value)| request.header(*name, *value))
    }

    async fn send(&self, destination: &str, headers: &[(&str, &str)], body: &str) -> Said {
        let path = format!("/v1/destinations/{destination}/messages");
        self.retried(&path, headers, body).await
    }

    /// Sends as a producer does: repeats the message while its key is not found in time. On a
    /// slow machine this happens to every expression.
    async fn retried(&self, path: &str, headers: &[(&str, &str)], body: &str) -> Said {
        loop {
            let answer = said(self.post(path, headers, body)).await;
            if !is_late(&answer.body) {
                return answer;
            }
        }
    }

    /// The answers to a batch, and its status.
    async fn batch(&self, lines: &[Value]) -> (u16, Vec<Value>) {
        let text: Vec<String> = lines.iter().map(Value::to_string).collect();
        let request = client().post(self.pod.url("/v1/messages")).body(text.join("\n"));
        let answer = request.header("content-type", NDJSON).send().await.unwrap();
        let status = answer.status().as_u16();
        let text = answer.text().await.unwrap();
        (status, text.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
    }

    /// The answers to a batch. Sends late lines, and the lines behind them, again.
    async fn whole_batch(&self, lines: &[Value]) -> Vec<Value> {
        let mut answers = vec![Value::Null; lines.len()];
        let mut rest: Vec<usize> = (0..lines.len()).collect();
        while !rest.is_empty() {
            let sent: Vec<Value> = rest.iter().map(|at| lines[*at].clone()).collect();
            for (at, answer) in rest.iter().zip(self.batch(&sent).await.1) {
                answers[*at] = answer;
            }
            rest.retain(|at| is_late(&answers[*at]));
        }
        answers
    }

    /// The next deliveries, by sequence.
    async fn delivered(&mut self, count: usize) -> Vec<Seen> {
        let mut seen = Vec::new();
        while seen.len() < count {
            seen.push(within("it is delivered", self.receiver.seen.recv()).await.unwrap());
        }
        seen.sort_by_key(|one| one.headers["reseq-sequence"].parse::<u64>().unwrap());
        seen
    }

    async fn last_sequence(&self, destination: &str) -> Value {
        stats(&self.pod, destination).await.unwrap()["last_sequence"].clone()
    }

    /// The number of the pod's child processes, which evaluate expressions.
    fn runners(&self) -> usize {
        let parent = |stat: &str| -> Option<u32> {
            // The name before it may contain spaces, and ends with the last parenthesis.
            stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
        };
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        let stats =
            processes.filter_map(|one| std::fs::read_to_string(one.path().join("stat")).ok());
        stats.filter(|stat| parent(stat) == Some(self.pod.id())).count()
    }
}

/// True for a message whose key was not found in time, or that was behind such a message.
fn is_late(answer: &Value) -> bool {
    ["key_unavailable", "aborted"].iter().any(|code| answer["code"] == *code)
}

/// The sequence, the previous sequence in its lane, and the key of a delivery.
fn lane(seen: &Seen) -> (&str, &str, Option<&str>) {
    let header = |name: &str| seen.headers.get(name).map(String::as_str);
    (header("reseq-sequence").unwrap(), header("reseq-previous").unwrap(), header("reseq-key"))
}

#[tokio::test]
async fn events_of_stripe_are_ordered_by_customer_and_stored_once() {
    let fields = "ordering = \"key\"\nforward_headers = [\"stripe-version\"]\n\
                  key_from = { jq = \".data.object.customer // .id\" }\n\
                  idempotency_key_from = { jq = \".id\" }";
    let mut service = Service::start(&[("stripe", fields)]).await;
    let signature = "t=1492774577,v1=5257a869e7ecebeda32affa62cdca3fa51cad7e77a0e56ff536d0ce8";
    let headers = [
        ("Stripe-Signature", signature),
        ("User-Agent", "Stripe/1.0 (+https://stripe.com/docs/webhooks)"),
        ("Stripe-Version", "2024-06-20"),
        ("X-Tenant", "not on the list"),
    ];
    // Indented, as Stripe writes it. The signature depends on the exact bytes.
    let event = |id: &str, object: &str| {
        format!(
            "{{\n  \"id\": \"{id}\",\n  \"object\": \"event\",\n  \"type\": \"invoice.paid\",\n  \
             \"data\": {{\n    \"object\": {object}\n  }}\n}}"
        )
    };
    let events = [
        event("evt_1", r#"{"id": "in_1", "customer": "cus_A"}"#),
        event("evt_2", r#"{"id": "in_2", "customer": "cus_B"}"#),
        event("evt_3", r#"{"id": "in_3", "customer": "cus_A"}"#),
        event("evt_4", r#"{"id": "plan_1"}"#),
    ];
    for (at, event) in events.iter().enumerate() {
        let answer = service.send("stripe", &headers, event).await;
        assert_eq!((answer.status, position(&answer.body)), (202, (at as u64 + 1, false)));
    }
    let again = service.send("stripe", &headers, &events[0]).await;
    assert_eq!((again.status, position(&again.body)), (202, (1, true)), "{}", again.body);
    assert_eq!(again.headers["idempotent-replayed"], "true");
    // Sends another event with the same id.
    let other = event("evt_1", "{}");
    service.send("stripe", &headers, &other).await.is_problem(422, "idempotency_conflict", "");

    let seen = service.delivered(4).await;
    let lanes: Vec<_> = seen.iter().map(lane).collect();
    let expected = [
        ("1", "0", Some("cus_A")),
        ("2", "0", Some("cus_B")),
        ("3", "1", Some("cus_A")),
        ("4", "0", Some("evt_4")),
    ];
    assert_eq!(lanes, expected);
    for (seen, event) in seen.iter().zip(&events) {
        assert_eq!(seen.body, event.as_bytes());
        assert_eq!(seen.headers["stripe-version"], "2024-06-20");
        assert!(!seen.headers.contains_key("stripe-signature"), "{:?}", seen.headers);
        assert_eq!(seen.headers["content-type"], JSON);
        assert!(!seen.headers.contains_key("x-tenant"), "{:?}", seen.headers);
    }
    assert!(service.receiver.take().is_empty());
}

#[tokio::test]
async fn a_redelivery_of_github_is_a_duplicate() {
    let fields = "ordering = \"key\"\nkey_from = { jq = \".repository.full_name\" }\n\
                  idempotency_key_from = { header = \"X-GitHub-Delivery\" }";
    let mut service = Service::start(&[("github", fields)]).await;
    let delivery = |id: &'static str| {
        [
            ("X-GitHub-Delivery", id),
            ("X-GitHub-Event", "issues"),
            (
                "X-Hub-Signature-256",
                "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c",
            ),
            ("X-GitHub-Hook-ID", "292430182"),
            ("User-Agent", "GitHub-Hookshot/044aadd"),
        ]
    };
    let body =
        r#"{"action":"opened","issue":{"number":1},"repository":{"full_name":"octo/hello"}}"#;
    let first = delivery("72d3162e-cc78-11e3-81ab-4c9367dc0958");
    let answers = [
        service.send("github", &first, body).await,
        service.send("github", &first, body).await,
        // The same event text, but another delivery.
        service.send("github", &delivery("72d3162e-0000-0000-0000-4c9367dc0958"), body).await,
    ];
    let positions = answers.each_ref().map(|answer| position(&answer.body));
    assert_eq!(positions, [(1, false), (1, true), (2, false)]);
    assert!(!answers[0].headers.contains_key("idempotent-replayed"));
    assert_eq!(answers[1].headers["idempotent-replayed"], "true");
    let seen = service.delivered(2).await;
    let key = Some("octo/hello");
    assert_eq!([lane(&seen[0]), lane(&seen[1])], [("1", "0", key), ("2", "1", key)]);
    for (name, value) in [first[1], first[3]] {
        assert_eq!(seen[0].headers[&name.to_ascii_lowercase()], *value);
    }
    assert!(!seen[0].headers.contains_key("x-hub-signature-256"), "{:?}", seen[0].headers);
    // The request is from Reseq's own client.
    assert!(seen[0].headers["user-agent"].starts_with("reseq/"));
    assert!(service.receiver.take().is_empty());
}

#[tokio::test]
async fn webhook_headers_travel_and_one_orders_without_a_process() {
    let fields = "ordering = \"key\"\nkey_from = { header = \"account\" }\n\
                  idempotency_key_from = { header = \"webhook-id\" }";
    let mut service = Service::start(&[("hooks", fields)]).await;
    let send = async |id: &str, account: &str| {
        let headers = [
            ("webhook-id", id),
            ("webhook-timestamp", "1674087231"),
            ("webhook-signature", "v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4="),
            ("account", account),
            ("cookie", "secret"),
        ];
        let answer = service.send("hooks", &headers, "not JSON").await;
        assert_eq!(answer.status, 202, "{}", answer.body);
        position(&answer.body)
    };
    assert_eq!(send("msg_1", "a").await, (1, false));
    assert_eq!(send("msg_2", "b").await, (2, false));
    assert_eq!(send("msg_3", "a").await, (3, false));
    assert_eq!(send("msg_2", "b").await, (2, true));
    assert_eq!(service.runners(), 0);
    let seen = service.delivered(3).await;
    let lanes: Vec<_> = seen.iter().map(lane).collect();
    assert_eq!(lanes, [("1", "0", Some("a")), ("2", "0", Some("b")), ("3", "1", Some("a"))]);
    let headers = &seen[0].headers;
    assert_eq!((&*headers["webhook-id"], &*headers["webhook-timestamp"]), ("msg_1", "1674087231"));
    assert!(!headers.contains_key("webhook-signature"), "{headers:?}");
    // A header that holds a key need not travel.
    assert!(!headers.contains_key("account") && !headers.contains_key("cookie"), "{headers:?}");
}

#[tokio::test]
async fn topic_destinations_have_own_header_lists_and_own_keys() {
    let erp = "forward_headers = [\"x-a*\"]\nidempotency_key_from = { header = \"x-delivery\" }";
    let crm = "ordering = \"key\"\nforward_headers = [\"x-b\"]\n\
               key_from = { jq = \".customer\" }\n\
               idempotency_key_from = { header = \"x-delivery\" }\n\
               headers = { authorization = \"of the definition\" }";
    let mut service = Service::start(&[("erp", erp), ("crm", crm)]).await;
    let headers = [
        ("x-a-1", "1"),
        ("x-b", "2"),
        ("x-c", "3"),
        ("x-delivery", "d1"),
        ("x-request-id", "r1"),
        ("authorization", "of the sender"),
    ];
    let body = r#"{"number": 7, "customer": 7.0}"#;
    let topic = "/v1/topics/all/messages";
    let first = service.retried(topic, &headers, body).await;
    let again = service.retried(topic, &headers, body).await;
    assert_eq!((first.status, again.status), (202, 202), "{}", first.body);
    // A retry gets the same id, although the producer gave no key.
    assert_eq!(first.body["id"], again.body["id"]);
    let all = again.body["deliveries"].as_array().unwrap();
    assert!(all.len() == 2 && all.iter().all(|one| one["duplicate"] == true), "{}", again.body);
    let seen = service.delivered(2).await;
    let of = |name: &str| {
        let seen = seen.iter().find(|one| one.headers["reseq-destination"] == name).unwrap();
        assert_eq!(seen.headers["reseq-id"], *first.body["id"].as_str().unwrap());
        let own = |name: &&String| name.starts_with("x-") || *name == "authorization";
        seen.headers.keys().filter(own).map(String::as_str).collect::<Vec<_>>()
    };
    assert_eq!((of("erp"), of("crm")), (vec!["x-a-1"], vec!["authorization", "x-b"]));
    let crm = seen.iter().find(|one| one.headers["reseq-destination"] == "crm").unwrap();
    assert_eq!(crm.headers["reseq-key"], "7");
    assert_eq!(crm.headers["authorization"], "of the definition");

    // A message as JSON names its headers: Reseq must forward each of them.
    let item = json!({"topic": "all", "body": {"number": 8, "customer": "acct-7"},
        "headers": {"X-A-1": "1"}, "idempotency_key": "k"});
    let answer = said(client().post(service.pod.url("/v1/messages")).json(&item)).await;
    let detail = "headers.x-a-1: does not travel to crm (forward_headers)";
    answer.is_problem(400, "invalid_field", detail);
    assert_eq!(answer.body["errors"][0]["pointer"], "#/headers/x-a-1");
    assert_eq!(answer.body["deliveries"][0]["destination"], "erp");
    assert_eq!(service.last_sequence("crm").await, 1);
    // One destination finds a key, the other does not.
    let headers = [("x-delivery", "d2")];
    let answer = service.retried(topic, &headers, r#"{"number": 9}"#).await;
    answer.is_problem(422, "no_key", "key_from of crm: the expression gives null");
    assert_eq!(answer.body["deliveries"][0]["destination"], "erp");
    assert_eq!(service.last_sequence("crm").await, 1);
}

#[tokio::test]
async fn without_one_key_of_allowed_length_nothing_is_stored() {
    let by_header = "idempotency_key_from = { header = \"x-delivery\" }";
    let service = Service::start(&[("erp", BY_CUSTOMER), ("crm", by_header)]).await;
    let long = format!("{{\"customer\": \"{}\"}}", "x".repeat(257));
    let longer = format!("{{\"customer\": \"{}\"}}", "x".repeat(10_000));
    for (body, problem) in [
        ("{}", "the expression gives null, not a string or a number"),
        (r#"{"customer": true}"#, "gives true, not"),
        (r#"{"customer": ["a"]}"#, "gives an array"),
        (r#"{"customer": {"id": "a"}}"#, "gives an object"),
        (r#"{"customer": ""}"#, "the key: must be 1 to 256 bytes"),
        (r#"{"customer": "a\u0000b"}"#, "control characters"),
        (r#"{"customer": 1e400}"#, "the number"),
        ("[]", "the expression failed: cannot index"),
        ("", "the body is not JSON"),
        ("customer=7", "the body is not JSON"),
        (&long, "the key: must be 1 to 256 bytes"),
        (&longer, "the key: must be 1 to 256 bytes"),
    ] {
        let answer = service.send("erp", &[], body).await;
        answer.is_problem(422, "no_key", problem);
        answer.is_problem(422, "no_key", "key_from of erp: ");
    }
    for (headers, problem) in [
        (&[][..], "the message has no header x-delivery"),
        (&[("x-delivery", "")], "must be 1 to 256 bytes"),
        (&[("x-delivery", "a"), ("x-delivery", "b")], "twice, with different values"),
    ] {
        let answer = service.send("crm", headers, "{}").await;
        answer.is_problem(422, "no_key", problem);
        answer.is_problem(422, "no_key", "idempotency_key_from of crm: ");
    }
    for name in ["erp", "crm"] {
        assert_eq!(service.last_sequence(name).await, 0);
    }
    let refused = service.pod.metric("reseq_refused_total{destination=\"crm\",code=\"no_key\"}");
    assert_eq!(refused.await, 3.0);
    // A key from the producer has priority. Then the body need not be JSON.
    let answer = service.send("erp", &[("Reseq-Key", "mine")], "customer=7").await;
    assert_eq!((answer.status, position(&answer.body)), (202, (1, false)));
    let item = json!({"destinations": ["erp", "crm"], "body": {}, "key": "mine",
        "idempotency_key": "k"});
    let answer = said(client().post(service.pod.url("/v1/messages")).json(&item)).await;
    assert_eq!(answer.status, 202, "{}", answer.body);
}

#[tokio::test]
async fn endless_expression_is_answered_in_time_and_blocks_nobody() {
    let service = Service::start(&[("loop", MAY_LOOP), ("erp", BY_CUSTOMER)]).await;
    let endless = [r#"{"loop": true}"#, r#"{"big": true}"#];
    // Sends more requests than evaluations that run at once.
    let path = "/v1/destinations/loop/messages";
    let loops = (0..8).map(|at| said(service.post(path, &[], endless[at % 2])));
    let others = async {
        for number in 1..=20 {
            let answer = service.send("erp", &[], r#"{"customer": "a"}"#).await;
            assert_eq!((answer.status, position(&answer.body)), (202, (number, false)));
        }
    };
    let (loops, ()) =
        within("all are answered", async { futures::future::join(join_all(loops), others).await })
            .await;
    for answer in loops {
        answer.is_problem(503, "key_unavailable", "key_from of loop: ");
    }
    assert_eq!(service.last_sequence("loop").await, 0);
    // The destination continues with messages whose expressions end.
    let answer = service.send("loop", &[], r#"{"customer": "a"}"#).await;
    assert_eq!((answer.status, position(&answer.body)), (202, (1, false)), "{}", answer.body);

    // In a batch, no line overtakes the endless one. Other destinations continue.
    let line = |to: &str, body: Value| json!({"destinations": [to], "body": body});
    let lines = [
        line("loop", json!({"customer": "a"})),
        line("loop", json!({"loop": true})),
        line("loop", json!({"customer": "a"})),
        line("erp", json!({"customer": "b"})),
        line("loop", json!({"loop": true})),
    ];
    let answers = loop {
        let (_, answers) = service.batch(&lines).await;
        if ![0, 3].iter().any(|at| is_late(&answers[*at])) {
            break answers;
        }
    };
    assert_eq!(answers[3]["deliveries"][0]["destination"], "erp");
    let codes = [1, 2, 4].map(|at| answers[at]["code"].as_str().unwrap());
    assert_eq!(codes, ["key_unavailable", "aborted", "aborted"], "{answers:?}");
    assert_eq!(service.last_sequence("loop").await, position(&answers[0]).0);
}

#[tokio::test]
async fn a_batch_keeps_its_order_while_expressions_run_side_by_side() {
    let mut service = Service::start(&[("erp", BY_CUSTOMER)]).await;
    let customer = |number: usize| format!("c{}", number % 7);
    let is_refused = |number: usize| number % 20 == 3;
    let line = |number: usize| {
        // Some bodies take longer than others.
        let filler = "x".repeat((number * 7919) % 3000);
        let mut body = json!({"number": number, "filler": filler});
        if !is_refused(number) {
            body["customer"] = customer(number).into();
        }
        json!({"destinations": ["erp"], "body": body})
    };
    let lines: Vec<Value> = (0..200).map(line).collect();
    let answers = service.whole_batch(&lines).await;
    let mut sequence = 0;
    for (number, answer) in answers.iter().enumerate() {
        if is_refused(number) {
            assert_eq!(answer["code"], "no_key", "{number}: {answer}");
        } else {
            sequence += 1;
            assert_eq!(position(answer), (sequence, false), "{number}: {answer}");
        }
    }
    let seen = service.delivered(190).await;
    let mut stored = (0..200).filter(|number| !is_refused(*number));
    for seen in seen {
        let body: Value = serde_json::from_slice(&seen.body).unwrap();
        let number = stored.next().unwrap();
        assert_eq!(body["number"], number);
        assert_eq!(seen.headers["reseq-key"], customer(number));
    }
}

/// Writes these lines, closes the writing side if `ends`, and reads until the pod closes the connection.
async fn say(address: SocketAddr, lines: &[&str], ends: bool) -> Vec<String> {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all((lines.join("\n") + "\n").as_bytes()).await.unwrap();
    if ends {
        // The pod may have closed the connection already.
        let _ = stream.shutdown().await;
    }
    let mut answer = Vec::new();
    // A reset also closes the connection; earlier answers count.
    let _ = within("the connection is closed", stream.read_to_end(&mut answer)).await;
    text(answer).lines().map(str::to_owned).collect()
}

/// The answers to all lines. Sends late lines, and the lines behind them, again.
async fn say_all(address: SocketAddr, lines: &[&str]) -> Vec<String> {
    let is_late = |answer: &&String| {
        answer.starts_with("ERR key_unavailable ") || answer.starts_with("ERR aborted ")
    };
    let mut answers = Vec::new();
    while answers.len() < lines.len() {
        let said = say(address, &lines[answers.len()..], true).await;
        answers.extend(said.iter().take_while(|answer| !is_late(answer)).cloned());
    }
    answers
}

#[tokio::test]
async fn a_connection_keeps_its_order_and_answers_each_frame() {
    let tcp = vec![("loop", "lines"), ("loop", "lines json")];
    let mut service =
        Service::start_with(&[("loop", MAY_LOOP)], |settings| Settings { tcp, ..settings }).await;
    let [plain, envelope] = [0, 1].map(|at| service.pod.addresses.tcp(at));
    let frame = |number: usize| match number % 10 {
        3 => "no JSON".to_owned(),
        _ => json!({"customer": format!("c{}", number % 4), "number": number}).to_string(),
    };
    let frames: Vec<String> = (0..100).map(frame).collect();
    let frames: Vec<&str> = frames.iter().map(String::as_str).collect();
    let answers = say_all(plain, &frames).await;
    let mut sequence = 0;
    for (number, answer) in answers.iter().enumerate() {
        if number % 10 == 3 {
            let expected = "ERR no_key key_from of loop: the body is not JSON";
            assert!(answer.starts_with(expected), "{number}: {answer}");
        } else {
            sequence += 1;
            assert_eq!(*answer, format!("OK {sequence}"), "{number}");
        }
    }
    assert_eq!(answers.len(), 100);
    let seen = service.delivered(90).await;
    let keys: BTreeSet<&str> = seen.iter().map(|one| lane(one).2.unwrap()).collect();
    assert_eq!(keys, ["c0", "c1", "c2", "c3"].into());
    let numbers = seen.iter().map(|one| {
        let body: Value = serde_json::from_slice(&one.body).unwrap();
        body["number"].as_u64().unwrap() as usize
    });
    let expected: Vec<usize> = (0..100).filter(|number| number % 10 != 3).collect();
    assert_eq!(numbers.collect::<Vec<_>>(), expected);

    // A frame whose key is not found in time ends the connection, and no frame overtakes it.
    let key = |text: &str| json!({"customer": text}).to_string();
    let lines = [&key("a"), "{\"loop\": true}", &key("b"), "no JSON"];
    let answers = loop {
        let answers = say(plain, &lines, false).await;
        if answers[0].starts_with("OK ") {
            break answers;
        }
    };
    let expected = ["OK 91", "ERR key_unavailable key_from of loop: ", "ERR aborted "];
    for (answer, expected) in answers.iter().zip(expected) {
        assert!(answer.starts_with(expected), "{answers:?}");
    }
    assert!((2..=4).contains(&answers.len()), "{answers:?}");
    assert_eq!(service.last_sequence("loop").await, 91);

    let said = [
        r#"{"body": {"customer": "a"}, "headers": {"x-tenant": "7"}}"#,
        r#"{"body": {"customer": "a"}, "headers": {"Authorization": "7"}}"#,
        r#"{"body": {}, "key": "mine"}"#,
        r#"{"body": {}}"#,
    ];
    let answers = say_all(envelope, &said).await;
    let expected = [
        "OK 92",
        "ERR invalid_field headers.authorization: does not travel to loop (forward_headers)",
        "OK 93",
        "ERR no_key key_from of loop: the expression gives null",
    ];
    assert_eq!(answers.len(), 4, "{answers:?}");
    for (answer, expected) in answers.iter().zip(expected) {
        assert!(answer.starts_with(expected), "{answers:?}");
    }
}

#[tokio::test]
async fn definitions_say_what_is_wrong_and_show_what_applies() {
    let service = Service::start(&[("erp", "")]).await;
    let path = service.pod.url("/v1/destinations/hooks");
    let put = |fields: Value| {
        let mut definition = json!({"url": "http://127.0.0.1:9/"});
        definition.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        client().put(&path).json(&definition)
    };
    for (fields, named) in [
        (json!({"forward_headers": ["*"]}), "forward_headers: \"*\": "),
        (json!({"forward_headers": ["content-*"]}), "content-length never travels"),
        (json!({"forward_headers": ["auth*"]}), "forward_headers: \"auth*\": never travels"),
        (json!({"forward_headers": ["cookie"]}), "never travels: whoever gets a token"),
        (json!({"key_from": {"header": "Authorization"}}), "key_from.header: Authorization"),
        (json!({"idempotency_key_from": {"header": "cookie"}}), "idempotency_key_from.header: "),
        (json!({"headers": {"Host": "a.example"}}), "headers: \"Host\" frames"),
        (json!({"headers": {"te": "trailers"}}), "headers: \"te\""),
        (json!({"forward_headers": "x-a"}), "forward_headers: "),
        (json!({"key_from": {"jq": ".a |"}}), "key_from.jq: line 1, column "),
        (json!({"key_from": {"header": "a b"}}), "key_from.header: "),
        (json!({"idempotency_key_from": {"jq": "$body"}}), "no variable $body"),
        (json!({"idempotency_key_from": {"header": "a", "jq": "."}}), "idempotency_key_from: "),
        (json!({"key_from": {"xpath": "/a"}}), "key_from"),
        (json!({"key_from": ".customer"}), "key_from"),
    ] {
        said(put(fields)).await.is_problem(400, "invalid_field", named);
    }
    let by_jq = json!({"jq": ".a"});
    let made = said(put(json!({"key_from": by_jq, "forward_headers": []}))).await;
    assert_eq!((made.status, &made.body["key_from"]), (201, &by_jq), "{}", made.body);
    assert_eq!(made.body["forward_headers"], json!([]));
    let changed = json!({"key_from": null, "forward_headers": null});
    let changed = said(client().patch(&path).json(&changed)).await;
    assert_eq!((changed.status, changed.body.get("key_from")), (200, None), "{}", changed.body);
    let default = json!(["x-*", "ce-*", "traceparent", "tracestate", "webhook-*"]);
    assert_eq!(changed.body["forward_headers"], default);
}
