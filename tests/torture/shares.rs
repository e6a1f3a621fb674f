//! Storms with faults that move clocks, make Redis refuse, or take places of pods with few file
//! descriptors. `make torture-shares FAULTS=1000` runs as many storms as that number needs.

use std::{
    fmt::{self, Display},
    time::{Duration, Instant},
};

use crate::{
    TURN,
    level::Level,
    plan::{Kind, Planned, Topology, plan_of},
    report::Report,
    reported,
    run::Storm,
    setting,
    world::FLOWING,
};

/// A seed whose short plans have each kind.
const SEED: u64 = 1;
/// The default number of faults in each storm.
const FAULTS: usize = 18;
/// This many storms share the requested number of faults: six on each topology.
const STORMS: usize = 18;
/// The most file descriptors of a pod.
const DESCRIPTORS: u32 = 256;
/// A plan of this length has more faults than a storm.
const PLAN: Duration = Duration::from_secs(3600);
/// No storm begins later than this.
const BEGIN_MAX: Duration = Duration::from_secs(160 * 60);

fn storm(topology: Topology, seed: u64, faults_max: usize) -> Storm {
    Storm {
        topology,
        level: Level::default_of(topology),
        seed,
        lasts: PLAN,
        kinds: Kind::of_shares(),
        faults_max,
        descriptors: DESCRIPTORS,
        is_tls: false,
    }
}

/// The results of all storms.
#[derive(Default)]
struct Table(Vec<Report>);

impl Table {
    /// The faults of the storms that are not void.
    fn faults(&self) -> usize {
        self.sum(|report| report.faults.len())
    }

    fn sum(&self, of: impl Fn(&Report) -> usize) -> usize {
        self.0.iter().filter(|report| report.void().is_empty()).map(of).sum()
    }

    fn row(
        &self,
        f: &mut fmt::Formatter<'_>,
        name: &str,
        of: impl Fn(&Report) -> usize,
    ) -> fmt::Result {
        write!(f, "| {name} |")?;
        for topology in Topology::ALL {
            let count = self.sum(|report| if report.topology == topology { of(report) } else { 0 });
            write!(f, " {count} |")?;
        }
        writeln!(f, " {} |", self.sum(of))
    }
}

impl Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "| fault | single | sentinel | cluster | in all |\n| --- | ---: | ---: | ---: | ---: |"
        )?;
        for kind in Kind::of_shares() {
            self.row(f, &kind.to_string(), |report| {
                report.faults.iter().filter(|fault| fault.planned.kind == kind).count()
            })?;
        }
        self.row(f, "**faults**", |report| report.faults.len())?;
        self.row(f, "at the same time as another", Report::overlapping)?;
        self.row(f, "storms", |_| 1)?;
        self.row(f, "messages acknowledged", |report| report.acknowledged)?;
        self.row(f, "repeated, all recognisable", |report| report.found.repeats)?;
        self.row(f, "anomalies", |report| report.anomalies.total())?;
        let void = self.0.iter().filter(|report| !report.void().is_empty());
        let (count, found) =
            (void.clone().count(), void.map(|one| one.anomalies.total()).sum::<usize>());
        writeln!(f, "\nVoid, and not counted: {count} storms, with {found} anomalies.")
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_goes_wrong_where_clocks_move_and_places_run_out() {
    if setting("TORTURE_MINUTES").is_some() {
        println!("not asked for: make torture-shares");
        return;
    }
    let _turn = TURN.lock().await;
    let wanted = setting("TORTURE_FAULTS").map(|text| text.parse::<usize>().expect("a number"));
    let seed = setting("TORTURE_SEED").map_or(SEED, |text| text.parse().expect("a seed"));
    let faults_max = wanted.map_or(FAULTS, |wanted| wanted.div_ceil(STORMS));
    let (begun, mut table) = (Instant::now(), Table::default());
    let one = setting("TORTURE_TOPOLOGY").filter(|name| name != "all");
    // `make test` has no time for an additional storm on a cluster.
    let is_wanted = |of: &Topology| match &one {
        Some(name) => *name == of.to_string(),
        None => wanted.is_some() || *of != Topology::Cluster,
    };
    let topologies: Vec<Topology> = Topology::ALL.into_iter().filter(is_wanted).collect();
    for (round, topology) in topologies.iter().copied().cycle().enumerate() {
        let is_enough = match wanted {
            Some(wanted) => table.faults() >= wanted || begun.elapsed() > BEGIN_MAX,
            None => round == topologies.len(),
        };
        if is_enough {
            break;
        }
        let round = (round / topologies.len()) as u64;
        table.0.push(reported(storm(topology, seed + round, faults_max)).await);
        println!("\nafter {} minutes:\n\n{table}", begun.elapsed().as_secs() / 60);
    }
    let file = crate::run::folder().join("shares.md");
    std::fs::write(&file, table.to_string()).expect("the table can be written");
    println!("in {}", file.display());
    for report in &table.0 {
        assert!(report.is_sound(), "anomalies: {:#?}, void: {:?}", report.anomalies, report.void());
    }
    assert!(table.faults() >= wanted.unwrap_or_default(), "{} faults", table.faults());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_goes_wrong_for_consumers_of_a_purged_destination() {
    let _turn = TURN.lock().await;
    let topology = Topology::Single;
    let usual = storm(topology, SEED + 2, FAULTS);
    let kinds = Kind::of_consumers();
    let report = reported(Storm { kinds, descriptors: crate::world::DESCRIPTORS, ..usual }).await;
    let purges = report.faults.iter().filter(|fault| fault.planned.kind == Kind::HeldPurged);
    assert!(purges.count() > 0, "no purge");
    assert!(report.is_sound(), "anomalies: {:#?}, void: {:?}", report.anomalies, report.void());
}

#[test]
fn a_short_storm_of_shares_has_each_kind_on_each_topology() {
    for topology in Topology::ALL {
        let Storm { kinds, seed, .. } = storm(topology, SEED, FAULTS);
        let plan = plan_of(kinds, seed, topology, PLAN, FLOWING);
        let has = |kind: Kind| plan[..FAULTS].iter().any(|fault: &Planned| fault.kind == kind);
        for kind in Kind::of_shares() {
            assert!(has(kind), "{topology}: {kind}");
        }
        let lasts = plan[FAULTS - 1].at;
        assert!(lasts < Duration::from_secs(60), "{topology}: {lasts:?}");
    }
}
