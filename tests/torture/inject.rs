//! Injects and undoes each fault.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use redis::aio::MultiplexedConnection;
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use tokio::time::sleep;

use crate::{
    bulk, damage, held, hogs, limits,
    link::{Link, Weather},
    plan::{Between, Clocks, Kind, Mood, PODS, Planned, Trouble, clock_step},
    refusal,
    support::{pods::client, preload::Clock, receiver::Fault, redis::TestRedis, wait::LOOK_EVERY},
    world::{FLOWING, SUBJECTS, World, ends, revive},
};

/// A fault without an effect within this time has not fired.
const FIRES_MAX: Duration = Duration::from_secs(20);
/// The longest time until Redis has recovered after a fault.
const HEALS_MAX: Duration = Duration::from_secs(60);
/// A reply that takes longer than this counts as missing.
pub const REPLY_MAX: Duration = Duration::from_secs(20);

/// A fault that fired.
#[derive(Debug, Clone, Copy)]
pub struct Struck {
    pub planned: Planned,
    pub begun: Instant,
    pub ended: Instant,
    /// The beginning of recovery: the death of the killed process, otherwise the end of the fault.
    pub from: Instant,
}

/// Strikes, waits as long as planned, and undoes the fault. An error says why the fault did not
/// fire, or the system did not recover.
pub async fn inject(world: &Arc<World>, planned: Planned) -> Result<Struck, String> {
    let begun = Instant::now();
    let from = match planned.kind {
        Kind::Kill(_) | Kind::FreezeShort(_) | Kind::FreezeLong(_) | Kind::Scale(_) => {
            pod(world, planned).await?
        }
        Kind::Link(between, trouble) => link(world, planned, between, trouble).await?,
        Kind::Receiver(mood) => receiver(world, planned, mood).await?,
        Kind::ReceiverKilled => receiver_killed(world, planned).await?,
        Kind::Damaged => damage::inject(world, planned).await?,
        Kind::ChannelsTaken => limits::channels(world, planned).await?,
        Kind::ConnectionsFull => limits::connections(world, planned).await?,
        Kind::DescriptorsGone => limits::descriptors(world, planned).await?,
        Kind::Hog(hog) => hogs::inject(world, planned, hog).await?,
        Kind::Purged => bulk::purge(world).await.map(|()| Instant::now())?,
        Kind::HeldPurged => held::purge(world).await?,
        Kind::Removed => bulk::remove_and_use(world).await.map(|()| Instant::now())?,
        Kind::Clock(clocks) => move_clocks(world, planned, clocks).await?,
        Kind::WorkerForgets => counted_down(&world.forgetting, "a worker has a lease").await?,
        Kind::ConsumerKilled => counted_down(&world.killing, "a consumer has a message").await?,
        _ => redis(world, planned).await?,
    };
    Ok(Struck { planned, begun, ended: Instant::now(), from })
}

/// Requests one more event, and waits until it has happened.
async fn counted_down(wanted: &AtomicUsize, what: &str) -> Result<Instant, String> {
    let before = Instant::now();
    wanted.fetch_add(1, Ordering::SeqCst);
    fires(what, async || (wanted.load(Ordering::SeqCst) == 0).then_some(())).await?;
    Ok(before)
}

/// Waits for evidence that a fault has had an effect.
pub async fn fires(what: &str, look: impl AsyncFnMut() -> Option<()>) -> Result<(), String> {
    until(FIRES_MAX, what, look).await
}

/// Waits for a recovery.
pub async fn heals(what: &str, look: impl AsyncFnMut() -> Option<()>) -> Result<(), String> {
    until(HEALS_MAX, what, look).await
}

async fn until(
    max: Duration,
    what: &str,
    mut look: impl AsyncFnMut() -> Option<()>,
) -> Result<(), String> {
    let begun = Instant::now();
    while look().await.is_none() {
        if begun.elapsed() > max {
            return Err(format!("not within {max:?}: {what}"));
        }
        sleep(LOOK_EVERY).await;
    }
    Ok(())
}

async fn pod(world: &World, planned: Planned) -> Result<Instant, String> {
    let role = match planned.kind {
        Kind::Kill(role) | Kind::FreezeShort(role) | Kind::FreezeLong(role) | Kind::Scale(role) => {
            role
        }
        other => return Err(format!("{other} is not about a pod")),
    };
    let mut pod = world.pod(role, planned.target).lock().await;
    if pod.has_ended() {
        // The pod had ended before the fault. Pods must not end by themselves.
        revive(&mut pod).await?;
        return Err(format!("{} had ended by itself", pod.name));
    }
    match planned.kind {
        Kind::Kill(_) => {
            pod.kill();
            let killed = Instant::now();
            sleep(planned.lasts).await;
            revive(&mut pod).await?;
            Ok(killed)
        }
        Kind::Scale(_) => {
            let begun = Instant::now();
            pod.terminate();
            ends(&mut pod).await?;
            sleep(planned.lasts).await;
            revive(&mut pod).await?;
            Ok(begun)
        }
        _ => {
            pod.freeze();
            sleep(planned.lasts).await;
            pod.thaw();
            Ok(Instant::now())
        }
    }
}

