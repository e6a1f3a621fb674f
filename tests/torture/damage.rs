//! Messages are damaged in Redis, as a disk or a person does it, and an operator gets past them.

use std::time::Instant;

use redis::aio::MultiplexedConnection;
use reqwest::Method;
use reseq::store::Keys;
use serde_json::{Value, json};

use crate::{
    admin,
    load::KEYS,
    plan::Planned,
    strike::{ask, fires, heals},
    support::{examiner::Order, pods::client},
    world::{PARTITIONS, SUBJECTS, World},
};

/// The newest message after `ARGV[1]` that is ready, by its lane's number; with `ARGV[2]` one whose body
/// is apart, if there is one.
const CHOOSE: &str = "
local best, lane = tonumber(ARGV[1]), false
for number = 3, #KEYS do
  for _, sequence in ipairs(redis.call('ZREVRANGE', KEYS[number], 0, 20)) do
    local is_meant = tonumber(sequence) > best and redis.call('HEXISTS', KEYS[1], sequence) == 1
    if is_meant and (ARGV[2] == '' or redis.call('HEXISTS', KEYS[2], sequence) == 1) then
      best, lane = tonumber(sequence), number - 3
    end
  end
end
return lane and {best, lane}";
/// What is written over a record: nothing that can be read, a header that is cut, another version.
const GARBAGE: [&str; 3] = ["??", "19,999;abc", "94,1;x"];

/// A message that is to be damaged.
struct Victim {
    name: &'static str,
    key: Option<String>,
    sequence: u64,
}

/// Damages one message of a destination whose delivery is paused for it, so that nobody has it in hand;
/// sees that it is shown as damaged, and that it holds up its lane alone; and has it leave. Returns
/// when it had left.
pub async fn strike(world: &World, planned: Planned) -> Result<Instant, String> {
    let name = SUBJECTS[planned.target].destination;
    let servers = world.redis.lock().await;
    let primary = servers.node(servers.primary_of(name).await);
    let mut redis = primary.connection().await;
    let pause = json!({"what": "delivery"});
    let path = |rest: &str| format!("/v1/destinations/{name}/{rest}");
    admin::done(world, Method::POST, &path("pause"), pause.clone()).await?;
    let damaged = damage(world, &mut redis, planned).await;
    admin::done(world, Method::POST, &path("resume"), pause).await?;
    let victim = damaged?;
    let message = path(&format!("messages/{}", victim.sequence));
    fires("the message is shown as damaged, and halts its lane", async || {
        let shown = look(world, &message).await?;
        let halted = look(world, &path("messages?state=halted&limit=1000")).await?;
        let mut items = halted["items"].as_array()?.iter();
        let is_listed =
            items.any(|item| item["sequence"] == victim.sequence && item["damaged"].is_string());
        (shown["state"] == "damaged" && is_listed).then_some(())
    })
    .await?;
    others_go_on(world, planned.target).await?;
    leaves(world, planned.bytes, &victim).await?;
    Ok(Instant::now())
}

async fn look(world: &World, path: &str) -> Option<Value> {
    for pod in &world.addresses {
        let request = client().get(pod.url(path)).timeout(std::time::Duration::from_secs(2));
        let Ok(answer) = request.send().await else { continue };
        if answer.status() == 200 {
            return serde_json::from_str(&answer.text().await.ok()?).ok();
        }
    }
    None
}

async fn damage(
    world: &World,
    redis: &mut MultiplexedConnection,
    planned: Planned,
) -> Result<Victim, String> {
    let subject = &SUBJECTS[planned.target];
    let name = subject.destination;
    let keys = Keys::new("reseq", PARTITIONS).destination(&name.parse().map_err(|_| "a name")?);
    let lanes: Vec<Option<String>> = match subject.order {
        Order::Key => (0..KEYS).map(|number| Some(format!("key-{number}"))).collect(),
        Order::Destination | Order::None => vec![None],
    };
    let (messages, bodies) = (keys.messages(), keys.bodies());
    let ready: Vec<String> = lanes.iter().map(|lane| keys.ready(lane.as_deref())).collect();
    let last: String = ask(redis, &["HGET", &keys.hash(), "last"]).await?;
    let count = (2 + ready.len()).to_string();
    // Of long bodies there are few: where none comes, a record will do.
    let mut wants_body = planned.bytes.is_multiple_of(4);
    let begun = Instant::now();
    let mut chosen = None;
    fires("a message is ready that came after the pause", async || {
        wants_body &= begun.elapsed().as_secs() < 4;
        let body = if wants_body { "body" } else { "" };
        let mut words = vec!["EVAL", CHOOSE, &count, &messages, &bodies];
        words.extend(ready.iter().map(String::as_str));
        words.extend([last.as_str(), body]);
        chosen = ask::<Option<(u64, usize)>>(redis, &words).await.ok()?;
        chosen.map(drop)
    })
    .await?;
    let (sequence, lane) = chosen.ok_or("none was chosen")?;
    let shown = format!("/v1/destinations/{name}/messages/{sequence}");
    let shown = admin::done(world, Method::GET, &shown, Value::Null).await?;
    let epoch = shown["epoch"].as_u64().ok_or_else(|| format!("it has no epoch: {shown}"))?;
    // From now on it may be lost, and no other.
    world.ledger.destroy(name, epoch, sequence);
    let field = sequence.to_string();
    let garbage = GARBAGE[planned.bytes % GARBAGE.len()];
    let words = match planned.bytes % 4 {
        0 if wants_body => vec!["HDEL", &bodies, &field],
        0 | 1 => vec!["HDEL", &messages, &field],
        _ => vec!["HSET", &messages, &field, garbage],
    };
    ask::<i64>(redis, &words).await?;
    Ok(Victim { name, key: lanes[lane].clone(), sequence })
}

