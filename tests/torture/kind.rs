//! The kinds of faults: whom each strikes, and for how long.

use std::fmt;

use crate::plan::{PODS, Role, Topology};

/// A victim is left alone for so long after a fault, in milliseconds.
const REST_MS: u64 = 1500;
/// The same after a failover: until it is over, and the next one may begin. Sentinels wait for twice
/// their `failover-timeout`.
const REST_SENTINEL_MS: u64 = 20_000;
const REST_CLUSTER_MS: u64 = 15_000;

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
    /// The record or the body of a message is deleted, or overwritten, in Redis.
    Damaged,
    /// The pods' Redis user may not run one command.
    RightsTaken,
    /// The pods' Redis user may not use channels.
    ChannelsTaken,
    /// More connections than a pod takes, and none of them says anything.
    ConnectionsFull,
    /// A pod may not open one more file descriptor.
    DescriptorsGone,
    /// All that waits for a destination is cancelled.
    Purged,
    /// A destination is removed with all that waits for it, made again, and used.
    Removed,
    /// SIGKILL of the receiver that is a process; it is started again later.
    ReceiverKilled,
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
            Kind::Damaged => f.write_str("message damaged in Redis"),
            Kind::RightsTaken => f.write_str("right to a command taken away"),
            Kind::ChannelsTaken => f.write_str("right to channels taken away"),
            Kind::ConnectionsFull => f.write_str("connections of ingest used up"),
            Kind::DescriptorsGone => f.write_str("file descriptors used up"),
            Kind::Purged => f.write_str("purge of a long backlog"),
            Kind::Removed => f.write_str("removal with a long backlog"),
            Kind::ReceiverKilled => f.write_str("receiver killed"),
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
        for between in [Between::Receiver, Between::Ingest, Between::Redis] {
            for trouble in [Trouble::Cut, Trouble::HalfOpen, Trouble::Delayed] {
                all.push(Kind::Link(between, trouble));
            }
        }
        for mood in [Mood::Slow, Mood::Failing, Mood::AnswersThenCuts, Mood::AcceptsThenCuts] {
            all.push(Kind::Receiver(mood));
        }
        all.extend([Kind::WorkerForgets, Kind::ScriptFlush, Kind::MemoryFull]);
        all.extend([Kind::Damaged, Kind::RightsTaken, Kind::ChannelsTaken]);
        all.extend([Kind::ConnectionsFull, Kind::DescriptorsGone]);
        all.extend([Kind::Purged, Kind::Removed, Kind::ReceiverKilled]);
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
            Kind::ReceiverKilled => "receiver that is a process".into(),
            Kind::ConnectionsFull | Kind::DescriptorsGone => {
                format!("{}-{}", Role::ALL[target / PODS].name(), target % PODS + 1)
            }
            Kind::Purged => "backlog to purge".into(),
            Kind::Removed => "backlog to remove".into(),
            Kind::WorkerForgets => "worker".into(),
            _ => "Redis".into(),
        }
    }

    pub fn targets(self, destinations: usize) -> usize {
        match self {
            Kind::Kill(_) | Kind::FreezeShort(_) | Kind::FreezeLong(_) | Kind::Scale(_) => PODS,
            Kind::Link(Between::Redis, _) | Kind::DescriptorsGone => PODS * Role::ALL.len(),
            Kind::Link(Between::Ingest, _) | Kind::ConnectionsFull => PODS,
            Kind::WorkerForgets | Kind::Purged | Kind::Removed | Kind::ReceiverKilled => 1,
            // The last receiver is a process, which knows no moods.
            Kind::Receiver(_) => destinations - 1,
            // Whatever is about Redis strikes the server of a destination.
            _ => destinations,
        }
    }

    /// How long its victim is left alone afterwards, in milliseconds.
    pub fn rest_ms(self, topology: Topology) -> u64 {
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
    pub fn lasts(self) -> std::ops::Range<u64> {
        match self {
            Kind::Kill(_) | Kind::RedisKilled | Kind::PrimaryKilled | Kind::ReceiverKilled => {
                100..1500
            }
            Kind::FreezeShort(_) => 200..900,
            Kind::FreezeLong(_) => 2500..4000,
            Kind::Scale(_) => 0..500,
            Kind::Link(_, Trouble::Delayed) | Kind::Receiver(Mood::Slow) => 1000..3000,
            Kind::Link(_, _) | Kind::Receiver(_) => 500..2000,
            Kind::RedisFrozen => 300..2500,
            Kind::MemoryFull | Kind::DiskFull => 500..2000,
            Kind::RightsTaken | Kind::ChannelsTaken => 500..2000,
            Kind::ConnectionsFull | Kind::DescriptorsGone => 500..2000,
            Kind::PrimaryFrozen => 100..1500,
            Kind::WorkerForgets | Kind::ScriptFlush | Kind::Failover | Kind::SlotsMoved => 0..1,
            Kind::Damaged | Kind::Purged | Kind::Removed => 0..1,
        }
    }
}
