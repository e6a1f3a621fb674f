//! What a call of a consumer, or about offers, may touch.

use reseq::store::{Ask, OfferRequest};
use serde_json::{Value, json};

use super::{BATCH, Watched, arrival, known};

/// As many lanes and messages as the sender offers in one call.
const LANES: usize = 250;
const LENGTH: usize = 16;

impl Watched {
    /// Offers many lanes, and consumes what is offered.
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
        let all = |ask: &dyn Fn(usize) -> Ask| -> Vec<OfferRequest> {
            let lanes = 0..LANES;
            lanes.map(|lane| OfferRequest { lane: format!("k{lane}"), ask: ask(lane) }).collect()
        };
        let sequences = |lane: usize| -> Vec<u64> {
            (0..LENGTH).map(|n| (1 + lane + n * LANES) as u64).collect()
        };
        let offers = all(&|lane| Ask::Offer(sequences(lane)));
        store.offer(&owner, &at, &offers).await.unwrap();
        self.note("offer").await;
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
        store.offer(&owner, &at, &all(&|_| Ask::Look)).await.unwrap();
        self.note("look at offers").await;
        store.offer(&owner, &at, &all(&|_| Ask::Recall)).await.unwrap();
        self.note("recall offers").await;
    }
}
