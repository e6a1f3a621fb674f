//! Tests the selections of lists and bulk operations: by key, state, range of sequences, range of
//! times, and error. And the pages of lists by name.

use domain::{Arrival, Body, Message};
use serde_json::{Value, json};
use store::Ingested;

use super::{Service, client, dead_letters, each, known, said};

/// The first second of 2020, in ms. Message n arrives n seconds later.
const BEGUN_MS: u64 = 1_577_836_800_000;

/// The time of that second, as a query parameter.
fn second(number: u64) -> String {
    format!("2020-01-01T00:00:{number:02}Z")
}

impl Service {
    /// Stamps messages as ingest does, each received a second after the previous one.
    async fn arrive(&self, name: &str, keys: &[Option<&str>]) {
        let known = known(&self.store, name).await;
        let arrivals: Vec<Arrival> = (1..)
            .zip(keys)
            .map(|(number, key)| {
                Arrival::of(Message {
                    id: format!("id-{number}"),
                    key: key.map(str::to_owned),
                    headers: Vec::new(),
                    body: Body { content_type: "application/json".into(), bytes: "1".into() },
                    received_ms: BEGUN_MS + number * 1000,
                })
            })
            .collect();
        let arrivals: Vec<&Arrival> = arrivals.iter().collect();
        let call_sequence = self.store.new_call_sequence("filters");
        let key = self.store.keys().partition(known.partition).epoch();
        let epoch: u64 = self.redis.ask(&["HGET", &key, "epoch"]).await.unwrap();
        let epoch = epoch.max(known.born);
        let stamped = self.store.ingest(&call_sequence, &known, epoch, &arrivals).await.unwrap();
        assert!(stamped.iter().all(|one| matches!(one, Ingested::Stamped(_))), "{stamped:?}");
    }

    /// The sequences of a list, page by page.
    async fn pages(&self, path: &str, limit: usize) -> Vec<Vec<u64>> {
        let (mut pages, mut cursor) = (Vec::new(), String::new());
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        loop {
            let page = self.get(&format!("{path}?{query}&limit={limit}{cursor}")).await.ok();
            let sequences = each(&page, "sequence");
            pages.push(sequences.iter().map(|one| one.as_u64().unwrap()).collect());
            let Some(next) = page["next_cursor"].as_str() else { return pages };
            cursor = format!("&cursor={next}");
        }
    }

    /// Checks the sequences in a list, in one page and in pages of one item.
    async fn lists(&self, path: &str, expected: &[u64]) {
        println!("{path}");
        assert_eq!(self.pages(path, 100).await.concat(), expected, "{path}");
        assert_eq!(self.pages(path, 1).await.concat(), expected, "{path}, in pages of one");
    }
}

#[tokio::test]
async fn messages_are_found_by_when_they_came_and_by_their_errors() {
    let service = Service::start().await;
    let (a, b) = (Some("a"), Some("b"));
    for ordering in ["destination", "key", "none"] {
        service.define_worker(ordering, ordering).await;
        service.arrive(ordering, &[a, b, a, b, a, None]).await;
        let leases = service.lease(ordering, 2).await;
        for (lease, error) in leases.iter().zip(["no account 7", "broken pipe"]) {
            service.fail(lease, error, false).await;
        }
        let failed: Vec<u64> =
            leases.iter().map(|lease| lease["sequence"].as_u64().unwrap()).collect();
        assert_eq!(failed, [1, 2], "{ordering}");
        let path = format!("destinations/{ordering}/messages");
        let (two, three, four) = (second(2), second(3), second(4));
        let cases: Vec<(String, &[u64])> = vec![
            (format!("from_time={four}"), &[4, 5, 6]),
            (format!("to_time={two}"), &[1, 2]),
            (format!("from_time={two}&to_time={four}"), &[2, 3, 4]),
            (format!("from_time={three}&to_time={three}"), &[3]),
            (format!("from_time={four}&to_time={two}"), &[]),
            ("from_time=2020-01-01T01:00:05%2B01:00".into(), &[5, 6]),
            ("from_time=2020-01-01T00:00:04.001Z".into(), &[5, 6]),
            (format!("key=a&from_time={two}"), &[3, 5]),
            ("key=".into(), &[6]),
            (format!("state=waiting&to_time={three}"), &[3]),
            ("from_sequence=3".into(), &[3, 4, 5, 6]),
            ("to_sequence=2".into(), &[1, 2]),
            ("from_sequence=2&to_sequence=4".into(), &[2, 3, 4]),
            ("from_sequence=7".into(), &[]),
            ("error=account%207".into(), &[1]),
            ("error=broken".into(), &[2]),
            ("error=o".into(), &[1, 2]),
            ("error=nothing%20like%20it".into(), &[]),
            (format!("error=o&from_time={two}"), &[2]),
            ("state=delayed&error=account".into(), &[1]),
        ];
        for (query, expected) in cases {
            let path = format!("{path}?{query}");
            println!("{path}");
            for limit in [100, 1] {
                // The order is the order of the store, which depends on the ordering.
                let mut found = service.pages(&path, limit).await.concat();
                found.sort_unstable();
                assert_eq!(found, expected, "{path}, limit {limit}");
            }
        }
    }
}

