//! One run: warm-up, storm, heal, drain, and then the verification.

use std::{
    collections::BTreeSet,
    path::PathBuf,
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use serde_json::Value;
use tokio::{
    task::{JoinHandle, LocalSet, spawn_local},
    time::sleep,
};

use crate::{
    bulk, consumers, damage,
    encryption::Encryption,
    held,
    inject::{Struck, inject},
    level::Level,
    load,
    measure::recoveries,
    plan::{Kind, Planned, Topology, plan_of},
    report::Report,
    support::{
        checker::forgotten,
        examiner::{Anomaly, Held, examine},
        pods::client,
        receiver::Fault,
        wait::eventually,
    },
    world::{DRAINED, FLOWING, SUBJECTS, World, revive},
};

/// Each destination delivers this many messages before the storm begins.
const WARM: usize = 20;
/// Producers continue for this long after the storm, so that the recovery from the last faults shows.
const AFTER: Duration = Duration::from_secs(3);
/// Time limit until all messages are delivered.
const DRAIN_MAX: Duration = Duration::from_secs(120);
/// The time between two lines of progress.
const TOLD_EVERY: Duration = Duration::from_secs(5);
/// The most pending messages of one destination to fetch.
const HELD_MAX: usize = 100_000;

/// A storm to run.
#[derive(Debug, Clone)]
pub struct Storm {
    pub topology: Topology,
    pub level: Level,
    pub seed: u64,
    pub lasts: Duration,
    /// The kinds of its faults, and their maximum number.
    pub kinds: Vec<Kind>,
    pub faults_max: usize,
    /// The most file descriptors of a pod.
    pub descriptors: u32,
    /// All connections of the pods are over TLS, and all certificates change in the middle.
    pub is_tls: bool,
}

impl Storm {
    /// The prefix of its file names.
    pub fn name(&self) -> String {
        let Storm { topology, seed, .. } = self;
        let is_usual = self.kinds.contains(&Kind::Purged);
        let of = if self.is_tls {
            "-tls"
        } else if is_usual {
            ""
        } else {
            "-part"
        };
        format!("{seed}-{topology}{of}")
    }
}

/// Runs a storm. Returns the report.
pub async fn run(storm: Storm) -> Report {
    // The faults run on this thread: their futures need not be `Send`.
    LocalSet::new().run_until(run_here(storm)).await
}

async fn run_here(run: Storm) -> Report {
    let Storm { topology, level, seed, lasts: storm, is_tls, .. } = run;
    let mut planned = plan_of(run.kinds.clone(), seed, topology, storm, FLOWING);
    planned.truncate(run.faults_max);
    let (seconds, count) = (storm.as_secs(), planned.len());
    let over_tls = if is_tls { ", over TLS" } else { "" };
    println!("torture: {topology}, {level}{over_tls}, seed {seed}, {seconds} s, {count} faults");
    planned.iter().for_each(|fault| println!("  {fault}"));
    let file = folder().join(format!("{}.journal", run.name()));
    let encryption = is_tls.then(Encryption::new);
    let world = Arc::new(World::start(&run, encryption, &file).await);
    let mut report = Report::new(topology, level, seed, storm, &planned);

    let filling = Instant::now();
    let needs_backlogs = |kind: &Kind| matches!(kind, Kind::Purged | Kind::Removed);
    if run.kinds.iter().any(needs_backlogs) {
        report.problems.extend(bulk::fill_ahead(&world).await.err());
    }
    println!("  backlogs filled in {:.1} s", filling.elapsed().as_secs_f64());
    let producers = load::producers(&world);
    let workers = load::workers(&world);
    let consumers = consumers::consumers(&world);
    warm_up(&world).await;
    lose_an_answer(&world).await;
    let (begun, promised) = (Instant::now(), world.ledger.count());
    report.faults = storm_of(&world, &planned, &mut report.problems).await;
    report.storm = begun.elapsed();
    report.promised_in_storm = world.ledger.count() - promised;
    heal(&world, &mut report.problems).await;
    sleep(AFTER).await;
    world.is_over.store(true, Ordering::SeqCst);
    for (name, producer) in producers {
        if let Some(said) = panicked(producer).await {
            report.problems.push(format!("producer {name}: {said}"));
        }
    }
    held::note(&world);
    let begun = Instant::now();
    let held = drain(&world, &mut report).await;
    report.drain = begun.elapsed();
    workers.iter().chain(&consumers).for_each(JoinHandle::abort);

    world.receiver_process.is_read().await;
    let losses = level.losses();
    let (found, anomalies) = examine(&world.ledger, &world.journal, &held, &SUBJECTS, losses);
    (report.found, report.anomalies) = (found, anomalies);
    if held.is_empty() {
        nothing_left(&world, &mut report.problems).await;
    }
    for problem in &report.problems {
        report.anomalies.note(Anomaly::Stuck, || problem.clone());
    }
    report.recoveries = recoveries(&world.ledger, &world.journal, &report.faults);
    report.count(&world.ledger, &world.journal);
    if !report.is_sound() {
        keep_logs(&world, &run.name()).await;
    }
    report
}

/// The folder for the files of a run.
pub fn folder() -> PathBuf {
    // Beside cargo's folder for tests, in cargo's build folder.
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).with_file_name("torture");
    std::fs::create_dir_all(&folder).expect("a folder can be made where cargo builds");
    folder
}

