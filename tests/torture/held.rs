//! An operator cancels and purges messages of a destination with delivery `pull` while a consumer holds some of them.

use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::Value;

use crate::{
    admin, bulk,
    consumers::{Consumer, delivery},
    inject::heals,
    support::pods::client,
    world::{LEASE_MS, PULLED, SUBJECTS, World},
};

const LEASE: Duration = Duration::from_millis(LEASE_MS);

/// Takes messages as a consumer, cancels the last of them, purges the destination, and accepts
/// the messages that it holds. Pending messages may leave without delivery.
pub async fn purge(world: &World) -> Result<Instant, String> {
    let name = SUBJECTS[PULLED].destination;
    let (client, mut held, mut pods) = (client(), Vec::new(), world.addresses.iter().cycle());
    let (mut consumer, mut taken) = (None, Instant::now());
    heals("a consumer gets messages", async || {
        let one = Consumer { world, client: &client, pod: pods.next()? };
        taken = Instant::now();
        held = one.take("operated").await?;
        consumer = Some(one);
        (!held.is_empty()).then_some(())
    })
    .await?;
    let arrived = last_sequence(world).await?;
    // Do not use the head in the statistics: with many lanes, it is only nearly the oldest.
    let pending = bulk::pending(world, name, usize::MAX).await?;
    // A repeated cancel finds no message. Neither does a cancel of a message that another
    // consumer has accepted meanwhile.
    let is_done = |status: u16, _: &Value| matches!(status, 200 | 202 | 404 | 409);
    let last = held.last().map(|message| &message["sequence"]);
    let cancel = format!("{}/messages/{}", bulk::path(name), last.ok_or("it got nothing")?);
    admin::ask(world, Method::DELETE, &cancel, Value::Null, is_done).await?;
    bulk::purge_once(world, name).await?;
    let since = arrived + 1..=last_sequence(world).await?;
    world.purged.lock().unwrap().extend(pending.into_iter().chain(since));
    // Like the other consumers, handle a message only while its lease certainly lasts.
    let consumer = consumer.ok_or("no consumer")?;
    for message in held.iter().take_while(|_| taken.elapsed() < LEASE) {
        world.journal.note(delivery(message).ok_or_else(|| format!("it got {message}"))?);
        if !consumer.accepts(message).await {
            break;
        }
    }
    Ok(Instant::now())
}

async fn last_sequence(world: &World) -> Result<u64, String> {
    let stats = bulk::stats(world, SUBJECTS[PULLED].destination).await?;
    stats["last_sequence"].as_u64().ok_or_else(|| format!("{stats}"))
}

/// Notes the messages that need not be delivered. All producers must have ended.
pub fn note(world: &World) {
    let name = SUBJECTS[PULLED].destination;
    let purged = world.purged.lock().unwrap();
    for promise in world.ledger.all().iter().filter(|promise| promise.destination == name) {
        if purged.contains(&promise.sequence) {
            world.ledger.destroy(name, promise.epoch.unwrap_or_default(), promise.sequence);
        }
    }
}