#[tokio::test]
async fn dead_letters_are_found_by_range_and_time_of_giving_up() {
    let service = Service::start().await;
    dead_letters::with_letters(&service, json!({"transform": {"kind": "worker"}})).await;
    let keys = service.store.keys().destination(&"crm".parse().unwrap());
    let mut redis = service.redis.connection().await;
    for sequence in 1..=4 {
        // The text begins with the time.
        let (key, at) = (keys.dead_letter_messages(), BEGUN_MS + sequence * 1000);
        let get = redis::cmd("HGET").arg(&key).arg(sequence).to_owned();
        let letter: Vec<u8> = get.query_async(&mut redis).await.unwrap();
        let end = letter.iter().position(|byte| *byte == b' ').unwrap();
        let moved = [at.to_string().as_bytes(), &letter[end..]].concat();
        let set = redis::cmd("HSET").arg(&key).arg(sequence).arg(moved).to_owned();
        set.exec_async(&mut redis).await.unwrap();
    }
    let path = "destinations/crm/dead-letters";
    let (two, three) = (second(2), second(3));
    let cases: Vec<(Value, &[u64])> = vec![
        (json!({"to_sequence": 2}), &[1, 2]),
        (json!({"from_sequence": 2, "to_sequence": 3}), &[2, 3]),
        (json!({"from_sequence": 3, "to_sequence": 2}), &[]),
        (json!({"from_time": three}), &[3, 4]),
        (json!({"to_time": two}), &[1, 2]),
        (json!({"from_time": two, "to_time": three}), &[2, 3]),
        (json!({"from_time": two, "key": "k1"}), &[3]),
        (json!({"to_time": three, "stage": "transform"}), &[1, 2]),
        (json!({"to_time": three, "error": "pipe"}), &[1, 2]),
        (json!({"to_sequence": 3, "error": "pipe 1"}), &[2]),
    ];
    for (filter, expected) in cases {
        let text = |value: &Value| value.as_str().map_or(value.to_string(), str::to_owned);
        let fields = filter.as_object().unwrap().iter();
        let query: Vec<String> = fields
            .map(|(name, value)| format!("{name}={}", text(value).replace(' ', "%20")))
            .collect();
        service.lists(&format!("{path}?{}", query.join("&")), expected).await;
        // The filter of a bulk operation has the same fields, and selects the same.
        for verb in ["redrive", "discard"] {
            let selection = json!({"filter": filter, "dry_run": true});
            let counted = service.post(&format!("{path}/{verb}"), selection).await.done();
            assert_eq!(counted["matched"], expected.len(), "{verb} {filter}");
        }
    }
    let some = json!({"filter": {"from_time": two, "to_time": three}});
    let discarded = service.post(&format!("{path}/discard"), some).await.done();
    assert_eq!(discarded["affected"], 2);
    service.lists(path, &[1, 4]).await;
}

