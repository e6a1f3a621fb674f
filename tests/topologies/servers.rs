//! The servers that the other tests need: they do what real ones do.

use crate::support::{cluster::TestCluster, sentinel::TestSentinel};

#[tokio::test]
async fn the_sentinels_make_a_replica_the_primary_and_take_the_old_one_back() {
    let redis = TestSentinel::start(2).await;
    assert_eq!(redis.primary().await, 0);
    redis.nodes[0].ask::<()>(&["SET", "one", "1"]).await.unwrap();
    redis.in_sync().await;
    redis.nodes[0].kill();
    let second = redis.other_primary(0).await;
    assert_eq!(redis.nodes[second].ask::<String>(&["GET", "one"]).await.unwrap(), "1");
    redis.nodes[0].restart().await;
    redis.wait_until_ok().await;
    let third = redis.failover().await;
    assert_eq!(redis.nodes[third].ask::<String>(&["GET", "one"]).await.unwrap(), "1");
}

#[tokio::test]
async fn a_replica_takes_over_and_slots_move_with_what_is_in_them() {
    let cluster = TestCluster::start_with_replicas().await;
    // Slot 12182.
    let slot = 12182;
    let master = cluster.master_of(slot).await;
    assert_eq!(master, 2);
    cluster.nodes[master].ask::<()>(&["SET", "foo", "1"]).await.unwrap();
    let replica = cluster.failover(master).await;
    assert_eq!((cluster.master_of(slot).await, replica), (replica, 5));
    cluster.move_slot(slot, 0).await;
    assert_eq!(cluster.master_of(slot).await, 0);
    assert_eq!(cluster.nodes[0].ask::<String>(&["GET", "foo"]).await.unwrap(), "1");
    cluster.nodes[replica].kill();
    assert_eq!(cluster.other_master(slot + 1, replica).await, master);
    cluster.nodes[replica].restart().await;
    cluster.wait_until_ok().await;
}
