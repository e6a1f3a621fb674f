//! Where there are replicas, ownership counts only once they know of it.

use std::sync::Arc;

use reseq::{
    domain::Durability,
    store::{OwnerToken, StoreError},
};
use serde_json::json;

use super::{
    servers::{Frozen, primary_with},
    world::{LONG, World, open},
};
use crate::support::{
    pods::{Pod, Settings, client},
    receiver::{Desk, Receiver},
    wait::eventually,
};

#[tokio::test]
async fn ownership_needs_half_of_the_replicas() {
    let (redis, replicas) = primary_with(2).await;
    let world = World::with(open(redis.url(), 2, LONG).await, Durability::Memory).await;
    let own = async || world.store.own(0, &world.token, LONG).await;
    own().await.unwrap();
    let one = Frozen::new(&replicas[0]);
    own().await.unwrap();
    // With the primary that is a majority: no other primary can be made without one of them.
    let two = Frozen::new(&replicas[1]);
    let settings = reseq::config::Redis {
        url: redis.url().to_owned(),
        partitions: 1,
        replicas: 2,
        timeout_ms: 1_000,
        ..Default::default()
    };
    let (impatient, _) = reseq::store::Store::open(&settings, LONG).await.unwrap();
    let renewed = impatient.own(0, &world.token, LONG).await;
    assert!(matches!(renewed, Err(StoreError::Unconfirmed(_))), "{renewed:?}");
    drop((one, two));
    eventually("it is renewed again", async || {
        impatient.own(0, &world.token, LONG).await.map_err(|error| error.to_string())
    })
    .await;
    let other = impatient.own(0, &OwnerToken::random(), LONG).await;
    assert!(matches!(other, Err(StoreError::Owned(_))), "{other:?}");
}

#[tokio::test]
async fn a_primary_that_is_cut_off_keeps_no_owner() {
    let (redis, replicas) = primary_with(1).await;
    let desk = Arc::new(Desk::default());
    let receiver = Receiver::http(&desk).await;
    let settings = Settings {
        partitions: 4,
        sender_lease_ms: 1500,
        redis: "replicas = 1\ntimeout_ms = 1000".into(),
        ..Settings::new(redis.url())
    };
    let settings = settings.destination("erp", &format!("url = \"{}\"", receiver.url()));
    let pod = Pod::start("reseq", "ingest,processor,sender", &settings).await;
    let send = async |number: usize| {
        let body = json!({"destinations": ["erp"], "body": number}).to_string();
        let request = client().post(pod.url("/v1/messages"));
        let request = request.header("content-type", "application/json").body(body);
        assert_eq!(request.send().await.unwrap().status(), 202);
    };
    send(1).await;
    desk.journal.reaches(1).await;
    let owned = async |count: f64| {
        eventually(&format!("{count} partitions are owned"), async || {
            let now = pod.metric("reseq_sender_partitions_owned").await;
            if now == count { Ok(()) } else { Err(now.to_string()) }
        })
        .await;
    };
    owned(4.0).await;
    let cut_off = Frozen::new(&replicas[0]);
    owned(0.0).await;
    // The primary takes it, as it is asked for no more; nobody delivers it.
    send(2).await;
    eventually("the pod says why", async || {
        let log = pod.log();
        log.contains("was not confirmed").then_some(()).ok_or_else(|| "no word of it".to_owned())
    })
    .await;
    assert_eq!(desk.journal.messages(), 1);
    drop(cut_off);
    desk.journal.reaches(2).await;
    owned(4.0).await;
    let sequences: Vec<u64> =
        desk.journal.all().iter().map(|one| one.headers.as_ref().unwrap().sequence).collect();
    assert_eq!(sequences, [1, 2]);
}
