//! Damages messages in Redis, as a disk or a person could, and resolves them as an operator.

use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use reqwest::Method;
use serde_json::{Value, json};
use store::Keys;
use tokio::time::sleep;

use crate::{
    admin,
    inject::{ask, fires, heals},
    load::KEYS,
    plan::{Planned, Role},
    support::{
        examiner::Order,
        pods::{Pod, client},
        wait::LOOK_EVERY,
    },
    world::{PARTITIONS, SUBJECTS, World},
};

/// Damages the newest ready message after `ARGV[1]`. `ARGV[2]` says how: delete its body, delete
/// its record, or overwrite the record with `ARGV[3]`. Returns its sequence, its lane's number and
/// its record.
const DAMAGE: &str = "
local best, lane = tonumber(ARGV[1]), false
for number = 3, #KEYS do
  for _, sequence in ipairs(redis.call('ZREVRANGE', KEYS[number], 0, 20)) do
    local is_meant = tonumber(sequence) > best and redis.call('HEXISTS', KEYS[1], sequence) == 1
    if is_meant and (ARGV[2] ~= 'body' or redis.call('HEXISTS', KEYS[2], sequence) == 1) then
      best, lane = tonumber(sequence), number - 3
    end
  end
end
if not lane then return false end
local field = string.format('%.0f', best)
local record = redis.call('HGET', KEYS[1], field)
if ARGV[2] == 'body' then redis.call('HDEL', KEYS[2], field)
elseif ARGV[2] == 'record' then redis.call('HDEL', KEYS[1], field)
else redis.call('HSET', KEYS[1], field, ARGV[3]) end
return {best, lane, record}";
/// Texts that overwrite a record: garbage, a header that is cut short, another version.
const GARBAGE: [&str; 3] = ["??", "19,999;abc", "94,1;x"];

/// The damaged message.
struct Victim {
    name: &'static str,
    key: Option<String>,
    sequence: u64,
}

/// The most messages to damage, one by one, if each is still delivered.
const TRIES: usize = 5;
/// Senders are stopped for no longer than this, which is shorter than their leases.
const FROZEN_MAX: Duration = Duration::from_millis(1200);

/// Damages one message. Checks that it is shown as damaged, and that it blocks only its own lane,
/// and makes it leave. Returns when it had left.
pub async fn inject(world: &World, planned: Planned) -> Result<Instant, String> {
    let name = SUBJECTS[planned.target].destination;
    let servers = world.redis.lock().await;
    let primary = servers.node(servers.primary_of(name).await);
    let mut redis = primary.connection().await;
    for _ in 0..TRIES {
        let victim = damage(world, &mut redis, planned).await?;
        let is_shown = is_shown(world, &victim).await;
        if is_shown != Ok(false) {
            let others = others_go_on(world, planned.target).await;
            // The message must leave in any case, otherwise it blocks its lane.
            leaves(world, planned.bytes, &victim).await?;
            return is_shown.and(others).map(|()| Instant::now());
        }
    }
    Err(format!("{TRIES} messages were sent although they were damaged"))
}

/// True when the message shows as damaged and halts its lane; false if a sender had already read it
/// and delivered it.
async fn is_shown(world: &World, victim: &Victim) -> Result<bool, String> {
    let path = |rest: &str| format!("/v1/destinations/{}/{rest}", victim.name);
    let message = path(&format!("messages/{}", victim.sequence));
    let (mut shown, mut halted, mut is_sent) = (Value::Null, Value::Null, false);
    let fired = fires("the message is shown as damaged, and halts its lane", async || {
        shown = look(world, &message).await?;
        is_sent = shown["state"] == "delivered";
        halted = look(world, &path("messages?state=halted&limit=1000")).await?;
        let mut items = halted["items"].as_array()?.iter();
        let is_listed = items.any(|item| item["sequence"] == victim.sequence && is_damaged(item));
        (is_sent || shown["state"] == "damaged" && is_listed).then_some(())
    })
    .await;
    fired.map_err(|problem| format!("{problem}; it is {shown}; halted are {halted}"))?;
    Ok(!is_sent)
}

/// True if a listed message is damaged. Lists do not read long bodies, but show why a lane halted.
fn is_damaged(item: &Value) -> bool {
    item["damaged"].is_string() || item["last_error"]["kind"] == "damaged"
}

async fn look(world: &World, path: &str) -> Option<Value> {
    for pod in &world.addresses {
        if let Some(shown) = admin::look(pod, path).await {
            return Some(shown);
        }
    }
    None
}

