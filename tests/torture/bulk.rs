//! Destinations with a long backlog that are purged and removed during the storm.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use futures::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::sync::Mutex;

use crate::{
    admin,
    plan::PODS,
    support::{
        pods::client,
        producer::{Item, Producer},
        wait::eventually,
    },
    world::World,
};

/// The destination that is purged.
pub const PURGED: &str = "backlog-1";
/// The destination that is removed, created again, and used.
pub const REMOVED: &str = "backlog-2";
/// The fewest messages that wait there when a fault strikes.
const WAITING: u64 = 20_000;
/// Messages of one request, for both destinations.
const AT_ONCE: usize = 2500;
/// Parallel requests.
const REQUESTS: usize = 8;
/// A request without an answer within this time is repeated.
const ANSWER_MAX: Duration = Duration::from_secs(30);
/// The number of messages that a destination delivers after it was created again.
const USED: usize = 20;
/// Each purge or removal may last until the next one is due. Two at once would take each other's messages.
static PURGING: Mutex<()> = Mutex::const_new(());
static REMOVING: Mutex<()> = Mutex::const_new(());

/// The number of messages that wait before the storm begins.
fn filled_ahead() -> u64 {
    crate::setting("TORTURE_BACKLOG").map_or(WAITING, |text| text.parse().expect("a number"))
}

pub fn path(name: &str) -> String {
    format!("/v1/destinations/{name}")
}

/// Defines a destination whose messages no worker ever processes.
async fn define(world: &World, name: &str, transform: &str) -> Result<(), String> {
    let definition = json!({
        "url": world.backlog_url(),
        "transform": {"kind": transform},
        "delivery": {"backoff_ms": 20, "backoff_max_ms": 500},
        "durability": world.level.to_string(),
        "backlog_max": 10_000_000,
    });
    admin::done(world, Method::PUT, &path(name), definition).await.map(drop)
}

pub async fn remove(world: &World, name: &str) -> Result<(), String> {
    // A removal whose answer was lost finds nothing when it is repeated.
    let is_gone = |status: u16, _: &Value| status == 200 || status == 404;
    let path = format!("{}?force=true", path(name));
    admin::ask(world, Method::DELETE, &path, Value::Null, is_gone).await.map(drop)
}

pub async fn stats(world: &World, name: &str) -> Result<Value, String> {
    admin::done(world, Method::GET, &format!("{}/stats", path(name)), Value::Null).await
}

/// The sequences of pending messages: at least `most`, if there are that many.
pub async fn pending(world: &World, name: &str, most: usize) -> Result<Vec<u64>, String> {
    let list = format!("{}/messages?limit=1000", path(name));
    let (mut all, mut cursor) = (Vec::new(), String::new());
    while all.len() < most {
        let part = format!("{list}{cursor}");
        let page = admin::done(world, Method::GET, &part, Value::Null).await?;
        let items = page["items"].as_array().ok_or_else(|| format!("{page}"))?;
        all.extend(items.iter().filter_map(|item| item["sequence"].as_u64()));
        let Some(next) = page["next_cursor"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    Ok(all)
}

/// Creates both destinations, and fills them.
pub async fn fill_ahead(world: &World) -> Result<(), String> {
    for name in [PURGED, REMOVED] {
        define(world, name, "worker").await?;
    }
    fill(world, &[PURGED, REMOVED], filled_ahead()).await
}

/// Sends messages until this many wait in each destination.
async fn fill(world: &World, names: &[&str], wanted: u64) -> Result<(), String> {
    let line = json!({"destinations": names, "body": "waits, and is never delivered"}).to_string();
    let (body, client) = (vec![line; AT_ONCE].join("\n"), client());
    loop {
        let mut waiting = u64::MAX;
        for name in names {
            let numbers = stats(world, name).await?;
            waiting = waiting.min(numbers["pending"].as_u64().unwrap_or_default());
        }
        if waiting >= wanted {
            return Ok(());
        }
        let missing = (wanted - waiting).div_ceil(AT_ONCE as u64) as usize;
        let requests = (0..missing.min(REQUESTS)).map(|number| {
            let request = client.post(world.addresses[number % PODS].url("/v1/messages"));
            let request = request.header("content-type", "application/x-ndjson");
            let request = request.timeout(ANSWER_MAX).body(body.clone());
            async move {
                // The next round sends the messages that were not accepted.
                let answer = request.send().await.ok()?.text().await.ok()?;
                answer.contains("unknown_destination").then_some(())
            }
        });
        if join_all(requests).await.contains(&Some(())) {
            // A failover has lost the definition, or the end of the removal before it.
            for name in names {
                define(world, name, "worker").await?;
            }
        }
    }
}

/// Purges a destination once, and waits for the end of the purge.
pub async fn purge_once(world: &World, name: &str) -> Result<(), String> {
    let purge = format!("{}/purge", path(name));
    let begun = admin::done(world, Method::POST, &purge, json!({})).await?;
    let id = begun["id"].as_str().ok_or_else(|| format!("no operation: {begun}"))?;
    let operation = format!("{}/operations/{id}", path(name));
    // The operation shows as interrupted if its pod was killed. It may be lost with a primary.
    let has_ended =
        |status: u16, now: &Value| status == 404 || status == 200 && now["state"] != "running";
    admin::ask(world, Method::GET, &operation, Value::Null, has_ended).await.map(drop)
}

/// Cancels all waiting messages of `PURGED`.
pub async fn purge(world: &World) -> Result<(), String> {
    let _alone = PURGING.lock().await;
    fill(world, &[PURGED], WAITING).await?;
    let before = stats(world, PURGED).await?;
    // Cancellations may be lost with a primary. Then repeat them.
    loop {
        purge_once(world, PURGED).await?;
        let after = stats(world, PURGED).await?;
        if after["pending"] == 0 {
            let cancelled = |numbers: &Value| numbers["cancelled_total"].as_u64().unwrap_or(0);
            let count = cancelled(&after) - cancelled(&before);
            return match count >= WAITING {
                true => Ok(()),
                false => Err(format!("only {count} were cancelled: {after}")),
            };
        }
    }
}

/// Removes `REMOVED` with its backlog, creates it again, and lets it deliver.
pub async fn remove_and_use(world: &Arc<World>) -> Result<(), String> {
    let _alone = REMOVING.lock().await;
    fill(world, &[REMOVED], WAITING).await?;
    remove(world, REMOVED).await?;
    define(world, REMOVED, "none").await?;
    let (mut producer, before) = {
        let producer = Producer::new(REMOVED, &world.doors(), &world.ledger);
        (producer, world.journal.messages_of(REMOVED))
    };
    producer.patience = Duration::from_secs(120);
    for _ in 0..USED {
        let number = world.used.fetch_add(1, Ordering::SeqCst);
        producer.send(Item::new(&[REMOVED], None, REMOVED, number)).await;
    }
    eventually("a destination that was made again delivers", async || {
        match world.journal.messages_of(REMOVED) - before {
            USED.. => Ok(()),
            count => Err(format!("{count} of {USED}")),
        }
    })
    .await;
    remove(world, REMOVED).await?;
    define(world, REMOVED, "worker").await
}

/// Removes both destinations with their messages.
pub async fn clear(world: &World) -> Result<(), String> {
    for name in [PURGED, REMOVED] {
        remove(world, name).await?;
    }
    Ok(())
}
