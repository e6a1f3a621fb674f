//! Tests how long deliveries wait after a failover or a restart. They do not wait for an owner
//! that reported that it has stopped, nor for an owner that cannot exist.

use std::{
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
};

use redis_client::embedded::EmbeddedRedis;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use store::StoreError;

use super::{
    servers::{Door, caught_up, primary_with, promote},
    world::{LONG, World},
};
use crate::support::{
    pods::{Pod, Settings, client},
    receiver::{Inbox, Receiver},
    redis::{TestRedis, connection_to},
    wait::eventually,
};

/// Longer than any test waits, so no test sees the end of such a takeover wait.
const LEASE_MS: u64 = 600_000;

fn settings(url: &str, receiver: &Receiver) -> Settings {
    let fields = format!("url = \"{}\"\ntransform = {{ kind = \"none\" }}", receiver.url());
    let settings = Settings { partitions: 4, sender_lease_ms: LEASE_MS, ..Settings::new(url) };
    settings.destination("erp", &fields)
}

async fn send(pod: &Pod, body: &str) {
    let body = json!({"destinations": ["erp"], "body": body}).to_string();
    let request = client().post(pod.url("/v1/messages"));
    let request = request.header("content-type", "application/json").body(body);
    assert_eq!(request.send().await.unwrap().status(), 202);
}

#[tokio::test]
async fn failover_needs_no_wait_for_owner_that_holds_its_lease() {
    let (a, mut replicas) = primary_with(1).await;
    let b = replicas.remove(0);
    let door = Door::to(&a).await;
    let inbox = Arc::new(Inbox::default());
    let receiver = Receiver::http(&inbox).await;
    let pod = Pod::start("reseq", "ingest,sender", &settings(&door.url(), &receiver)).await;
    send(&pod, "before").await;
    inbox.journal.reaches(1).await;
    caught_up(&b, &a).await;
    promote(&b).await;
    door.lead_to(&b);
    send(&pod, "after").await;
    inbox.journal.reaches(2).await;
    let epochs: Vec<u64> =
        inbox.journal.all().iter().map(|one| one.headers.as_ref().unwrap().epoch).collect();
    assert!(epochs[0] < epochs[1], "{epochs:?}");
}

/// An owner key in Redis proves nothing. Resigning without vouching for this epoch proves nothing either.
#[tokio::test]
async fn only_who_vouches_for_this_very_epoch_ends_the_quarantine() {
    let redis = TestRedis::start().await;
    let mut world = World::new(redis.url(), LONG).await;
    let before = world.acquire_partition(LONG).await;
    world.stamp().await;
    redis.kill_and_restart().await;
    // Redis still has the owner's key with its token.
    let owned = world.acquire_partition(LONG).await;
    assert!(owned.epoch > before.epoch && !owned.takeover_wait.is_zero());
    let resign_partition =
        async |vouched| world.store.resign_partition(0, &world.token, vouched).await.unwrap();
    for vouched in [None, Some(before.epoch), Some(owned.epoch + 1)] {
        resign_partition(vouched).await;
        assert!(!world.acquire_partition(LONG).await.takeover_wait.is_zero(), "{vouched:?}");
    }
    assert!(matches!(world.release(owned.epoch).await, Err(StoreError::TakeoverWait(_))));
    // A later owner learns at its next renewal that the takeover wait is over.
    resign_partition(None).await;
    let other = World::new(redis.url(), LONG).await;
    assert!(!other.acquire_partition(LONG).await.takeover_wait.is_zero());
    let told = resign_partition(Some(owned.epoch)).await;
    assert_eq!((told.was_owned, told.epoch), (false, owned.epoch));
    assert!(other.acquire_partition(LONG).await.takeover_wait.is_zero());
    assert_eq!(other.release(owned.epoch).await.unwrap(), 1);
}

/// The server in a data directory. It survives the SIGKILL of its pod; dropping this ends it.
struct ServerIn(PathBuf);

impl ServerIn {
    fn process(&self) -> Option<Pid> {
        let client = redis::Client::open(format!("unix://{}/redis.sock", self.0.display())).ok()?;
        let mut connection = client.get_connection().ok()?;
        let info: String = redis::cmd("INFO").arg("server").query(&mut connection).ok()?;
        let id = info.lines().find_map(|line| line.strip_prefix("process_id:"))?;
        Pid::from_raw(id.trim().parse().ok()?)
    }
}

impl Drop for ServerIn {
    fn drop(&mut self) {
        if let Some(process) = self.process() {
            let _ = kill_process(process, Signal::KILL);
        }
    }
}

/// The length of the takeover wait of each partition; 0: there is no wait.
async fn quarantines(data_dir: &Path) -> Vec<u64> {
    let url = format!("unix://{}/redis.sock", data_dir.display());
    let mut redis = connection_to(&url).await.unwrap();
    let mut all = Vec::new();
    for partition in 0..4 {
        let mut ask = redis::cmd("HGET");
        ask.arg(format!("reseq:{{p0{partition}}}:epoch")).arg("takeover_wait_ms");
        all.push(ask.query_async(&mut redis).await.unwrap());
    }
    all
}

#[tokio::test]
async fn embedded_redis_makes_owners_wait_unless_cleanly_stopped() {
    let home = tempfile::tempdir().unwrap();
    let data_dir = home.path().join("data");
    let server = ServerIn(data_dir.clone());
    let inbox = Arc::new(Inbox::default());
    let receiver = Receiver::http(&inbox).await;
    let mut embedded = settings("embedded", &receiver);
    embedded.redis = format!("data_dir = \"{}\"", data_dir.display());
    let mut pod = Pod::start("reseq", "ingest,sender", &embedded).await;
    send(&pod, "before").await;
    inbox.journal.reaches(1).await;
    pod.drains().await;
    pod.restart().await;
    send(&pod, "after a clean stop").await;
    inbox.journal.reaches(2).await;

    // Starting and stopping the server without a pod changes nothing.
    pod.drains().await;
    EmbeddedRedis::start(&data_dir).await.unwrap().stop().await.unwrap();
    pod.restart().await;
    assert!(quarantines(&data_dir).await.iter().all(|wait| *wait == 0));

    let is_whole = |waits: Vec<u64>| waits.iter().all(|wait| *wait >= LEASE_MS);
    // Data copied back may be older than the data that a running pod has seen.
    pod.drains().await;
    let status = Command::new("cp").arg("-a").arg(&data_dir).arg(home.path().join("copy")).status();
    assert!(status.unwrap().success());
    std::fs::remove_dir_all(&data_dir).unwrap();
    std::fs::rename(home.path().join("copy"), &data_dir).unwrap();
    pod.restart().await;
    send(&pod, "on a copy").await;
    assert!(is_whole(quarantines(&data_dir).await));

    // A server that dies leaves no proof of a clean stop. An earlier clean stop does not count either.
    pod.drains().await;
    let redis = EmbeddedRedis::start(&data_dir).await.unwrap();
    let id = Pid::from_raw(redis.process_id().try_into().unwrap()).unwrap();
    kill_process(id, Signal::KILL).unwrap();
    drop(redis);
    pod.restart().await;
    send(&pod, "after a crash").await;
    assert!(is_whole(quarantines(&data_dir).await));

    // The pod ends by SIGKILL. Its server continues until it is killed too.
    drop(pod);
    assert!(server.process().is_some());
    drop(server);
    eventually("its server has ended", async || {
        let connected = UnixStream::connect(data_dir.join("redis.sock"));
        connected.map_or(Ok(()), |_| Err("it answers".to_owned()))
    })
    .await;
}