async fn warm_up(world: &World) {
    for subject in &SUBJECTS[..DRAINED] {
        let name = subject.destination;
        eventually(&format!("{name} is warm"), async || match world.journal.messages_of(name) {
            count if count >= WARM => Ok(()),
            count => Err(format!("{count} messages")),
        })
        .await;
    }
}

/// A receiver accepts a message without an answer, so that a repeat must follow, even if no fault
/// of a short storm loses an answer.
async fn lose_an_answer(world: &World) {
    let inbox = &world.inboxes[0];
    let before = inbox.struck();
    inbox.always(Some(Fault::CutAccepted));
    eventually("an answer is lost", async || match inbox.struck() {
        count if count > before => Ok(()),
        count => Err(format!("{count} exchanges failed, as before")),
    })
    .await;
    inbox.always(None);
}

/// Injects each fault at its time. Returns when the last fault is over.
async fn storm_of(
    world: &Arc<World>,
    planned: &[Planned],
    problems: &mut Vec<String>,
) -> Vec<Struck> {
    let begun = Instant::now();
    let strikes: Vec<_> = planned
        .iter()
        .map(|fault| {
            let (world, fault) = (world.clone(), *fault);
            spawn_local(async move {
                sleep(fault.at.saturating_sub(begun.elapsed())).await;
                inject(&world, fault).await
            })
        })
        .collect();
    let telling = tokio::spawn(tell(world.clone(), begun));
    let middle = planned.last().map_or(Duration::ZERO, |fault| fault.at / 2);
    let rotating = spawn_local({
        let world = world.clone();
        async move {
            sleep(middle).await;
            world.rotate_certificates().await;
        }
    });
    let mut struck = Vec::new();
    for (fault, outcome) in planned.iter().zip(strikes) {
        match outcome.await {
            Ok(Ok(one)) => {
                println!("  took {:6.1} s: {fault}", (one.ended - one.begun).as_secs_f64());
                struck.push(one);
            }
            Ok(Err(problem)) => {
                println!("  failed: {fault}: {problem}");
                problems.push(format!("{fault}: {problem}"));
            }
            Err(error) => problems.push(format!("{fault}: {}", said(error))),
        }
    }
    telling.abort();
    if let Some(said) = panicked(rotating).await {
        problems.push(format!("the change of certificates: {said}"));
    }
    struck
}

