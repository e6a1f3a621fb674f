//! Runs real processes under a plan of faults drawn from a seed, with receivers that journal before they
//! answer, and verifies the result. `make torture SEED=… MINUTES=… TOPOLOGY=…` runs a long one.

use reseq_testing::support;

use std::time::Duration;

use level::Level;
use plan::{Between, Kind, Topology, plan};
use report::Report;
use world::FLOWING;

mod admin;
mod bulk;
mod consumers;
mod damage;
mod encryption;
mod held;
mod hogs;
mod inject;
mod kind;
mod level;
mod limits;
mod link;
mod load;
mod measure;
mod names;
mod plan;
mod process;
mod refusal;
mod report;
mod run;
mod servers;
mod shares;
mod world;

/// The default length of a storm.
const STORM: Duration = Duration::from_secs(40);
/// The default length of a storm over TLS. Certificates change in its middle.
const STORM_OVER_TLS: Duration = Duration::from_secs(20);
/// A seed whose short plans have the faults that the test below requires.
const SEED: u64 = 34;

/// One storm at a time: a machine cannot run two.
static TURN: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

fn setting(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The storm's length: an equal share of `TORTURE_MINUTES`.
fn storm(topologies: u32) -> Duration {
    let minutes = setting("TORTURE_MINUTES").map(|text| text.parse::<f64>().expect("minutes"));
    minutes.map_or(STORM, |minutes| Duration::from_secs_f64(minutes * 60.0) / topologies)
}

async fn torture(topology: Topology, is_tls: bool) {
    let wanted = setting("TORTURE_TOPOLOGY").filter(|name| name != "all");
    if wanted.as_ref().is_some_and(|name| *name != topology.to_string()) {
        println!("not asked for: {topology}");
        return;
    }
    // `make torture` runs either the storm with TLS or the one without.
    let is_long = setting("TORTURE_MINUTES").is_some();
    if is_long && is_tls != setting("TORTURE_TLS").is_some() {
        println!("not asked for: {topology} {}", if is_tls { "over TLS" } else { "without TLS" });
        return;
    }
    let _turn = TURN.lock().await;
    let seed = setting("TORTURE_SEED").map_or(SEED, |text| text.parse().expect("a seed"));
    let share = if wanted.is_some() { 1 } else { Topology::ALL.len() as u32 };
    let level = setting("TORTURE_DURABILITY")
        .map_or(Level::default_of(topology), |text| text.parse().expect("a durability"));
    let lasts = if is_long || !is_tls { storm(share) } else { STORM_OVER_TLS };
    let mut kinds = Kind::all(topology);
    if let Some(part) = setting("TORTURE_KINDS") {
        kinds.extend(Kind::of_shares());
        kinds.push(Kind::HeldPurged);
        kinds.retain(|kind| part.split(',').any(|part| kind.to_string().contains(part)));
        assert!(!kinds.is_empty(), "no kind of fault has {part:?} in its name");
    }
    let descriptors = setting("TORTURE_DESCRIPTORS")
        .map_or(world::DESCRIPTORS, |text| text.parse().expect("a number"));
    let faults_max = usize::MAX;
    let storm = run::Storm { topology, level, seed, lasts, kinds, faults_max, descriptors, is_tls };
    let report = reported(storm).await;
    assert!(report.is_sound(), "anomalies: {:#?}, void: {:?}", report.anomalies, report.void());
}

/// Runs a storm, and keeps its report.
async fn reported(storm: run::Storm) -> Report {
    // A file that exceeds its limit raises this signal, which would kill redis-server. If it is
    // ignored, the write fails, as on a full disk. Child processes inherit that. SAFETY: no
    // handler is installed, and no other code in this process uses the signal.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    let name = storm.name();
    let report: Report = run::run(storm).await;
    let text = report.text();
    println!("\n{text}");
    let file = run::folder().join(format!("{name}.md"));
    std::fs::write(&file, &text).expect("the report can be written");
    println!("in {}", file.display());
    report
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_goes_wrong_on_a_single_redis() {
    torture(Topology::Single, false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_goes_wrong_with_sentinel() {
    torture(Topology::Sentinel, false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_goes_wrong_on_a_cluster() {
    torture(Topology::Cluster, false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_goes_wrong_on_a_single_redis_over_tls() {
    torture(Topology::Single, true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_goes_wrong_with_sentinel_over_tls() {
    torture(Topology::Sentinel, true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_goes_wrong_on_a_cluster_over_tls() {
    torture(Topology::Cluster, true).await;
}

#[test]
fn the_same_seed_gives_the_same_plan_and_another_seed_another() {
    let of = |seed| plan(seed, Topology::Single, Duration::from_secs(600), FLOWING);
    assert_eq!(of(7), of(7));
    assert_ne!(of(7), of(8));
}

#[test]
fn plan_has_all_kinds_some_at_once_never_two_on_one_victim() {
    for topology in Topology::ALL {
        let plan = plan(1, topology, Duration::from_secs(600), FLOWING);
        let count = |kind: Kind| plan.iter().filter(|fault| fault.kind == kind).count();
        for kind in Kind::all(topology) {
            assert!(count(kind) > 3, "{kind}: {}", count(kind));
        }
        let mut at_once = 0;
        for (index, one) in plan.iter().enumerate() {
            for other in plan[index + 1..].iter().filter(|other| other.at < one.at + one.lasts) {
                at_once += 1;
                assert_ne!(one.kind.victim(one.target), other.kind.victim(other.target));
            }
        }
        assert!(at_once > plan.len() / 10, "{at_once} of {}", plan.len());
    }
}

#[test]
fn short_storm_damages_withdraws_purges_and_cuts_everywhere() {
    for topology in Topology::ALL {
        let plan = plan(SEED, topology, STORM, FLOWING);
        let has = |meant: &dyn Fn(Kind) -> bool| plan.iter().any(|fault| meant(fault.kind));
        for kind in [
            Kind::Damaged,
            Kind::ConnectionsFull,
            Kind::DescriptorsGone,
            Kind::Purged,
            Kind::Removed,
            Kind::ReceiverKilled,
            Kind::ConsumerKilled,
        ] {
            assert!(has(&|one| one == kind), "{topology}: {kind}");
        }
        assert!(has(&|one| matches!(one, Kind::Link(Between::Redis, _))), "{topology}");
        let is_lost =
            |one| matches!(one, Kind::PrimaryKilled | Kind::PrimaryFrozen | Kind::RedisKilled);
        assert!(has(&is_lost), "{topology}");
    }
}
