//! Tests calls that wait until their writes are confirmed.

use std::time::Duration;

use domain::Durability;
use store::{Confirm, Store, retry_until, scripts::Scripts, transitions::acquire_partition};

use tokio::time::Instant;

use crate::support::{cluster::TestCluster, redis::TestRedis, sentinel::TestSentinel};

async fn open(url: &str) -> Store {
    let redis = config::Redis { url: url.to_owned(), timeout_ms: 1000, ..Default::default() };
    Store::open(&redis, Duration::from_secs(5)).await.unwrap().0
}

/// Acquires a partition. Returns the epoch, and whether the write was confirmed.
async fn own(store: &Store, partition: u16, confirm: Confirm) -> (u64, bool) {
    let args = acquire_partition::Args {
        own_token: "me",
        lease_ms: 5000,
        seen_epoch: "5000 0".to_owned(),
        seen_owner: "",
    };
    let scripts = Scripts::new();
    let call = scripts.acquire_partition.call(args.words(&store.keys().partition(partition)));
    // A node that is being changed may not answer in time. Repeating the call is harmless.
    let deadline = Instant::now() + Duration::from_secs(30);
    let run = || store.run_confirmed(&call, confirm);
    let ((epoch, _), is_confirmed): ((u64, u64), bool) =
        retry_until(Some(deadline), run).await.unwrap();
    (epoch, is_confirmed)
}

#[tokio::test]
async fn call_is_confirmed_only_if_enough_replicas_have_it() {
    let redis = TestSentinel::start(2).await;
    let store = open(&redis.url()).await;
    let both = Confirm::Replicas { count: 2 };
    let (epoch, is_confirmed) = own(&store, 1, both).await;
    assert!(epoch > 0 && is_confirmed);
    redis.nodes[2].freeze();
    assert_eq!(own(&store, 1, both).await, (epoch, false));
    assert_eq!(own(&store, 1, Confirm::Replicas { count: 1 }).await, (epoch, true));
    redis.nodes[2].thaw();
    redis.in_sync().await;
    // A node that does not know the script gets its source. That call waits for the replicas too.
    redis.nodes[0].ask::<()>(&["SCRIPT", "FLUSH"]).await.unwrap();
    assert_eq!(own(&store, 1, both).await, (epoch, true));
}

#[tokio::test]
async fn cluster_call_is_confirmed_by_replica_of_its_own_primary() {
    let cluster = TestCluster::start_with_replicas().await;
    let store = open(&cluster.url()).await;
    for partition in 0..16 {
        let (epoch, is_confirmed) = own(&store, partition, Confirm::Replicas { count: 1 }).await;
        assert!(epoch > 0 && is_confirmed, "{partition}");
        assert!(!own(&store, partition, Confirm::Replicas { count: 2 }).await.1);
        if partition == 8 {
            cluster.failover(0).await;
        }
    }
}

#[tokio::test]
async fn what_a_server_can_say_about_its_disk_is_found_out() {
    let fsynced = async |store: &Store| store.check_durability(Durability::Fsynced, "any").await;
    let plain = TestRedis::start().await;
    let store = open(plain.url()).await;
    // Redis before 7.2 has no WAITAOF.
    let is_asked = own(&store, 1, Confirm::Fsync { replicas: 0 }).await.1;
    assert_eq!(fsynced(&store).await.is_ok(), is_asked);
    plain.ask::<()>(&["CONFIG", "SET", "appendfsync", "always"]).await.unwrap();
    assert!(fsynced(&store).await.is_ok());
}