#[tokio::test]
async fn the_log_is_searched_by_state_key_and_range() {
    let service = Service::start().await;
    service.define("crm", json!({"log_bodies": true})).await;
    let (a, b) = (Some("a"), Some("b"));
    service.arrive("crm", &[a, b, a, b, a, None]).await;
    service.post("destinations/crm/skip-head", json!({"sequence": 1})).await.ok();
    assert_eq!(service.delete("destinations/crm/messages/3").await.status, 200);
    let hand = service.hand("crm").await;
    let left = hand.deliver_at(None, |sequence| BEGUN_MS + sequence * 1000).await;
    assert_eq!(left, [1, 2, 3, 4, 5, 6]);
    let path = "destinations/crm/log";
    let (two, three, five) = (second(2), second(3), second(5));
    let cases: Vec<(String, &[u64])> = vec![
        (String::new(), &[6, 5, 4, 3, 2, 1]),
        ("state=delivered".into(), &[6, 5, 4, 2]),
        ("state=cancelled".into(), &[3]),
        ("state=dead_lettered".into(), &[1]),
        ("state=dropped".into(), &[]),
        ("key=a".into(), &[5, 3, 1]),
        ("key=".into(), &[6]),
        ("key=a&state=delivered".into(), &[5]),
        ("from_sequence=4".into(), &[6, 5, 4]),
        ("to_sequence=2".into(), &[2, 1]),
        ("from_sequence=2&to_sequence=4&state=delivered".into(), &[4, 2]),
        (format!("from_time={five}"), &[6, 5]),
        (format!("to_time={two}"), &[2, 1]),
        (format!("from_time={two}&to_time={three}"), &[3, 2]),
        (format!("from_time={two}&key=b"), &[4, 2]),
    ];
    for (query, expected) in cases {
        service.lists(&format!("{path}?{query}"), expected).await;
    }
    // A replay uses the same times for selection.
    let replay = json!({"from_time": two, "to_time": five, "dry_run": true});
    let counted = service.post("destinations/crm/replay", replay).await.done();
    let found = ["matched", "first_sequence", "last_sequence"].map(|field| counted[field].clone());
    assert_eq!(found, [json!(3), json!(2), json!(5)], "{counted}");
    let replay = json!({"from_sequence": 4, "to_sequence": 6, "from_time": two, "to_time": five,
        "dry_run": true});
    let counted = service.post("destinations/crm/replay", replay).await.done();
    let found = ["matched", "first_sequence", "last_sequence"].map(|field| counted[field].clone());
    assert_eq!(found, [json!(2), json!(4), json!(5)], "{counted}");

    // An unreadable entry has no known state, key or time, so only its sequence selects it.
    let keys = service.store.keys().destination(&"crm".parse().unwrap());
    let _: u64 = service.redis.ask(&["HSET", &keys.log(), "4", "garbage"]).await.unwrap();
    let page = service.get(&format!("{path}?from_sequence=4")).await.ok();
    assert_eq!(each(&page, "sequence"), [6, 5, 4]);
    assert!(page["items"][2]["damaged"].is_string(), "{page}");
    service.lists(&format!("{path}?to_sequence=3"), &[3, 2, 1]).await;
    service.lists(&format!("{path}?state=delivered"), &[6, 5, 2]).await;
    service.lists(&format!("{path}?key=b"), &[2]).await;
    service.lists(&format!("{path}?from_time={two}"), &[6, 5, 3, 2]).await;
}

/// The names of a list, page by page.
async fn names(service: &Service, path: &str) -> Vec<Vec<String>> {
    let (mut pages, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = service.get(&format!("{path}?limit=2{cursor}")).await.ok();
        let names = each(&page, "name");
        pages.push(names.iter().map(|name| name.as_str().unwrap().to_owned()).collect());
        let Some(next) = page["next_cursor"].as_str() else { return pages };
        cursor = format!("&cursor={next}");
    }
}

#[tokio::test]
async fn destinations_topics_and_numbers_come_in_pages_by_name() {
    let service = Service::start().await;
    // `filed` is from the configuration file.
    for name in ["delta", "alpha", "echo", "bravo"] {
        service.define_worker(name, "destination").await;
        service.send(name, json!(1), json!({})).await;
        let topic = client().put(service.pod.url(&format!("/v1/topics/of-{name}")));
        let topic = said(topic.json(&json!({"destinations": [name]}))).await;
        assert_eq!(topic.status, 201, "{topic:?}");
    }
    let all = [vec!["alpha", "bravo"], vec!["delta", "echo"], vec!["filed"]];
    assert_eq!(names(&service, "destinations").await, all);
    assert_eq!(names(&service, "stats").await, all);
    let topics = [vec!["of-alpha", "of-bravo"], vec!["of-delta", "of-echo"]];
    assert_eq!(names(&service, "topics").await, topics);

    // Each page has the totals of all destinations.
    for query in ["", "?limit=2", "?limit=2&cursor=bravo", "?cursor=zulu"] {
        let stats = service.get(&format!("stats{query}")).await.ok();
        assert_eq!(stats["totals"]["pending"], 4, "{query}: {stats}");
        let pending: u64 = each(&stats, "pending").iter().map(|one| one.as_u64().unwrap()).sum();
        let shown = if query.is_empty() {
            4
        } else if query.contains("zulu") {
            0
        } else {
            2
        };
        assert_eq!(pending, shown, "{query}: {stats}");
    }
    // A cursor may name an item that is gone meanwhile.
    assert_eq!(service.delete("destinations/bravo?force=true").await.status, 200);
    for (list, prefix) in [("destinations", ""), ("stats", ""), ("topics", "of-")] {
        let page = service.get(&format!("{list}?limit=1&cursor={prefix}bravo")).await.ok();
        assert_eq!(each(&page, "name"), [format!("{prefix}delta")], "{list}");
        let end = service.get(&format!("{list}?cursor=zulu")).await.ok();
        assert_eq!((each(&end, "name").len(), &end["next_cursor"]), (0, &Value::Null), "{list}");
        for query in ["limit=0", "limit=1001", "limit=many"] {
            let refused = service.get(&format!("{list}?{query}")).await;
            refused.is_problem(400, "invalid_field", "limit");
        }
    }
}
