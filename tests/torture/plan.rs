//! What goes wrong, and when: drawn from a seed.

use std::{collections::BTreeMap, fmt, time::Duration};

use rand::{Rng, SeedableRng, rngs::StdRng, seq::SliceRandom};

/// Pods of each role.
pub const PODS: usize = 2;
/// The time between the beginnings of two faults, in milliseconds.
const GAP_MS: std::ops::Range<u64> = 400..2100;
/// Those that wait for their victims do not hold the others up before each kind waits so often.
const DECK_KINDS_MAX: usize = 4;
/// A victim is left alone for so long after a fault, in milliseconds.
const REST_MS: u64 = 1500;
/// The same after a failover: until it is over, and the next one may begin. Sentinels wait for twice
/// their `failover-timeout`.
const REST_SENTINEL_MS: u64 = 20_000;
const REST_CLUSTER_MS: u64 = 15_000;

/// Which Redis the pods talk to.
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

/// Which connections a [`Kind::Link`] is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Between {
    /// A pod and Redis.
    Redis,
    /// The senders and a receiver.
    Receiver,
    /// The producers and an ingest pod.
    Ingest,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trouble {
    Cut,
    HalfOpen,
    Delayed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mood {
    Slow,
    Failing,
    /// Accepts, answers, and cuts the connection.
    AnswersThenCuts,
    /// Accepts, and cuts the connection in place of an answer.
    AcceptsThenCuts,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// SIGKILL; another one is started later.
    Kill(Role),
    /// SIGSTOP and SIGCONT, within the leases.
    FreezeShort(Role),
    /// The same, for longer than any lease.
    FreezeLong(Role),
    /// A pod stops cleanly, and another one is started.
    Scale(Role),
    Link(Between, Trouble),
    Receiver(Mood),
    /// A worker forgets what it has leased.
    WorkerForgets,
    RedisKilled,
    RedisFrozen,
    /// A replica takes over; the killed one comes back as its replica.
    PrimaryKilled,
    /// The same, and the frozen one comes back believing that it still is the primary.
    PrimaryFrozen,
    /// A replica takes over while its primary lives.
    Failover,
    SlotsMoved,
    ScriptFlush,
    /// `maxmemory` is what is used.
    MemoryFull,
    /// Redis cannot write its append-only file.
    DiskFull,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Kill(role) => write!(f, "{} killed", role.name()),
            Kind::FreezeShort(role) => write!(f, "{} frozen within its lease", role.name()),
            Kind::FreezeLong(role) => write!(f, "{} frozen beyond its lease", role.name()),
            Kind::Scale(role) => write!(f, "{} replaced", role.name()),
            Kind::Link(between, trouble) => {
                let trouble = match trouble {
                    Trouble::Cut => "cut at a byte",
                    Trouble::HalfOpen => "half-open",
                    Trouble::Delayed => "delayed",
                };
                let between = match between {
                    Between::Redis => "Redis",
                    Between::Receiver => "receiver",
                    Between::Ingest => "ingest",
                };
                write!(f, "connections to {between} {trouble}")
            }
            Kind::Receiver(Mood::Slow) => f.write_str("receiver slow"),
            Kind::Receiver(Mood::Failing) => f.write_str("receiver failing"),
            Kind::Receiver(Mood::AnswersThenCuts) => f.write_str("receiver answers, then cuts"),
            Kind::Receiver(Mood::AcceptsThenCuts) => f.write_str("receiver accepts, then cuts"),
            Kind::WorkerForgets => f.write_str("worker forgets its leases"),
            Kind::RedisKilled => f.write_str("Redis killed and restarted"),
            Kind::RedisFrozen => f.write_str("Redis frozen"),
            Kind::PrimaryKilled => f.write_str("primary killed"),
            Kind::PrimaryFrozen => f.write_str("primary frozen, and back"),
            Kind::Failover => f.write_str("failover asked for"),
            Kind::SlotsMoved => f.write_str("slots moved"),
            Kind::ScriptFlush => f.write_str("SCRIPT FLUSH"),
            Kind::MemoryFull => f.write_str("Redis out of memory"),
            Kind::DiskFull => f.write_str("disk full"),
        }
    }
}