async fn tell(world: Arc<World>, begun: Instant) {
    loop {
        sleep(TOLD_EVERY).await;
        let (acknowledged, delivered) = (world.ledger.count(), world.journal.messages());
        let seconds = begun.elapsed().as_secs();
        println!("  {seconds:5} s  {acknowledged} acknowledged, {delivered} delivered");
    }
}

/// Called after every fault has been undone. Starts the pods that do not run.
async fn heal(world: &World, problems: &mut Vec<String>) {
    for pod in &world.pods {
        let mut pod = pod.lock().await;
        if pod.has_ended() {
            problems.push(format!("{} had ended by itself", pod.name));
        }
        if let Err(problem) = revive(&mut pod).await {
            problems.push(problem);
        }
    }
}

/// Waits until no message is pending. Returns the messages that are still pending at the deadline.
async fn drain(world: &World, report: &mut Report) -> Held {
    let (begun, problems) = (Instant::now(), &mut report.problems);
    let mut held = Held::new();
    problems.extend(bulk::clear(world).await.err());
    for subject in &SUBJECTS[..DRAINED] {
        let name = subject.destination;
        loop {
            let numbers = ask(world, &format!("/v1/destinations/{name}/stats")).await;
            if numbers.as_ref().is_ok_and(|numbers| numbers["pending"] == 0) {
                let numbers = numbers.unwrap_or_default();
                report.dead += numbers["dead_letters"].as_u64().unwrap_or_default();
                let of = |field: &str| numbers[field].as_u64().unwrap_or_default();
                let gone = of("dead_lettered_total") + of("cancelled_total");
                let destroyed = world.ledger.destroyed();
                let destroyed = destroyed.iter().filter(|(of, ..)| of == name).count() as u64;
                if gone > destroyed || of("delivered_total") + gone != of("last_sequence") {
                    problems.push(format!("{name}: not all was delivered: {numbers}"));
                }
                if of("dead_letters") > 0 {
                    problems.extend(damage::discard(world, name).await.err());
                }
                break;
            }
            if begun.elapsed() > DRAIN_MAX {
                problems.push(format!("{name} is not drained: {numbers:?}"));
                let pending = bulk::pending(world, name, HELD_MAX).await.unwrap_or_default();
                held.extend(pending.into_iter().map(|sequence| (name.to_owned(), sequence)));
                break;
            }
            damage::cancel_again(world, name).await;
            sleep(Duration::from_millis(100)).await;
        }
    }
    held
}

async fn ask(world: &World, path: &str) -> Result<Value, String> {
    let request = client().get(world.addresses[0].url(path)).timeout(Duration::from_secs(20));
    let answer = request.send().await.map_err(|error| error.to_string())?;
    let text = answer.text().await.map_err(|error| error.to_string())?;
    serde_json::from_str(&text).map_err(|_| text)
}

/// Checks that Redis holds no more than before the first message.
async fn nothing_left(world: &Arc<World>, problems: &mut Vec<String>) {
    let servers = world.redis.lock().await;
    for primary in servers.primaries().await {
        let mut connection = primary.connection().await;
        let looking = spawn_local(async move { forgotten(&mut connection).await });
        if let Some(said) = panicked(looking).await {
            problems.push(said);
        }
    }
}

/// The message of a task that panicked.
async fn panicked(task: JoinHandle<()>) -> Option<String> {
    task.await.err().map(said)
}

fn said(error: tokio::task::JoinError) -> String {
    let Ok(panic) = error.try_into_panic() else { return "it was given up".to_owned() };
    match panic.downcast::<String>() {
        Ok(said) => *said,
        Err(other) => other.downcast_ref::<&str>().copied().unwrap_or("it panicked").to_owned(),
    }
}

async fn keep_logs(world: &World, name: &str) {
    let mut kept = BTreeSet::new();
    for pod in &world.pods {
        let pod = pod.lock().await;
        let file = folder().join(format!("{name}-{}.log", pod.name));
        if std::fs::write(&file, pod.log()).is_ok() {
            kept.insert(file.display().to_string());
        }
    }
    println!("the logs of the pods are kept: {kept:#?}");
}