async fn link(
    world: &World,
    planned: Planned,
    between: Between,
    trouble: Trouble,
) -> Result<Instant, String> {
    let links: Vec<&Link> = match between {
        Between::Redis => world.redis_links[planned.target].iter().collect(),
        Between::Receiver => vec![&world.receiver_links[planned.target]],
        Between::Ingest => world.ingest_links[planned.target].iter().collect(),
    };
    let struck = || links.iter().map(|link| link.struck()).sum::<usize>();
    let weather = match trouble {
        Trouble::Cut => Weather::Cut(planned.bytes),
        Trouble::HalfOpen => Weather::HalfOpen,
        Trouble::Delayed => Weather::Delayed(planned.delay),
    };
    let before = struck();
    links.iter().for_each(|link| link.set(weather));
    sleep(planned.lasts).await;
    let fired = fires("bytes on the connection", async || (struck() > before).then_some(())).await;
    links.iter().for_each(|link| link.set(Weather::Fair));
    fired.map(|()| Instant::now())
}

async fn receiver(world: &World, planned: Planned, mood: Mood) -> Result<Instant, String> {
    let inbox = &world.inboxes[planned.target];
    let before = inbox.struck();
    match mood {
        Mood::Slow => inbox.slow_down(planned.delay.as_millis() as u64),
        Mood::Failing => inbox.always(Some(Fault::Refused)),
        Mood::AnswersThenCuts => inbox.always(Some(Fault::CutAnswered)),
        Mood::AcceptsThenCuts => inbox.always(Some(Fault::CutAccepted)),
    }
    sleep(planned.lasts).await;
    let fired = fires("a delivery", async || (inbox.struck() > before).then_some(())).await;
    inbox.slow_down(0);
    inbox.always(None);
    fired.map(|()| Instant::now())
}

/// Kills the process and starts it again. The fault has fired when the process accepts a message afterwards.
async fn receiver_killed(world: &World, planned: Planned) -> Result<Instant, String> {
    let name = SUBJECTS[FLOWING - 1].destination;
    world.receiver_process.kill();
    let killed = Instant::now();
    sleep(planned.lasts).await;
    world.receiver_process.restart().await;
    world.receiver_process.is_read().await;
    let before = world.journal.messages_of(name);
    heals("the receiver's process accepts again", async || {
        (world.journal.messages_of(name) > before).then_some(())
    })
    .await?;
    Ok(killed)
}

async fn redis(world: &World, planned: Planned) -> Result<Instant, String> {
    let servers = world.redis.lock().await;
    let destination = SUBJECTS[planned.target].destination;
    match planned.kind {
        Kind::PrimaryKilled => return Ok(servers.kill_primary(destination, planned.lasts).await),
        Kind::PrimaryFrozen => return Ok(servers.freeze_primary(destination, planned.lasts).await),
        Kind::Failover => return Ok(servers.fail_over(destination).await),
        Kind::SlotsMoved => return Ok(servers.move_slots(destination).await),
        _ => {}
    }
    let server = servers.node(servers.primary_of(destination).await);
    match planned.kind {
        Kind::RedisKilled => {
            server.kill();
            let killed = Instant::now();
            sleep(planned.lasts).await;
            server.restart().await;
            Ok(killed)
        }
        Kind::RedisFrozen => {
            server.freeze();
            sleep(planned.lasts).await;
            server.thaw();
            Ok(Instant::now())
        }
        Kind::ScriptFlush => {
            let mut connection = server.connection().await;
            ask::<()>(&mut connection, &["SCRIPT", "FLUSH"]).await?;
            Ok(Instant::now())
        }
        Kind::MemoryFull => memory_full(world, server, planned.lasts).await,
        Kind::MemoryLowered => refusal::memory_lowered(world, server, destination).await,
        Kind::WritesRefused => refusal::writes_refused(world, server, planned.lasts).await,
        Kind::ScriptBusy => refusal::script_busy(world, server).await,
        Kind::DiskFull => disk_full(server, planned.lasts).await,
        other => Err(format!("{other} is not about Redis")),
    }
}

/// Steps and drifts can overlap with all other faults of Redis.
async fn move_clocks(world: &World, planned: Planned, how: Clocks) -> Result<Instant, String> {
    let one = planned.target % world.clocks.len();
    let struck = match how {
        Clocks::OneForward | Clocks::OneBack | Clocks::OneDrifts => &world.clocks[one..=one],
        Clocks::AllForward | Clocks::AllBack | Clocks::AllDrift => &world.clocks[..],
    };
    let before: Vec<i64> = struck.iter().map(Clock::ahead).collect();
    match how {
        Clocks::OneDrifts | Clocks::AllDrift => {
            for (at, clock) in struck.iter().enumerate() {
                // Between 2 and 20 % faster, or slower.
                let parts = 20_000 + 90 * planned.bytes as i64 / (at as i64 + 1);
                let is_faster = (planned.bytes + at).is_multiple_of(2);
                clock.drift(if is_faster { parts } else { -parts });
            }
            sleep(planned.lasts).await;
            struck.iter().for_each(|clock| clock.drift(0));
        }
        _ => {
            let is_forward = matches!(how, Clocks::OneForward | Clocks::AllForward);
            struck.iter().for_each(|clock| clock.step(clock_step(&planned.bytes), is_forward));
        }
    }
    match struck.iter().zip(before).all(|(clock, before)| clock.ahead() != before) {
        true => Ok(Instant::now()),
        false => Err("the clock has not moved".to_owned()),
    }
}

