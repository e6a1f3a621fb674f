//! Tests the bounds of consumers' calls, and of the owner's calls for their lanes.

use serde_json::{Value, json};
use store::{LaneRequest, Settled};

use super::{BATCH, Watched, arrival, known};

/// Number of lanes.
const LANES: usize = 250;
const LENGTH: usize = 16;

impl Watched {
    /// Consumers take many lanes, and use every kind of acknowledgement. The owner reads and settles the lanes.
    pub async fn consumers(&mut self, name: &str) {
        let pulled = format!("{name}-pulled");
        let definition =
            json!({"delivery": {"kind": "pull"}, "ordering": "key", "backlog_max": 10_000_000});
        self.put(&format!("destinations/{pulled}"), definition).await;
        let at = known(&self.service.store, &pulled).await;
        let of_lane = |n: usize| arrival(format!("k{}", n % LANES), json!({"n": n}).to_string());
        self.load(&at, LANES * LENGTH, of_lane, BATCH).await;
        let owner = self.own(&pulled).await;
        self.pass().await;
        let store = self.service.store.clone();
        let all = |settled_upto: u64, limit: usize| -> Vec<LaneRequest> {
            let request = |lane: usize| LaneRequest {
                key: Some(format!("k{lane}")),
                settled: Settled { upto: settled_upto, count: LENGTH, ..Settled::default() },
                held_upto: 0,
                limit,
            };
            (0..LANES).map(request).collect()
        };
        let consume = format!("destinations/{pulled}/consume");
        let taken = self.post(&consume, json!({"max": 1000})).await.body["deliveries"].take();
        self.note("consume").await;
        let taken: Vec<Value> = taken.as_array().unwrap().clone();
        assert_eq!(taken.len(), 1000);
        let items: Vec<Value> = taken.iter().map(|one| json!({"token": one["token"]})).collect();
        for (verb, items) in [
            ("extend", &items[..]),
            ("accept", &items[..500]),
            ("refuse", &items[500..750]),
            ("requeue", &items[750..]),
        ] {
            self.post(&format!("deliveries/{verb}"), json!({"items": items})).await;
            self.note(verb).await;
        }
        store.release(&owner, &at, &all(0, 1024)).await.unwrap();
        self.note("look at lanes of consumers").await;
        // A single lane may settle as many messages as a whole call.
        let settles = all((LANES * LENGTH / 8) as u64, 0);
        store.release(&owner, &at, &settles[..8]).await.unwrap();
        self.note("settle what consumers accepted").await;
    }
}