/// Where there are other lanes in the destination, they go on.
async fn others_go_on(world: &World, target: usize) -> Result<(), String> {
    let subject = &SUBJECTS[target];
    if subject.order == Order::Destination {
        return Ok(());
    }
    let name = subject.destination;
    let before = world.journal.messages_of(name);
    heals("the other lanes go on", async || {
        (world.journal.messages_of(name) > before).then_some(())
    })
    .await
}

/// Has it leave: by skipping the head, by cancelling it, or by a repair and then skipping.
async fn leaves(world: &World, way: usize, victim: &Victim) -> Result<(), String> {
    let Victim { name, key, sequence } = victim;
    let path = |rest: &str| format!("/v1/destinations/{name}/{rest}");
    if way % 3 == 0 {
        let cancel = path(&format!("messages/{sequence}"));
        // Cancelled by a call whose answer was lost, it is gone.
        let is_done = |status: u16, _: &Value| matches!(status, 200 | 202 | 409);
        admin::ask(world, Method::DELETE, &cancel, Value::Null, is_done).await?;
    } else {
        if way % 3 == 1 {
            let found = admin::done(world, Method::POST, &path("repair"), json!({})).await?;
            if found["found"] == 0 {
                return Err(format!("a repair of {name} found nothing: {found}"));
            }
        }
        let mut head = json!({"sequence": sequence});
        if let Some(key) = key {
            head["key"] = json!(key);
        }
        // It is not the head any more where a call whose answer was lost skipped it.
        let is_done = |status: u16, _: &Value| matches!(status, 200 | 202 | 409);
        admin::ask(world, Method::POST, &path("skip-head"), head, is_done).await?;
    }
    let message = path(&format!("messages/{sequence}"));
    heals("the damaged message leaves", async || {
        let shown = look(world, &message).await;
        // One that cannot be asked for is asked for again; one that is gone says so.
        match shown {
            Some(shown) => (shown["state"] != "damaged").then_some(()),
            None => is_gone(world, &message).await,
        }
    })
    .await
}

async fn is_gone(world: &World, path: &str) -> Option<()> {
    let request = client().get(world.addresses[0].url(path));
    let answer = request.timeout(std::time::Duration::from_secs(2)).send().await.ok()?;
    (answer.status() == 404).then_some(())
}

/// Cancels what was damaged on purpose and is there again, because a primary that was lost took its
/// cancellation with it. A person's word that is lost must be said again.
pub async fn cancel_again(world: &World, name: &str) {
    let path = format!("/v1/destinations/{name}/messages?state=halted&limit=1000");
    let Some(halted) = look(world, &path).await else { return };
    let destroyed = world.ledger.destroyed();
    for item in halted["items"].as_array().into_iter().flatten() {
        let sequence = item["sequence"].as_u64().unwrap_or_default();
        let is_ours = destroyed.iter().any(|(of, _, at)| of == name && *at == sequence);
        if is_ours && item["damaged"].is_string() {
            let path = format!("/v1/destinations/{name}/messages/{sequence}");
            let _ = admin::ask(world, Method::DELETE, &path, Value::Null, |_, _| true).await;
        }
    }
}

/// Discards the dead letters that skipping left.
pub async fn discard(world: &World, name: &str) -> Result<(), String> {
    let path = format!("/v1/destinations/{name}/dead-letters/discard");
    admin::done(world, Method::POST, &path, json!({"all": true})).await.map(drop)
}