/// Stops the senders, so that no sender has read the message, and damages a message that becomes ready.
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
    let mut names = vec![keys.messages(), keys.bodies()];
    names.extend(lanes.iter().map(|lane| keys.ready(lane.as_deref())));
    let count = names.len().to_string();
    let garbage = GARBAGE[planned.bytes % GARBAGE.len()];
    let hash = keys.hash();
    let mut round = 0;
    let mut hit = None;
    fires("a message becomes ready while the senders are stopped", async || {
        if round > 0 {
            // Gives the senders time to renew their leases.
            sleep(FROZEN_MAX).await;
        }
        round += 1;
        let how = match planned.bytes % 4 {
            // Long bodies are rare. If none arrives, damage a record instead.
            0 if round < 3 => "body",
            0 | 1 => "record",
            _ => "garbage",
        };
        let (mut one, mut other) =
            (world.pod(Role::Sender, 0).lock().await, world.pod(Role::Sender, 1).lock().await);
        let stopped: Vec<&Pod> = [&mut one, &mut other]
            .into_iter()
            .filter_map(|pod| (!pod.has_ended()).then_some(&**pod))
            .collect();
        stopped.iter().for_each(|pod| pod.freeze());
        let begun = Instant::now();
        let last = ask::<String>(redis, &["HGET", &hash, "last"]).await.unwrap_or_default();
        while hit.is_none() && begun.elapsed() < FROZEN_MAX {
            let mut words = vec!["EVAL", DAMAGE, &count];
            words.extend(names.iter().map(String::as_str));
            words.extend([last.as_str(), how, garbage]);
            hit = ask::<Option<(u64, usize, Vec<u8>)>>(redis, &words).await.ok().flatten();
            sleep(LOOK_EVERY).await;
        }
        stopped.iter().for_each(|pod| pod.thaw());
        hit.as_ref().map(drop)
    })
    .await?;
    let (sequence, lane, record) = hit.ok_or("none was hit")?;
    let epoch = epoch_of(&record).ok_or_else(|| format!("no epoch in {record:?}"))?;
    // Only this message may be lost.
    world.ledger.destroy(name, epoch, sequence);
    Ok(Victim { name, key: lanes[lane].clone(), sequence })
}

/// The epoch in a record (docs/reference/redis-keys.md, Records): the first element of its header.
fn epoch_of(record: &[u8]) -> Option<u64> {
    let mut rest = record;
    loop {
        let (first, end) = (*rest.first()?, rest.iter().position(|byte| *byte == b';')?);
        rest = &rest[end + 1..];
        if first == b'3' {
            break;
        }
    }
    // A MessagePack array, whose first element is an unsigned number of 64 bits.
    let [0x90..=0x9f, 0xcf, number @ ..] = rest else { return None };
    Some(u64::from_be_bytes(number.get(..8)?.try_into().ok()?))
}

/// Checks that the other lanes of the destination, if there are any, continue.
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

/// Makes the message leave: by cancelling it, or by skipping the head.
async fn leaves(world: &World, way: usize, victim: &Victim) -> Result<(), String> {
    let Victim { name, key, sequence } = victim;
    let path = |rest: &str| format!("/v1/destinations/{name}/{rest}");
    if way.is_multiple_of(3) {
        let cancel = path(&format!("messages/{sequence}"));
        // If the answer to an earlier call was lost, the message is already gone.
        let is_done = |status: u16, _: &Value| matches!(status, 200 | 202 | 409);
        admin::ask(world, Method::DELETE, &cancel, Value::Null, is_done).await?;
    } else {
        let mut head = json!({"sequence": sequence});
        if let Some(key) = key {
            head["key"] = json!(key);
        }
        // If the answer to an earlier call was lost, the message is no longer the head.
        let is_done = |status: u16, _: &Value| matches!(status, 200 | 202 | 409);
        admin::ask(world, Method::POST, &path("skip-head"), head, is_done).await?;
    }
    let message = path(&format!("messages/{sequence}"));
    heals("the damaged message leaves", async || {
        let shown = look(world, &message).await;
        // Without an answer, ask again. For a message that is gone, the answer is 404.
        match shown {
            Some(shown) => (shown["state"] != "damaged").then_some(()),
            None => is_gone(world, &message).await,
        }
    })
    .await
}

async fn is_gone(world: &World, path: &str) -> Option<()> {
    let request = client().get(world.addresses[0].url(path));
    let answer = request.timeout(Duration::from_secs(2)).send().await.ok()?;
    (answer.status() == 404).then_some(())
}

/// The cancellation of a damaged message may be lost with a primary. The message is then back.
/// Cancels it again, as an operator would have to.
pub async fn cancel_again(world: &World, name: &str) {
    let path = format!("/v1/destinations/{name}/messages?state=halted&limit=1000");
    let Some(halted) = look(world, &path).await else { return };
    let destroyed = world.ledger.destroyed();
    for item in halted["items"].as_array().into_iter().flatten() {
        let sequence = item["sequence"].as_u64().unwrap_or_default();
        let is_ours = destroyed.iter().any(|(of, _, at)| of == name && *at == sequence);
        if is_ours && is_damaged(item) {
            let path = format!("/v1/destinations/{name}/messages/{sequence}");
            admin::tried(world, Method::DELETE, &path, Value::Null).await;
        }
    }
}

/// Discards the dead letters left by skipping.
pub async fn discard(world: &World, name: &str) -> Result<(), String> {
    let path = format!("/v1/destinations/{name}/dead-letters/discard");
    admin::done(world, Method::POST, &path, json!({"all": true})).await.map(drop)
}
