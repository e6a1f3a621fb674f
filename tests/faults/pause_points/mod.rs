//! Tests every pause point with every action, and every pair of points: one pod is held at the first
//! point while another passes the second. Afterwards all promised messages have arrived, in order.
#![cfg(feature = "pause-points")]

use std::{
    collections::{BTreeSet, VecDeque},
    fmt,
    sync::{Arc, Mutex},
    time::Instant,
};

use faults::pause::Point;
use support::control::{Caught, Visit};
use world::{Stream, World};

use crate::support;
mod world;

/// The number of worlds that run at the same time. Each runs its cases one by one.
const WORLDS: usize = 6;
/// How often the owner renews its lease while a case stalls: longer than any lease here.
const RENEWALS: usize = 6;

/// The action on the pod that reaches the point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    /// Kills the pod with SIGKILL.
    Abort,
    /// The whole process stops until others have taken over its work.
    Hold,
    /// Only the task at the point waits, longer than any lease. The rest of the process continues.
    Stall,
    /// Its connections to Redis are cut.
    Cut,
    /// All connections to the receiver are cut.
    CutReceiver,
    /// The whole process stops until another pod has passed this point.
    HoldWhile(Point),
}

/// One case. If the point needs a pod that is asked to end, `role` is the role of that pod.
#[derive(Debug, Clone, Copy)]
struct Case {
    point: Point,
    role: &'static str,
    action: Action,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Case { point, role, action } = self;
        match action {
            Action::HoldWhile(past) => {
                write!(f, "held at {} ({role}) while another passes {}", point.name(), past.name())
            }
            action => write!(f, "{action:?} at {} ({role})", point.name()),
        }
    }
}

/// Prints which case failed, and why.
struct Named(Case);

/// The message of the last panic.
static WHY: Mutex<String> = Mutex::new(String::new());

impl Drop for Named {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- failed: {}: {}", self.0, WHY.lock().unwrap());
        }
    }
}

/// Keeps the message of each panic, in addition to printing it.
fn keep_why() {
    let say = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |why| {
        *WHY.lock().unwrap() = why.to_string();
        say(why);
    }));
}

/// The role whose pods reach a point.
fn role_of(point: Point) -> &'static str {
    match point.name().split('.').next() {
        Some("ingest") => "ingest",
        Some("processor") => "processor",
        _ => "sender",
    }
}

/// Each point with each action, and the point of draining in each role.
fn single() -> Vec<Case> {
    let mut cases = Vec::new();
    for &point in Point::ALL {
        let mut actions = vec![Action::Abort, Action::Hold, Action::Stall, Action::Cut];
        if point.name().starts_with("sender.") {
            actions.push(Action::CutReceiver);
        }
        let roles: &[&str] = match point {
            Point::ShutdownDraining => &["ingest", "processor", "sender"],
            point => &[role_of(point)],
        };
        for (&role, &action) in roles.iter().flat_map(|role| actions.iter().map(move |a| (role, a)))
        {
            cases.push(Case { point, role, action });
        }
    }
    cases
}

/// Each ordered pair of points, including a point with itself.
fn pairs() -> Vec<Case> {
    let all = Point::ALL.iter();
    let pairs = all.flat_map(|&point| Point::ALL.iter().map(move |&past| (point, past)));
    let case =
        |(point, past)| Case { point, role: role_of(point), action: Action::HoldWhile(past) };
    pairs.map(case).collect()
}

async fn run(world: &mut World, case: Case) {
    let _named = Named(case);
    world
        .streaming(async |world, stream| {
            let caught = catch(world, case).await;
            let process = caught.visit.process;
            let at = world.at(process).expect("pods of this world alone speak to its control");
            match case.action {
                Action::Abort => {
                    world.pods[at].pod.kill();
                    caught.go();
                    world.pods[at].is_ending = false;
                }
                Action::Cut => {
                    world.pods[at].way.cut();
                    caught.go();
                }
                Action::CutReceiver => {
                    world.to_receiver.cut();
                    caught.go();
                }
                Action::Stall => {
                    let since = world.control.count();
                    let renews = |visit: &Visit| visit.point == "owner.renewing";
                    world.control.sees("owners renew", since, RENEWALS, renews).await;
                    caught.go();
                }
                Action::Hold | Action::HoldWhile(_) => {
                    world.pods[at].pod.freeze();
                    goes_on(world, stream, case, &caught).await;
                    caught.go();
                    world.pods[at].pod.thaw();
                }
            }
            world.runs_again().await;
        })
        .await;
    world.settles().await;
}

