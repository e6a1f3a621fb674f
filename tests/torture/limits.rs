//! Takes channels in Redis, connections or file descriptors away from a pod for a while.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, prlimit};
use tokio::{io::AsyncWriteExt, net::TcpStream, time::sleep};

use crate::{
    inject::{fires, heals},
    plan::{PODS, Planned, Role},
    support::pods::{Addresses, client},
    world::{DESCRIPTORS, World},
};

/// More connections than a pod accepts, for HTTP and for TCP.
const CONNECTIONS: usize = DESCRIPTORS as usize / 4 + 20;
/// A pod that does not answer within this time has no descriptor for the request.
const ANSWER_MAX: Duration = Duration::from_millis(700);
/// The incomplete request of a connection that never sends the rest.
const BEGUN: &[u8] = b"POST /v1/messages HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\n[";

/// Takes all channels from the pods' Redis user, on all servers.
pub async fn channels(world: &World, planned: Planned) -> Result<Instant, String> {
    let servers = world.redis.lock().await;
    let seen = "lacks rights for wake-ups";
    servers.acl(&["resetchannels"]).await;
    sleep(planned.lasts).await;
    let fired = fires("a pod says that it lacks channels", async || {
        for pod in &world.addresses {
            if readiness(pod).await.is_some_and(|(_, text)| text.contains(seen)) {
                return Some(());
            }
        }
        None
    })
    .await;
    servers.acl(&["&reseq:*"]).await;
    let given = Instant::now();
    fired?;
    heals("every pod that answers lacks no rights", async || {
        for pod in &world.addresses {
            let (_, text) = readiness(pod).await.unwrap_or_default();
            if text.contains(seen) {
                return None;
            }
        }
        Some(())
    })
    .await?;
    Ok(given)
}

async fn readiness(pod: &Addresses) -> Option<(u16, String)> {
    let request = client().get(pod.url("/readyz")).timeout(Duration::from_secs(2));
    let answer = request.send().await.ok()?;
    Some((answer.status().as_u16(), answer.text().await.ok()?))
}

/// Opens more connections to an ingest pod than it accepts, over HTTP and TCP. Every second HTTP
/// connection begins a request.
pub async fn connections(world: &World, planned: Planned) -> Result<Instant, String> {
    let pod = world.pod(Role::Ingest, planned.target).lock().await;
    let (http, tcp) = (pod.addresses.http().ok_or("it was not started")?, pod.addresses.tcp(0));
    let before = closed(&pod.addresses).await.unwrap_or_default();
    let mut open = Vec::new();
    let connect = async |number: usize, address| {
        let connecting = tokio::time::timeout(ANSWER_MAX, TcpStream::connect(address)).await;
        let mut stream = connecting.ok()?.ok()?;
        if address == http && number.is_multiple_of(2) {
            let _ = stream.write_all(BEGUN).await;
        }
        Some(stream)
    };
    for number in 0..CONNECTIONS {
        for address in [http, tcp] {
            open.extend(connect(number, address).await);
        }
    }
    sleep(planned.lasts).await;
    let fired = fires("a connection that was closed for want of room", async || {
        // On a slow machine some connections may have failed.
        open.extend(connect(0, http).await);
        open.extend(connect(1, http).await);
        (closed(&pod.addresses).await? > before).then_some(())
    })
    .await;
    drop(open);
    fired.map(|()| Instant::now())
}

/// The number of connections that a pod has closed because it had too many.
async fn closed(pod: &Addresses) -> Option<f64> {
    let request = client().get(pod.url("/metrics")).timeout(Duration::from_secs(2));
    let text = request.send().await.ok()?.text().await.ok()?;
    let is_meant = |line: &&str| {
        line.starts_with("reseq_connections_closed_total")
            && ["\"full\"", "\"displaced\""].iter().any(|reason| line.contains(reason))
    };
    let values = text.lines().filter(is_meant).filter_map(|line| line.rsplit(' ').next());
    Some(values.filter_map(|value| value.parse::<f64>().ok()).sum())
}

/// Lowers the limit of a pod's descriptors to the number that it has open.
pub async fn descriptors(world: &World, planned: Planned) -> Result<Instant, String> {
    let role = Role::ALL[planned.target / PODS];
    let pod = world.pod(role, planned.target % PODS).lock().await;
    let id = i32::try_from(pod.id()).ok().and_then(Pid::from_raw).ok_or("no process")?;
    let limit = |count: u64| {
        let limit = Rlimit { current: Some(count), maximum: Some(world.descriptors.into()) };
        prlimit(Some(id), Resource::Nofile, limit).map(drop).map_err(|error| error.to_string())
    };
    limit(lowest_free(pod.id()))?;
    sleep(planned.lasts).await;
    let fired = fires("a request that the pod had no descriptor for", async || {
        // The pod may have closed some meanwhile.
        limit(lowest_free(pod.id())).ok()?;
        let request = client().get(pod.url("/healthz")).timeout(ANSWER_MAX);
        request.send().await.is_err().then_some(())
    })
    .await;
    limit(world.descriptors.into())?;
    let given = Instant::now();
    fired?;
    heals("the pod answers again", async || {
        let request = client().get(pod.url("/healthz")).timeout(ANSWER_MAX);
        (request.send().await.ok()?.status() == 200).then_some(())
    })
    .await?;
    Ok(given)
}

/// The lowest number that is not a descriptor of a process. With this limit, the process can open no more.
fn lowest_free(process: u32) -> u64 {
    let dir = format!("/proc/{process}/fd");
    let is_open = |number: &u64| std::fs::symlink_metadata(format!("{dir}/{number}")).is_ok();
    (0..u64::from(DESCRIPTORS)).find(|number| !is_open(number)).unwrap_or_default()
}
