//! Consumers hold 5,120 messages in 64 lanes, while an operator cancels and purges, and senders are killed and replaced.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use support::{
    pods::{Pod, Settings, client},
    redis::TestRedis,
    wait::eventually,
};

use crate::support;

const LANES: usize = 64;
/// The messages of a lane.
const LENGTH: usize = 80;
const PATH: &str = "/v1/destinations/erp";

struct Storm {
    api: Pod,
}

impl Storm {
    async fn ask(&self, method: &str, path: &str, body: Value) -> Value {
        let request = client().request(method.parse().unwrap(), self.api.url(path));
        let request = if body.is_null() { request } else { request.json(&body) };
        let answer = request.send().await.unwrap();
        let status = answer.status();
        let text = answer.text().await.unwrap();
        assert!(status.is_success(), "{method} {path}: {status} {text}");
        serde_json::from_str(&text).unwrap_or(Value::Null)
    }

    async fn fill(&self) {
        for number in 0..LENGTH {
            let lines = (0..LANES).map(|lane| {
                json!({"destinations": ["erp"], "key": format!("k{lane}"), "body": number})
                    .to_string()
            });
            let lines = lines.collect::<Vec<_>>().join("\n");
            let request = client().post(self.api.url("/v1/messages"));
            let request = request.header("content-type", "application/x-ndjson").body(lines);
            let answer = request.send().await.unwrap();
            assert!(answer.status().is_success(), "{:?}", answer.text().await);
        }
    }

    async fn consume(&self) -> Vec<Value> {
        let answer = self.ask("POST", &format!("{PATH}/consume"), json!({"max": 1000})).await;
        answer["deliveries"].as_array().unwrap().clone()
    }

    /// Acknowledges these messages, and expects the same result for each.
    async fn all(&self, verb: &str, messages: &[&Value], expected: &str) {
        let items: Vec<_> = messages.iter().map(|one| json!({"token": one["token"]})).collect();
        let path = format!("/v1/deliveries/{verb}");
        let answer = self.ask("POST", &path, json!({"items": items})).await;
        for (result, message) in answer["results"].as_array().unwrap().iter().zip(messages) {
            assert_eq!(result["status"], expected, "{verb} {}: {result}", message["sequence"]);
        }
    }

    async fn until(&self, expected: Value) {
        eventually("the stats", async || {
            let stats = self.ask("GET", &format!("{PATH}/stats"), Value::Null).await;
            let is_so = expected.as_object().unwrap().iter().all(|(of, is)| stats[of] == *is);
            if is_so { Ok(()) } else { Err(stats.to_string()) }
        })
        .await;
    }
}

#[tokio::test]
async fn consumers_keep_5000_messages_through_a_storm() {
    let redis = TestRedis::start().await;
    let mut settings = Settings::new(redis.url());
    settings.sender_lease_ms = 1500;
    let api = Pod::start("api", "ingest,processor", &settings).await;
    let storm = Storm { api };
    let definition =
        json!({"ordering": "key", "delivery": {"kind": "pull", "timeout_ms": 600_000}});
    storm.ask("PUT", PATH, definition).await;
    storm.fill().await;

    // Without a sender, consumers get all messages: each lane goes to one consumer, in order.
    let mut lanes: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    loop {
        let taken = storm.consume().await;
        if taken.is_empty() {
            break;
        }
        let mut of_call: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        for message in taken {
            let lane = message["lane"].as_str().unwrap().to_owned();
            of_call.entry(lane).or_default().push(message);
        }
        for (lane, messages) in of_call {
            assert!(lanes.insert(lane, messages).is_none(), "a lane has two consumers");
        }
    }
    assert_eq!(lanes.len(), LANES);

    let (mut done, mut delivered) = (0, 0);
    for (round, batch_max) in [1024, 1, 64, 7].into_iter().enumerate() {
        settings.destinations = format!("release_batch_max = {batch_max}\n");
        let mut sender = Pod::start(&format!("sender-{round}"), "sender", &settings).await;
        // An operator cancels a held message of each eighth lane, and later all messages.
        for messages in lanes.values().step_by(8) {
            let sequence = &messages[messages.len() - 1 - round]["sequence"];
            storm.ask("DELETE", &format!("{PATH}/messages/{sequence}"), Value::Null).await;
        }
        if round == 2 {
            storm.ask("POST", &format!("{PATH}/purge"), json!({})).await;
        }
        let accepted: Vec<&Value> = lanes.values().filter_map(|all| all.get(done + 2)).collect();
        storm.all("accept", &accepted, "ok").await;
        delivered +=
            lanes.values().map(|all| all.len().min(done + 3) - all.len().min(done)).sum::<usize>();
        done += 3;
        if round % 2 == 0 {
            storm.until(json!({"delivered_total": delivered})).await;
            sender.drains().await;
        } else {
            sender.kill();
        }
        storm.all("accept", &accepted, "settled").await;
        assert!(storm.consume().await.is_empty(), "a consumer gets what another one holds");
    }

    // One half of the messages is accepted. The other half is given back, and leaves without
    // delivery, because it was purged.
    let sender = Pod::start("sender", "sender", &settings).await;
    let (accepted, returned): (Vec<_>, Vec<_>) =
        lanes.values().enumerate().partition(|(number, _)| number % 2 == 0);
    let last = |all: &[(usize, &Vec<Value>)]| -> Vec<Value> {
        all.iter().filter_map(|(_, all)| all.last().cloned()).collect()
    };
    storm.all("accept", &last(&accepted).iter().collect::<Vec<_>>(), "ok").await;
    storm.all("requeue", &last(&returned).iter().collect::<Vec<_>>(), "ok").await;
    delivered += accepted.iter().map(|(_, all)| all.len() - done).sum::<usize>();
    let total = LANES * LENGTH;
    storm.until(json!({"delivered_total": delivered, "cancelled_total": total - delivered, "pending": 0})).await;
    drop(sender);
}
