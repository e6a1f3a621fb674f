//! Redis answers, but refuses: each pod must name its sentence.

use std::time::{Duration, Instant};

use tokio::time::sleep;

use crate::{
    inject::{REPLY_MAX, ask, fires, heals},
    plan::PODS,
    support::{pods::client, redis::TestRedis},
    world::World,
};

/// How long a script runs before Redis answers others with BUSY, in ms.
const BUSY_AFTER: &str = "50";

/// Succeeds once all ingest pods name this refusal, or none does.
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

/// More replicas are wanted than there are.
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
        fires("pods that name NOREPLICAS", async || are_naming(world, "NOREPLICAS", true).await)
            .await;
    set(&mut connection, "0").await?;
    let healed = Instant::now();
    heals("no pod names NOREPLICAS", async || are_naming(world, "NOREPLICAS", false).await).await?;
    fired.map(|()| healed)
}

/// A script does not end until it is killed.
pub async fn script_busy(
    world: &World,
    server: &TestRedis,
    lasts: Duration,
) -> Result<Instant, String> {
    let (mut connection, mut busy) = (server.connection().await, server.connection().await);
    ask::<()>(&mut connection, &["CONFIG", "SET", "busy-reply-threshold", BUSY_AFTER]).await?;
    let script = tokio::spawn(async move {
        let endless =
            redis::cmd("EVAL").arg("while true do end").arg(0).exec_async(&mut busy).await;
        drop(endless);
    });
    sleep(lasts).await;
    let fired = fires("pods that name BUSY", async || are_naming(world, "BUSY", true).await).await;
    heals("the script ends", async || ask::<()>(&mut connection, &["SCRIPT", "KILL"]).await.ok())
        .await?;
    let healed = Instant::now();
    script.abort();
    heals("no pod names BUSY", async || are_naming(world, "BUSY", false).await).await?;
    fired.map(|()| healed)
}
