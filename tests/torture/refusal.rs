//! Faults in which Redis answers, but refuses. Above its `maxmemory`, messages must still drain.
//! For other refusals, each pod must name the sentence of Redis.

use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::time::sleep;

use crate::{
    admin,
    bulk::path,
    inject::{REPLY_MAX, ask, fires, heals, info, refused},
    plan::PODS,
    support::{pods::client, redis::TestRedis},
    world::World,
};

/// The time, in ms, that a script runs before Redis answers other clients with BUSY: here, and by default.
const BUSY_AFTER: [&str; 2] = ["50", "5000"];

/// Sets the limit to half of the memory in use, until a destination has delivered all its messages.
pub async fn memory_lowered(
    world: &World,
    server: &TestRedis,
    name: &str,
) -> Result<Instant, String> {
    let mut connection = server.connection().await;
    let before = refused(world, &mut connection).await;
    let used = info(&mut connection, "memory", "used_memory").await?;
    let half = used.parse::<u64>().map_err(|error| error.to_string())? / 2;
    ask::<()>(&mut connection, &["CONFIG", "SET", "maxmemory", &half.to_string()]).await?;
    let fired = fires("an arrival that was refused for want of memory", async || {
        (refused(world, &mut connection).await != before).then_some(())
    })
    .await;
    let drained = drained(world, name).await;
    ask::<()>(&mut connection, &["CONFIG", "SET", "maxmemory", "0"]).await?;
    drained?;
    fired.map(|()| Instant::now())
}

/// Waits until the destination has delivered all its current messages, while it makes progress: only
/// heads are processed, so a long backlog takes time. Once Redis has room again, new messages arrive.
async fn drained(world: &World, name: &str) -> Result<(), String> {
    let stats = format!("{}/stats", path(name));
    let (mut numbers, mut pods) = (Value::Null, world.addresses.iter().cycle());
    let mut wanted = None;
    let mut left_before = 0;
    loop {
        heals(&format!("{name} delivers"), async || {
            numbers = admin::look(pods.next()?, &stats).await?;
            let last = numbers["last_sequence"].as_u64()?;
            let left = last.checked_sub(numbers["pending"].as_u64()?)?;
            let wanted = *wanted.get_or_insert(last);
            let before = std::mem::replace(&mut left_before, left);
            (left >= wanted || left > before).then_some(())
        })
        .await
        .map_err(|problem| format!("{problem}: {numbers}"))?;
        if wanted.is_some_and(|wanted| left_before >= wanted) {
            return Ok(());
        }
    }
}

/// Succeeds once all ingest pods name this refusal, or none does, as `expected`.
async fn are_naming(world: &World, sentence: &str, expected: bool) -> Option<()> {
    for pod in &world.addresses[..PODS] {
        let asked = client().get(pod.url("/readyz")).timeout(REPLY_MAX).send().await;
        let text = async { asked?.text().await }.await.ok()?;
        let is_named = text.contains(&format!("refuses writes: {sentence}"));
        // Another fault may have frozen the pod, or its way to Redis.
        if is_named != expected {
            return None;
        }
    }
    Some(())
}

/// Makes Redis require more replicas than there are.
pub async fn writes_refused(
    world: &World,
    server: &TestRedis,
    lasts: Duration,
) -> Result<Instant, String> {
    let mut connection = server.connection().await;
    let set = async |connection: &mut _, count: &str| {
        ask::<()>(connection, &["CONFIG", "SET", "min-replicas-to-write", count]).await
    };
    set(&mut connection, "99").await?;
    sleep(lasts).await;
    let fired =
        heals("pods that name NOREPLICAS", async || are_naming(world, "NOREPLICAS", true).await)
            .await;
    set(&mut connection, "0").await?;
    let healed = Instant::now();
    heals("no pod names NOREPLICAS", async || are_naming(world, "NOREPLICAS", false).await).await?;
    fired.map(|()| healed)
}

/// Runs a script that does not end. Kills the script as soon as the pods report it.
pub async fn script_busy(world: &World, server: &TestRedis) -> Result<Instant, String> {
    let (mut connection, mut busy) = (server.connection().await, server.connection().await);
    let set = async |connection: &mut _, ms: &str| {
        ask::<()>(connection, &["CONFIG", "SET", "busy-reply-threshold", ms]).await
    };
    set(&mut connection, BUSY_AFTER[0]).await?;
    let script = tokio::spawn(async move {
        let endless =
            redis::cmd("EVAL").arg("while true do end").arg(0).exec_async(&mut busy).await;
        drop(endless);
    });
    let fired = heals("pods that name BUSY", async || are_naming(world, "BUSY", true).await).await;
    heals("the script ends", async || {
        let killed = ask::<()>(&mut connection, &["SCRIPT", "KILL"]).await;
        (killed.is_ok() || script.is_finished()).then_some(())
    })
    .await?;
    let healed = Instant::now();
    script.abort();
    heals("Redis takes a setting again", async || set(&mut connection, BUSY_AFTER[1]).await.ok())
        .await?;
    heals("no pod names BUSY", async || are_naming(world, "BUSY", false).await).await?;
    fired.map(|()| healed)
}
