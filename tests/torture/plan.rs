//! The plan of faults, drawn from a seed.

use std::{collections::BTreeMap, fmt, time::Duration};

use rand::{Rng, SeedableRng, rngs::StdRng, seq::SliceRandom};

pub use crate::kind::{Between, Clocks, Kind, Mood, Trouble};

/// Pods of each role.
pub const PODS: usize = 2;
/// The time between the beginnings of two faults, in ms.
const GAP_MS: std::ops::Range<u64> = 400..2100;
/// The most faults of each kind that may wait for their victims before they delay other kinds.
const DECK_KINDS_MAX: usize = 4;
/// The topology of Redis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Topology {
    Single,
    Sentinel,
    Cluster,
}

impl Topology {
    pub const ALL: [Topology; 3] = [Topology::Single, Topology::Sentinel, Topology::Cluster];
}

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Topology::Single => "single",
            Topology::Sentinel => "sentinel",
            Topology::Cluster => "cluster",
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    Ingest,
    Processor,
    Sender,
}

impl Role {
    pub const ALL: [Role; 3] = [Role::Ingest, Role::Processor, Role::Sender];

    pub fn name(self) -> &'static str {
        match self {
            Role::Ingest => "ingest",
            Role::Processor => "processor",
            Role::Sender => "sender",
        }
    }
}

/// One fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Planned {
    pub number: usize,
    /// Time since the beginning of the storm.
    pub at: Duration,
    pub kind: Kind,
    /// The index of the victim among those of this kind.
    pub target: usize,
    pub lasts: Duration,
    /// Bytes until a cut.
    pub bytes: usize,
    /// The delay of delayed connections and slow receivers.
    pub delay: Duration,
}

impl fmt::Display for Planned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Planned { number, at, kind, target, lasts, bytes, delay } = self;
        let at = at.as_secs_f64();
        write!(
            f,
            "{number:4} {at:8.3} s  {kind}: {}, {} ms",
            kind.victim(*target),
            lasts.as_millis()
        )?;
        match kind {
            Kind::Link(_, Trouble::Cut) => write!(f, ", at byte {bytes}"),
            Kind::Clock(_) => write!(f, ", of {target}, by {} ms", clock_step(bytes).as_millis()),
            Kind::Damaged => write!(f, ", of {target}, by {bytes}"),
            Kind::Link(_, Trouble::Delayed) | Kind::Receiver(Mood::Slow) => {
                write!(f, ", by {} ms", delay.as_millis())
            }
            _ => Ok(()),
        }
    }
}

/// The size of a clock's step: longer than all leases and kept answers last.
pub fn clock_step(drawn: &usize) -> Duration {
    Duration::from_millis(61_000 + 50 * *drawn as u64)
}

/// The faults of a storm of this length. The same seed gives the same plan.
pub fn plan(seed: u64, topology: Topology, storm: Duration, destinations: usize) -> Vec<Planned> {
    plan_of(Kind::all(topology), seed, topology, storm, destinations)
}

/// Like `plan`, for only some kinds.
pub fn plan_of(
    kinds: Vec<Kind>,
    seed: u64,
    topology: Topology,
    storm: Duration,
    destinations: usize,
) -> Vec<Planned> {
    let mut random = StdRng::seed_from_u64(seed);
    let mut deck: Vec<Kind> = Vec::new();
    let mut busy: BTreeMap<String, u64> = BTreeMap::new();
    let mut planned = Vec::new();
    let mut at = 0;
    while at < storm.as_millis() as u64 {
        let is_free = |kind: &Kind| {
            let targets = 0..kind.targets(destinations);
            targets
                .map(|target| kind.victim(target))
                .any(|victim| busy.get(&victim).is_none_or(|until| *until <= at))
        };
        // Adds a fresh deck when no kind in the deck has a free victim. The waiting kinds stay on
        // top.
        if deck.len() < DECK_KINDS_MAX * kinds.len() && !deck.iter().any(is_free) {
            let mut fresh = kinds.clone();
            fresh.shuffle(&mut random);
            fresh.append(&mut deck);
            deck = fresh;
        }
        // Draws the first kind of the deck whose victim is free, so each kind occurs equally often.
        let drawn = (0..deck.len()).rev().find_map(|index| {
            let kind = deck[index];
            let target = random.random_range(0..kind.targets(destinations));
            let is_free = busy.get(&kind.victim(target)).is_none_or(|until| *until <= at);
            is_free.then_some((index, kind, target))
        });
        if let Some((index, kind, target)) = drawn {
            deck.remove(index);
            let lasts = random.random_range(kind.lasts());
            let bytes = random.random_range(1..2000);
            let delay = Duration::from_millis(random.random_range(20..250));
            busy.insert(kind.victim(target), at + lasts + kind.rest_ms(topology));
            let (number, lasts) = (planned.len() + 1, Duration::from_millis(lasts));
            let at = Duration::from_millis(at);
            planned.push(Planned { number, at, kind, target, lasts, bytes, delay });
        }
        at += random.random_range(GAP_MS);
    }
    planned
}