impl Kind {
    /// All that there are for a topology.
    pub fn all(topology: Topology) -> Vec<Kind> {
        let mut all = Vec::new();
        for role in Role::ALL {
            all.extend([Kind::Kill(role), Kind::FreezeLong(role), Kind::Scale(role)]);
        }
        all.extend([Kind::FreezeShort(Role::Processor), Kind::FreezeShort(Role::Sender)]);
        let mut between = vec![Between::Receiver, Between::Ingest];
        if topology == Topology::Single {
            between.push(Between::Redis);
        }
        for between in between {
            for trouble in [Trouble::Cut, Trouble::HalfOpen, Trouble::Delayed] {
                all.push(Kind::Link(between, trouble));
            }
        }
        for mood in [Mood::Slow, Mood::Failing, Mood::AnswersThenCuts, Mood::AcceptsThenCuts] {
            all.push(Kind::Receiver(mood));
        }
        all.extend([Kind::WorkerForgets, Kind::ScriptFlush, Kind::MemoryFull]);
        if topology != Topology::Sentinel {
            // To sentinels a primary that answers PING with MISCONF is dead: they make another one
            // the primary, and what the old one takes in until it hears of it is lost.
            all.push(Kind::DiskFull);
        }
        match topology {
            Topology::Single => all.extend([Kind::RedisKilled, Kind::RedisFrozen]),
            Topology::Sentinel => {
                all.extend([Kind::PrimaryKilled, Kind::PrimaryFrozen, Kind::Failover]);
            }
            Topology::Cluster => {
                all.extend([Kind::PrimaryKilled, Kind::PrimaryFrozen, Kind::Failover]);
                all.push(Kind::SlotsMoved);
            }
        }
        all
    }

    /// Those of one group are not struck by two faults at once. With `targets` to choose from.
    pub fn victim(self, target: usize) -> String {
        match self {
            Kind::Kill(role)
            | Kind::FreezeShort(role)
            | Kind::FreezeLong(role)
            | Kind::Scale(role) => format!("{}-{}", role.name(), target + 1),
            Kind::Link(between, _) => format!("{between:?} link {}", target + 1),
            Kind::Receiver(_) => format!("receiver {}", target + 1),
            Kind::WorkerForgets => "worker".into(),
            _ => "Redis".into(),
        }
    }

    fn targets(self, destinations: usize) -> usize {
        match self {
            Kind::Kill(_) | Kind::FreezeShort(_) | Kind::FreezeLong(_) | Kind::Scale(_) => PODS,
            Kind::Link(Between::Redis, _) => PODS * Role::ALL.len(),
            Kind::Link(Between::Ingest, _) => PODS,
            Kind::WorkerForgets => 1,
            // Whatever is about Redis strikes the server of a destination.
            _ => destinations,
        }
    }

    /// How long its victim is left alone afterwards, in milliseconds.
    fn rest_ms(self, topology: Topology) -> u64 {
        match (self, topology) {
            (Kind::PrimaryKilled | Kind::PrimaryFrozen | Kind::Failover, Topology::Sentinel) => {
                REST_SENTINEL_MS
            }
            (
                Kind::PrimaryKilled | Kind::PrimaryFrozen | Kind::Failover | Kind::SlotsMoved,
                Topology::Cluster,
            ) => REST_CLUSTER_MS,
            _ => REST_MS,
        }
    }

    /// How long it lasts, in milliseconds.
    fn lasts(self) -> std::ops::Range<u64> {
        match self {
            Kind::Kill(_) | Kind::RedisKilled | Kind::PrimaryKilled => 100..1500,
            Kind::FreezeShort(_) => 200..900,
            Kind::FreezeLong(_) => 2500..4000,
            Kind::Scale(_) => 0..500,
            Kind::Link(_, Trouble::Delayed) | Kind::Receiver(Mood::Slow) => 1000..3000,
            Kind::Link(_, _) | Kind::Receiver(_) => 500..2000,
            Kind::RedisFrozen => 300..2500,
            Kind::MemoryFull | Kind::DiskFull => 500..2000,
            Kind::PrimaryFrozen => 100..1500,
            Kind::WorkerForgets | Kind::ScriptFlush | Kind::Failover | Kind::SlotsMoved => 0..1,
        }
    }
}

/// One fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Planned {
    pub number: usize,
    /// From the beginning of the storm.
    pub at: Duration,
    pub kind: Kind,
    /// Which of those that a fault of this kind can strike.
    pub target: usize,
    pub lasts: Duration,
    /// Bytes until a cut.
    pub bytes: usize,
    /// The delay of what is delayed or slow.
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
            Kind::Link(_, Trouble::Delayed) | Kind::Receiver(Mood::Slow) => {
                write!(f, ", by {} ms", delay.as_millis())
            }
            _ => Ok(()),
        }
    }
}

/// The faults of a storm that lasts so long. The same seed gives the same plan.
pub fn plan(seed: u64, topology: Topology, storm: Duration, destinations: usize) -> Vec<Planned> {
    let mut random = StdRng::seed_from_u64(seed);
    let kinds = Kind::all(topology);
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
        // What waits for its victim is not forgotten, and nothing waits for it.
        if deck.len() < DECK_KINDS_MAX * kinds.len() && !deck.iter().any(is_free) {
            let mut fresh = kinds.clone();
            fresh.shuffle(&mut random);
            fresh.append(&mut deck);
            deck = fresh;
        }
        // The first of the deck whose victim is free: so each kind comes equally often.
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