fn process(server: &TestRedis) -> Result<Pid, String> {
    let id = i32::try_from(server.pid()).map_err(|error| error.to_string())?;
    Pid::from_raw(id).ok_or_else(|| "no process".to_owned())
}

pub async fn ask<T: redis::FromRedisValue>(
    connection: &mut MultiplexedConnection,
    words: &[&str],
) -> Result<T, String> {
    let mut command = redis::cmd(words[0]);
    command.arg(&words[1..]);
    let asked: std::pin::Pin<Box<dyn Future<Output = redis::RedisResult<T>> + Send>> =
        Box::pin(command.query_async(connection));
    match tokio::time::timeout(REPLY_MAX, asked).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(format!("{words:?}: {error}")),
        Err(_) => Err(format!("{words:?}: no answer")),
    }
}

/// A field of INFO.
pub async fn info(
    connection: &mut MultiplexedConnection,
    section: &str,
    field: &str,
) -> Result<String, String> {
    let text: String = ask(connection, &["INFO", section]).await?;
    let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    Ok(line.unwrap_or_default().to_owned())
}

async fn memory_full(
    world: &World,
    server: &TestRedis,
    lasts: Duration,
) -> Result<Instant, String> {
    let mut connection = server.connection().await;
    let before = refused(world, &mut connection).await;
    let used = info(&mut connection, "memory", "used_memory").await?;
    ask::<()>(&mut connection, &["CONFIG", "SET", "maxmemory", &used]).await?;
    sleep(lasts).await;
    let fired = fires("an arrival that was refused for want of memory", async || {
        (refused(world, &mut connection).await != before).then_some(())
    })
    .await;
    ask::<()>(&mut connection, &["CONFIG", "SET", "maxmemory", "0"]).await?;
    fired.map(|()| Instant::now())
}

/// The number of refusals for lack of memory: by Redis, or earlier by ingest, which sees how full Redis is.
pub async fn refused(
    world: &World,
    connection: &mut MultiplexedConnection,
) -> (String, Vec<String>) {
    let by_redis = info(connection, "errorstats", "errorstat_OOM").await.unwrap_or_default();
    let mut by_ingest = Vec::new();
    for pod in &world.addresses[..PODS] {
        let asked = client().get(pod.url("/metrics")).timeout(REPLY_MAX).send().await;
        let Ok(text) = async { asked?.text().await }.await else { continue };
        let is_of_memory = |line: &&str| line.contains("memory_high");
        by_ingest.extend(text.lines().filter(is_of_memory).map(str::to_owned));
    }
    (by_redis, by_ingest)
}

async fn disk_full(server: &TestRedis, lasts: Duration) -> Result<Instant, String> {
    let mut connection = server.connection().await;
    let id = process(server)?;
    let limit = |bytes: Option<u64>| {
        let limit = Rlimit { current: bytes, maximum: None };
        prlimit(Some(id), Resource::Fsize, limit).map(drop).map_err(|error| error.to_string())
    };
    let status = async |connection: &mut MultiplexedConnection| {
        info(connection, "persistence", "aof_last_write_status").await.unwrap_or_default()
    };
    let is_refused = async |connection: &mut MultiplexedConnection| {
        // With `appendfsync always` Redis ends when it cannot write.
        if !server.is_running() {
            return Some(());
        }
        // Redis may have rewritten the file meanwhile, so that it is shorter than the limit.
        let size = longest_file(server);
        limit(Some(size)).ok()?;
        (status(connection).await == "err").then_some(())
    };
    let fired =
        fires("a write that found no room", async || is_refused(&mut connection).await).await;
    sleep(lasts).await;
    if !server.is_running() {
        // A new process has no such limit.
        server.restart().await;
        return fired.map(|()| Instant::now());
    }
    limit(None)?;
    heals("Redis writes its append-only file again", async || {
        (status(&mut connection).await == "ok").then_some(())
    })
    .await?;
    fired.map(|()| Instant::now())
}

/// The size of the append-only file that Redis is writing.
fn longest_file(server: &TestRedis) -> u64 {
    let dir = server.dir().join("appendonlydir");
    let files = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let increments = files.filter(|file| file.file_name().to_string_lossy().ends_with(".incr.aof"));
    increments.filter_map(|file| Some(file.metadata().ok()?.len())).max().unwrap_or_default()
}