/// Makes a pod reach the case's point, and holds it there.
async fn catch(world: &mut World, case: Case) -> Caught {
    let name = case.point.name();
    match case.point {
        Point::ShutdownDraining => {
            let victim = match case.role {
                "sender" => world.owner().await,
                role => world.pods.iter().position(|one| one.role == role).unwrap(),
            };
            let process = world.pods[victim].pod.id();
            world.control.catch_of(name, move |one| one == process);
            world.pods[victim].pod.terminate();
            world.pods[victim].is_ending = true;
        }
        Point::OwnerTaken => {
            let victim = world.owner().await;
            // Do not catch the pod itself: it may have to reacquire the partition that it has just lost.
            let process = world.pods[victim].pod.id();
            world.control.catch_of(name, move |one| one != process);
            world.pods[victim].pod.terminate();
            world.pods[victim].is_ending = true;
            world.runs_again().await;
        }
        _ => world.control.catch(name),
    }
    world.control.caught().await
}

/// While the caught pod is stopped, the other pods take over its work, or one of them passes a point.
async fn goes_on(world: &mut World, stream: &Stream<'_>, case: Case, caught: &Caught) {
    let Action::HoldWhile(past) = case.action else {
        return stream.catches_up().await;
    };
    let held = caught.visit.process;
    let role = world.pods[world.at(held).unwrap()].role;
    let since = match past {
        // Another pod may have acquired the partition before the process stopped: the held pod
        // may have resigned it, or its lease may have expired on a slow machine. At `owner.taken`
        // no task renews the lease.
        Point::OwnerTaken if role == "sender" => world
            .control
            .last(caught.since, |visit| visit.point == past.name() && visit.process == held),
        _ if case.point == Point::ShutdownDraining => caught.since,
        _ => world.control.count(),
    };
    let victim = match past {
        Point::ShutdownDraining => world.at(world.processes(role, held)[0]),
        // If a sender is held, its own lease expires.
        Point::OwnerTaken if role != "sender" => Some(world.owner().await),
        _ => None,
    };
    if let Some(victim) = victim {
        world.pods[victim].pod.terminate();
        world.pods[victim].is_ending = true;
    }
    let passes = |visit: &Visit| visit.point == past.name() && visit.process != held;
    world.control.sees(&format!("another passes {}", past.name()), since, 1, passes).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pod_held_ended_or_cut_off_anywhere_keeps_all_in_order() {
    let _one_at_a_time = crate::ALL_PROCESSORS.lock().await;
    tokio::task::LocalSet::new().run_until(all_cases()).await;
}

async fn all_cases() {
    keep_why();
    let begun = Instant::now();
    let (single, pairs) = (single(), pairs());
    let (points, actions, both) = (Point::ALL.len(), single.len(), pairs.len());
    assert_eq!(both, points * points);
    let only = std::env::var("RESEQ_CASES").ok();
    let chosen = |case: &Case| only.as_ref().is_none_or(|only| case.to_string().contains(only));
    let cases: Vec<Case> = single.into_iter().chain(pairs).filter(chosen).collect();
    let planned = cases.len();
    let rounds = std::env::var("RESEQ_ROUNDS").map_or(1, |rounds| rounds.parse().unwrap());
    let queue: VecDeque<Case> = (0..rounds).flat_map(|_| cases.clone()).collect();
    let queue = Arc::new(Mutex::new(queue));
    let done = Arc::new(Mutex::new(BTreeSet::new()));
    let worlds = (0..WORLDS.min(queue.lock().unwrap().len())).map(|number| {
        let (queue, done) = (queue.clone(), done.clone());
        tokio::task::spawn_local(async move {
            let mut world = World::start(number as u64).await;
            let next = || queue.lock().unwrap().pop_front();
            while let Some(case) = next() {
                let begun = Instant::now();
                run(&mut world, case).await;
                if std::env::var("RESEQ_TIMES").is_ok() {
                    println!("{:6} ms {case}", begun.elapsed().as_millis());
                }
                done.lock().unwrap().insert(case.to_string());
            }
            world.ledger.count()
        })
    });
    let mut messages = 0;
    for world in worlds.collect::<Vec<_>>() {
        messages += world.await.expect("no case fails");
    }
    assert_eq!(done.lock().unwrap().len(), planned, "every case has run");
    println!(
        "{points} points: {actions} cases of one pod held, ended or cut off, {both} of a pair; {planned} \
         were run in {} s, over {messages} promised deliveries",
        begun.elapsed().as_secs()
    );
}
